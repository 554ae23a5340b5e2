//! `bora upgrade`: this binary takes the place of the Bora that runs, with `--canary` once it does the same with the same packets.

mod canary;
mod compare;
mod successor;

use std::process::ExitCode;

use anyhow::{Context, ensure};
use bora_daemon::{File, check_machine};
use bora_terminal::say;

use crate::arguments::UpgradeOptions;
use crate::client;
use successor::Running;

pub(crate) fn upgrade(options: &UpgradeOptions) -> anyhow::Result<ExitCode> {
    let running = Running::find()?;
    if !options.dry_run {
        running.can_be_replaced()?;
    }
    let before = client::get("/v1/config")?;
    let file: File = serde_json::from_str(&before)
        .context("this binary does not know the configuration in force")?;
    check_machine(&file)?;
    if options.canary {
        let found = canary::compare(&file, options)?;
        found.report()?;
        if !found.is_equal() {
            return Ok(ExitCode::FAILURE);
        }
        ensure!(
            client::get("/v1/config")? == before,
            "the configuration was changed meanwhile, and nothing is replaced: compare again"
        );
    }
    if options.dry_run {
        say!("nothing is replaced (--dry-run)")?;
        return Ok(ExitCode::SUCCESS);
    }
    running.replace(&file).map(|()| ExitCode::SUCCESS)
}
