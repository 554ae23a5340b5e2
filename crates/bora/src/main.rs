//! The command line of Bora, a software router for Linux.
#![forbid(unsafe_code)]

mod apply;
mod arguments;
mod check;
mod client;
mod fib;
mod lab;
mod notify;
mod output;
mod run;
mod save;
mod show;
mod support;
mod test;
mod top;
mod watch;
mod web;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command, FibCommand, SetCommand};
use output::{Output, complain, say};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    log_to_the_right_place(arguments.verbose);
    let done = dispatch(arguments.command);
    let done = done.and_then(|code| Ok(Output.flush().map(|()| code)?));
    done.unwrap_or_else(|error| complain(&error, 1))
}

/// To systemd's journal with fields of their own (`journalctl -u bora WHO=alice`), if that is where standard error goes;
/// else as lines on standard error.
fn log_to_the_right_place(verbose: bool) {
    let level = if verbose { "debug" } else { "info" };
    let asked = std::env::var("RUST_LOG");
    if systemd_journal_logger::connected_to_journal()
        && let Ok(level) = asked.as_deref().unwrap_or(level).parse()
        && let Ok(journal) = systemd_journal_logger::JournalLog::new()
        && journal
            .with_syslog_identifier("bora".into())
            .install()
            .is_ok()
    {
        log::set_max_level(level);
        return;
    }
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format_timestamp_millis()
        .format_target(false)
        .init();
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(options) => run::run(options).map(|()| ExitCode::SUCCESS),
        Command::Show(options) => show::show(options).map(|()| ExitCode::SUCCESS),
        Command::Top(options) => top::top(&options).map(|()| ExitCode::SUCCESS),
        Command::Web(options) => web::web(options).map(|()| ExitCode::SUCCESS),
        Command::Set(SetCommand::Mode { mode, worker }) => {
            let worker = worker.map(|n| format!("&worker={n}")).unwrap_or_default();
            client::post(&format!("/v1/workers?mode={mode}{worker}")).map(|_| ExitCode::SUCCESS)
        }
        Command::Profile { seconds } => show::profile(seconds).map(|()| ExitCode::SUCCESS),
        Command::Capture(options) => watch::capture(&options).map(|()| ExitCode::SUCCESS),
        Command::Trace(options) => watch::trace(&options).map(|()| ExitCode::SUCCESS),
        Command::Apply(options) => apply::apply(&options).map(|()| ExitCode::SUCCESS),
        Command::Diff { what } => apply::diff(&what).map(|()| ExitCode::SUCCESS),
        Command::Rollback { number, confirm } => {
            apply::rollback(number, confirm).map(|()| ExitCode::SUCCESS)
        }
        Command::Support { file } => support::support(&file).map(|()| ExitCode::SUCCESS),
        Command::Confirm => apply::confirm().map(|()| ExitCode::SUCCESS),
        Command::Stop { detach } => run::stop(detach).map(|()| ExitCode::SUCCESS),
        Command::Check {
            config: None,
            ports,
            interrupt,
            ..
        } => check::check(&ports, interrupt),
        Command::Check {
            config: Some(path),
            elsewhere,
            ..
        } => check::file(&path, elsewhere).map(|()| ExitCode::SUCCESS),
        Command::Save { file } => save::save(file.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Schema => {
            say!("{:#}", bora_router::schema())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Fib(FibCommand::Bench(options)) => {
            fib::bench(&options).map(|()| ExitCode::SUCCESS)
        }
        Command::Lab(command) => lab::lab(command),
        Command::Test(command) => test::test(command),
        Command::Completions { shell } => {
            // into memory: it panics where it cannot write
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "bora", &mut script);
            Output.write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { directory } => {
            match directory {
                Some(directory) => clap_mangen::generate_to(Arguments::command(), directory)?,
                None => clap_mangen::Man::new(Arguments::command()).render(&mut Output)?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
