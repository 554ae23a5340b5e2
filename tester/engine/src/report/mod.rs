//! What people and programs read of a run: JSON, one HTML file, a table, a comparison of two.

mod compare;
#[cfg(test)]
mod example;
mod html;
mod numbers;
mod plots;
mod progress;
mod summary;
pub mod svg;
mod table;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

pub use compare::{Comparison, Difference, Verdict, compare};
pub use html::{html, page};
pub use progress::{Display, Step, remark};
pub use table::table;

use crate::result::{Report, Test};

/// The format that [`write`] writes and [`read`] reads, [`Report::format`].
pub const FORMAT: u32 = 1;

/// Tests that sent frames and got none back: then nothing was measured, and something is not connected
/// or not set up.
pub fn without_frames(report: &Report) -> impl Iterator<Item = &Test> {
    summary::without_frames(report)
}

/// Reads a report, from its JSON or from its page.
///
/// # Errors
/// The file cannot be read, is no report, or is of another format than [`FORMAT`].
pub fn read(path: &Path) -> anyhow::Result<Report> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

/// A report from its JSON, which may be in the page that [`html`] makes.
///
/// # Errors
/// The text is no report, or is of another format than [`FORMAT`].
pub fn parse(text: &str) -> anyhow::Result<Report> {
    const GIVE: &str = "give the .json or .html file that `bora test run` wrote";
    let text = html::embedded_report(text).unwrap_or(text);
    let value: serde_json::Value = serde_json::from_str(text)
        .with_context(|| format!("not a report: no valid JSON; {GIVE}"))?;
    let Some(format) = value.get("format").and_then(serde_json::Value::as_u64) else {
        anyhow::bail!("not a report: `format` is missing; {GIVE}");
    };
    anyhow::ensure!(
        format == u64::from(FORMAT),
        "a report of format {format}, but this Bora reads format {FORMAT}; \
         use the Bora that wrote it, or measure again"
    );
    // from the text and not from the value: then errors tell line and column
    serde_json::from_str(text).context("a report of format 1 with a part that is missing or wrong")
}

/// Writes a report as JSON; replaces what is there only once the new file is whole.
///
/// # Errors
/// The file cannot be written.
pub fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report).context("cannot put the report into JSON")?;
    save(path, &(text + "\n"))
}

/// Writes the report as one HTML file, as [`write`] does.
///
/// # Errors
/// The file cannot be written.
pub fn write_html(report: &Report, path: &Path) -> anyhow::Result<()> {
    save(path, &html(report))
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("bora-report-{}.json", std::process::id()));
        let report = example::report();
        write(&report, &path).unwrap();
        let again = read(&path);
        fs::remove_file(&path).unwrap();
        let json = |report: &Report| serde_json::to_string(report).unwrap();
        assert!(
            json(&again.unwrap()) == json(&report),
            "not a digit is lost"
        );
        let from_page = parse(&html(&report)).unwrap();
        assert!(json(&from_page) == json(&report), "nor in the page");
    }

    #[test]
    fn what_is_no_report_is_told() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(error("title = 1").contains("no valid JSON"));
        assert!(error("{}").contains("`format` is missing"));
        assert!(error("[1]").contains("`format` is missing"));
        assert!(error("{\"format\": 2}").contains("format 2, but this Bora reads format 1"));
        let wrong = error("{\"format\": 1,\n\"bora\": 7}");
        assert!(wrong.contains("line 2"), "{wrong}");
        let missing = read(Path::new("/nowhere/report.json")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/report.json"));
    }
}
