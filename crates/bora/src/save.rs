//! `bora save`.

use std::path::Path;

use anyhow::Context;
use bora_router::{File, private};

use crate::client;
use crate::output::print;

/// Prints the configuration in force, or writes it to a file; `-` is the standard output.
pub(crate) fn save(to: Option<&Path>) -> anyhow::Result<()> {
    let file: File = serde_json::from_str(&client::get("/v1/config")?)?;
    let text = file.to_text()?;
    match to.filter(|path| *path != Path::new("-")) {
        None => Ok(print(format_args!("{text}"))?),
        // it may have secrets
        Some(path) => private::write(path, &text).with_context(|| path.display().to_string()),
    }
}
