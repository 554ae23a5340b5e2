//! The command line of Bora's tester of routers.
#![forbid(unsafe_code)]

mod arguments;
mod lab;
mod reports;
mod run;

use std::process::ExitCode;

use bora_terminal::{complain, print, say};
use bora_tester::plan::{self, Plan, shipped};

use arguments::{Arguments, TestCommand};

fn main() -> ExitCode {
    bora_terminal::main(|typed: &Arguments| typed.verbose, dispatch)
}

fn dispatch(typed: Arguments) -> anyhow::Result<ExitCode> {
    match typed.command {
        TestCommand::Run(options) => {
            return run::test_run(*options);
        }
        TestCommand::Plans => reports::plans()?,
        TestCommand::Show { plan } => match shipped(&plan) {
            Some(text) => print(format_args!("{text}"))?,
            None => print(format_args!("{}", Plan::read(&plan)?.1))?,
        },
        TestCommand::Check { plan } => {
            let (read, _) = Plan::read(&plan)?;
            say!("{plan}: good, {} tests", read.tests.len())?;
        }
        TestCommand::Pages(pages) => pages.write::<Arguments>()?,
        TestCommand::Schema => say!("{:#}", plan::schema())?,
        TestCommand::Report { file, output } => reports::render(&file, output.as_deref())?,
        TestCommand::Compare { a, b, json } => {
            // 1 says that the reports differ
            return Ok(reports::compare(&a, &b, json).unwrap_or_else(|error| complain(&error, 2)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
