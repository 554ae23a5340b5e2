//! `bora show`: asks the daemon for a report and prints it as a text or as JSON.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use bora_daemon::{REPORTS, Report, Request};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::arguments::ProveOptions;
use crate::{client, prove};
use bora_terminal::{print, say};

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    #[command(subcommand)]
    pub(crate) what: ShowWhat,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show again every second
    #[arg(short, long, global = true)]
    pub(crate) watch: bool,
}

/// A report, and what was asked for.
#[derive(Clone, Debug)]
pub(crate) struct ShowWhat {
    report: &'static Report,
    request: Request,
}

pub(crate) fn show(options: ShowOptions) -> anyhow::Result<()> {
    if options
        .what
        .request
        .flags
        .iter()
        .any(|flag| flag == "prove")
    {
        prove::wait(&ProveOptions::default())?;
    }
    loop {
        let text = options.what.text(options.json)?;
        if options.watch && std::io::stdout().is_terminal() {
            print(format_args!("\x1b[H\x1b[2J"))?;
        }
        say!("{}", text.trim_end())?;
        if !options.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// `bora profile`: has the workers measure, and shows what they found.
pub(crate) fn profile(seconds: u64) -> anyhow::Result<()> {
    /// Until the last numbers are published: sleeping workers take their time.
    const LATE: Duration = Duration::from_millis(100);
    client::post(&format!("/v1/profile?seconds={seconds}"))?;
    std::thread::sleep(Duration::from_secs(seconds) + LATE);
    let report = REPORTS.iter().find(|report| report.name == "profile");
    let what = ShowWhat {
        report: report.context("a report of profiles")?,
        request: Request::default(),
    };
    say!("{}", what.text(false)?.trim_end())?;
    Ok(())
}

impl ShowWhat {
    fn text(&self, json: bool) -> anyhow::Result<String> {
        let text = client::get(&self.report.url(&self.request))?;
        if json {
            let value: serde_json::Value = serde_json::from_str(&text)?;
            return Ok(serde_json::to_string_pretty(&value)?);
        }
        self.report.text(&text, &self.request)
    }
}

/// The subcommand that shows a report.
fn command(report: &'static Report) -> Command {
    let command = Command::new(report.name).about(report.help);
    let command = command.args(report.argument.map(|argument| {
        let check = move |text: &str| (argument.check)(text);
        let arg = Arg::new(argument.name).help(argument.help);
        arg.value_parser(check).required(true)
    }));
    command.args(report.flags.iter().map(|&(name, help)| {
        let arg = Arg::new(name).long(name).help(help);
        arg.action(ArgAction::SetTrue)
    }))
}

impl Subcommand for ShowWhat {
    fn augment_subcommands(show: Command) -> Command {
        show.subcommands(REPORTS.iter().map(command))
    }

    fn augment_subcommands_for_update(show: Command) -> Command {
        Self::augment_subcommands(show)
    }

    fn has_subcommand(name: &str) -> bool {
        REPORTS.iter().any(|report| report.name == name)
    }
}

impl FromArgMatches for ShowWhat {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let mut reports = REPORTS.iter();
        let report = reports.find(|report| report.name == name);
        let report = report.ok_or_else(missing)?;
        let argument = report.argument.and_then(|argument| {
            let given: Option<&String> = matches.get_one(argument.name);
            given.cloned()
        });
        let flags = report.flags.iter().map(|(flag, _)| *flag);
        let flags = flags.filter(|flag| matches.get_flag(flag));
        let request = Request {
            argument: argument.unwrap_or_default(),
            flags: flags.map(Into::into).collect(),
            secrets: false,
        };
        Ok(Self { report, request })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
