//! `bora lab`: networks on one machine.

use std::process::ExitCode;

use crate::arguments::LabCommand;

pub(crate) fn lab(command: LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Demo { rate } => bora_lab::demo::run(rate)?,
    }
    Ok(ExitCode::SUCCESS)
}
