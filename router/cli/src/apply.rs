//! `bora apply`, `bora confirm`, `bora diff` and `bora rollback`.

use anyhow::Context;
use bora_daemon::{ApplyReport, File};
use similar::TextDiff;

use crate::arguments::ApplyOptions;
use crate::client;
use bora_terminal::{print, remark, say};

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
    let old: File = serde_json::from_str(&client::get("/v1/config")?)?;
    let changed = changed_lines(&old, &File::parse(&text)?)?;
    let report: ApplyReport = serde_json::from_str(&client::post_text(&path, text)?)?;
    print(format_args!("{changed}"))?;
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
    let changed = changed_lines(&old, &new)?;
    match changed.is_empty() {
        true => say!("no difference")?,
        false => print(format_args!("{changed}"))?,
    }
    Ok(())
}

/// The lines of the files that differ, `-` for what is in force and `+` for what will be, with some lines around them. In
/// front is the section, if its head is not among them.
fn changed_lines(old: &File, new: &File) -> anyhow::Result<String> {
    const AROUND: usize = 2;
    let (old, new) = (old.to_text()?, new.to_text()?);
    let lines: Vec<&str> = new.lines().collect();
    let mut text = String::new();
    let diff = TextDiff::from_lines(&old, &new);
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        let first = hunk.ops().first().map_or(0, |op| op.new_range().start);
        let mut until = lines.iter().take(first + 1).rev();
        let head = until.position(|line| line.starts_with('['));
        if let Some(above) = head.filter(|above| *above > 0) {
            text += &format!("in {}\n", lines[first.min(lines.len() - 1) - above]);
        }
        for change in hunk.iter_changes() {
            text += &format!("{} {}\n", change.tag(), change.value().trim_end());
        }
    }
    Ok(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_by_its_lines() {
        let rules = "[[rule]]\nname = \"a\"\n[[rule]]\nname = \"b\"\n";
        let file = |action: &str| {
            let text = format!("[[port]]\nname = \"eth0\"\n{rules}action = \"{action}\"\n");
            File::parse(&text).unwrap()
        };
        let changed = changed_lines(&file("count"), &file("drop")).unwrap();
        let lines = "- action = \"count\"\n+ action = \"drop\"\n";
        assert!(changed.contains(lines), "{changed}");
        assert!(changed.contains("[[rule]]\n"), "{changed}");
        assert!(!changed.contains("eth0"), "{changed}");
        assert_eq!(changed_lines(&file("drop"), &file("drop")).unwrap(), "");
    }
}
