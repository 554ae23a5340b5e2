//! `bora save`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use bora_daemon::File;

use crate::client;
use bora_terminal::print;

/// The file may have secrets. It is written in place, because it may be a device or a link.
const OWNERS_ALONE: u32 = 0o600;

/// Prints the configuration in force, or writes it to a file; `-` is the standard output.
pub(crate) fn save(to: Option<&Path>) -> anyhow::Result<()> {
    let file: File = serde_json::from_str(&client::get("/v1/config")?)?;
    let text = file.to_text()?;
    let Some(path) = to.filter(|path| *path != Path::new("-")) else {
        return Ok(print(format_args!("{text}"))?);
    };
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let file = options.mode(OWNERS_ALONE).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| path.display().to_string())
}
