//! Lists of plans, reports, comparisons.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use bora_tester::plan::{Plan, SHIPPED};
use bora_tester::report;

use bora_terminal::{print, say};

/// Width of tables where the terminal's is not known.
pub(crate) const WIDTH: usize = 120;

/// Names and titles of the plans that come with Bora.
pub(crate) fn plans() -> anyhow::Result<()> {
    for (name, text) in SHIPPED {
        say!("{name:<14}{}", Plan::parse(text)?.title)?;
    }
    Ok(())
}

pub(crate) fn render(file: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let found = report::read(file)?;
    match output {
        Some(output) => report::write_html(&found, output),
        None => {
            print(format_args!("{}", report::table(&found, WIDTH)))?;
            Ok(())
        }
    }
}

pub(crate) fn compare(a: &Path, b: &Path, json: bool) -> anyhow::Result<ExitCode> {
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
