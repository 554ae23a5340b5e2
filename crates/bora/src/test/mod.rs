//! `bora test`: plans, reports, comparisons.

mod lab;
mod run;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use bora_tester::plan::{self, Plan, SHIPPED, shipped};
use bora_tester::report;

use crate::arguments::TestCommand;
use crate::output::{complain, print, say};

/// Width of tables where the terminal's is not known.
const WIDTH: usize = 120;

pub(crate) fn test(command: TestCommand) -> anyhow::Result<ExitCode> {
    match command {
        TestCommand::Run(options) => {
            return run::test_run(*options);
        }
        TestCommand::Plans => plans()?,
        TestCommand::Show { plan } => match shipped(&plan) {
            Some(text) => print(format_args!("{text}"))?,
            None => print(format_args!("{}", Plan::read(&plan)?.1))?,
        },
        TestCommand::Check { plan } => {
            let (read, _) = Plan::read(&plan)?;
            say!("{plan}: good, {} tests", read.tests.len())?;
        }
        TestCommand::Schema => say!("{:#}", plan::schema())?,
        TestCommand::Report { file, output } => render(&file, output.as_deref())?,
        TestCommand::Compare { a, b, json } => {
            // 1 says that the reports differ
            return Ok(compare(&a, &b, json).unwrap_or_else(|error| complain(&error, 2)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Names and titles of the plans that come with Bora.
fn plans() -> anyhow::Result<()> {
    for (name, text) in SHIPPED {
        say!("{name:<14}{}", Plan::parse(text)?.title)?;
    }
    Ok(())
}

fn render(file: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let found = report::read(file)?;
    match output {
        Some(output) => report::write_html(&found, output),
        None => {
            print(format_args!("{}", report::table(&found, WIDTH)))?;
            Ok(())
        }
    }
}

fn compare(a: &Path, b: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let found = report::compare(&report::read(a)?, &report::read(b)?);
    match json {
        true => {
            let text = serde_json::to_string_pretty(&found).context("cannot write JSON")?;
            say!("{text}")?;
        }
        false => print(format_args!("{found}"))?,
    }
    Ok(ExitCode::from(found.exit_code()))
}
