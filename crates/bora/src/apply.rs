//! `bora apply`, `bora confirm`, `bora diff` and `bora rollback`.

use anyhow::Context;
use bora_router::{ApplyReport, File};

use crate::arguments::ApplyOptions;
use crate::client;
use crate::output::{remark, say};

/// Makes a file the configuration in force, and prints what was changed.
pub(crate) fn apply(options: &ApplyOptions) -> anyhow::Result<()> {
    // here, so that an error names the file and needs no running Bora, and for the files that it names
    let file = File::read(&options.file)?;
    for warning in file.warnings() {
        remark(format_args!("warning: {warning}"));
    }
    apply_text(file.to_text()?, options.confirm, options.dry_run)
}

fn apply_text(text: String, confirm: Option<u64>, dry_run: bool) -> anyhow::Result<()> {
    let mut path = format!("/v1/apply?dry_run={dry_run}");
    if let Some(seconds) = confirm {
        path += &format!("&confirm={seconds}");
    }
    let report: ApplyReport = serde_json::from_str(&client::post_text(&path, text)?)?;
    for action in &report.actions {
        say!("{action}")?;
    }
    if report.actions.is_empty() {
        say!("nothing to change")?;
    } else if dry_run {
        say!("nothing was changed (--dry-run)")?;
    }
    if let Some(seconds) = report.confirm_seconds {
        say!("type `bora confirm` within {seconds} s to keep this")?;
    }
    Ok(())
}

/// Keeps what was applied.
pub(crate) fn confirm() -> anyhow::Result<()> {
    client::post("/v1/confirm")?;
    say!("confirmed")?;
    Ok(())
}

/// Prints what another configuration would change.
pub(crate) fn diff(what: &str) -> anyhow::Result<()> {
    let new = match what.parse::<u64>() {
        Ok(number) => File::parse(&client::get(&format!("/v1/history/{number}"))?)?,
        Err(_) => File::read(what.as_ref())?,
    };
    let old: File = serde_json::from_str(&client::get("/v1/config")?)?;
    let lines = bora_router::differences(&old, &new);
    match lines.is_empty() {
        true => say!("no difference")?,
        false => say!("{}", lines.join("\n"))?,
    }
    Ok(())
}

/// Puts an earlier configuration into force again.
pub(crate) fn rollback(number: Option<u64>, confirm: Option<u64>) -> anyhow::Result<()> {
    let number = match number {
        Some(number) => number,
        None => before_the_last()?,
    };
    apply_text(
        client::get(&format!("/v1/history/{number}"))?,
        confirm,
        false,
    )
}

fn before_the_last() -> anyhow::Result<u64> {
    let entries: serde_json::Value = serde_json::from_str(&client::get("/v1/history")?)?;
    let numbers = entries.as_array().into_iter().flatten().rev();
    let mut numbers = numbers.filter_map(|entry| entry["number"].as_u64());
    numbers
        .nth(1)
        .context("no configuration was in force before this one")
}
