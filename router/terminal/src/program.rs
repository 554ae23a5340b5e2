//! Bora's other programs: `bora-test`, `bora-lab`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, anyhow};

/// The file of another of Bora's programs: the one beside this program, or else its name, which is looked for in `PATH`.
pub fn beside(name: &str) -> PathBuf {
    // without /proc, PATH is left
    let own = std::env::current_exe().ok();
    let near = own.map(|own| own.with_file_name(name));
    near.filter(|path| path.is_file())
        .unwrap_or_else(|| name.into())
}

/// Goes on as another program. `shown` is what its help calls it. Returns only if it cannot.
pub fn execute(name: &str, shown: &str, words: Vec<OsString>, verbose: bool) -> anyhow::Error {
    let path = beside(name);
    let mut command = Command::new(&path);
    command.arg0(shown).args(verbose.then_some("--verbose"));
    let error = command.args(words).exec();
    match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "`{shown}` needs the program `{name}`, which is not installed: install the package {name}, or build it with `make build`"
        ),
        _ => Err::<(), _>(error)
            .with_context(|| format!("cannot execute {}", path.display()))
            .unwrap_err(),
    }
}
