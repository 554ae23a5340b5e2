//! The command line of Bora's laboratory.
#![forbid(unsafe_code)]

mod arguments;
mod experiments;
mod fib;

use std::process::ExitCode;

use bora_terminal::{Output, print};

use arguments::{Arguments, LabCommand};

fn main() -> ExitCode {
    bora_terminal::main(|typed: &Arguments| typed.verbose, dispatch)
}

fn dispatch(typed: Arguments) -> anyhow::Result<ExitCode> {
    match typed.command {
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
