//! The command line of Bora's laboratory.
#![forbid(unsafe_code)]

mod arguments;
mod experiments;
mod fib;

use std::process::ExitCode;

use bora_terminal::{Output, print};
use clap::Parser;

use arguments::{Arguments, LabCommand};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return bora_terminal::usage(&error),
    };
    bora_terminal::log_to_the_right_place(arguments.verbose);
    bora_terminal::conclude(dispatch(arguments.command))
}

fn dispatch(command: LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::List => print(format_args!("{}", bora_papers::list()?))?,
        LabCommand::Run(options) => return experiments::run(&options),
        LabCommand::Demo { rate } => {
            bora_network::demo::run(&bora_terminal::beside("bora"), rate, &mut Output)?;
        }
        LabCommand::Fib(options) => fib::bench(&options)?,
        LabCommand::Pages(pages) => pages.write::<Arguments>()?,
    }
    Ok(ExitCode::SUCCESS)
}
