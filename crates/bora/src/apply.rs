//! `bora apply` and `bora confirm`.

use bora_router::{ApplyReport, File};

use crate::arguments::ApplyOptions;
use crate::client;

/// Makes a file the configuration in force, and prints what was changed.
pub(crate) fn apply(options: &ApplyOptions) -> anyhow::Result<()> {
    // here, so that an error names the file and needs no running Bora, and for the files that it names
    let text = File::read(&options.file)?.to_text()?;
    let mut path = format!("/v1/apply?dry_run={}", options.dry_run);
    if let Some(seconds) = options.confirm {
        path += &format!("&confirm={seconds}");
    }
    let report: ApplyReport = serde_json::from_str(&client::post_text(&path, text)?)?;
    for action in &report.actions {
        anstream::println!("{action}");
    }
    if report.actions.is_empty() {
        anstream::println!("nothing to change");
    } else if options.dry_run {
        anstream::println!("nothing was changed (--dry-run)");
    }
    if let Some(seconds) = report.confirm_seconds {
        anstream::println!("type `bora confirm` within {seconds} s to keep this");
    }
    Ok(())
}

/// Keeps what was applied.
pub(crate) fn confirm() -> anyhow::Result<()> {
    client::post("/v1/confirm")?;
    anstream::println!("confirmed");
    Ok(())
}
