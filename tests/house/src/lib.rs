//! What the tests of several crates share.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Says why a test is skipped on this machine: a program is not installed, or the test may not do
/// what it has to.
///
/// # Panics
///
/// Where everything must be tested: the environment has `CI` or `BORA_ALL` (`make test` sets it).
pub fn skip(why: impl Display) {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    assert!(
        !is_set("CI") && !is_set("BORA_ALL"),
        "this cannot be tested here: {why}"
    );
    eprintln!("skipped: {why}");
}

/// Has one process of `ip` do what these lines say.
///
/// # Panics
/// It cannot be started, or refuses a line.
pub fn ip_batch(lines: &str) {
    let mut ip = Command::new("ip");
    let ip = ip.args(["-batch", "-"]).stdin(Stdio::piped());
    let mut ip = ip.spawn().expect("ip can be started");
    let mut input = ip.stdin.take().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("ip reads");
    drop(input);
    assert!(ip.wait().expect("ip ends").success());
}

/// The repository's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A crate of the repository.
#[derive(Debug)]
pub struct Crate {
    /// The wing it is in: `router`, `tester`, `hero`, `lab`.
    pub wing: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its Cargo.toml.
    pub manifest: String,
}

/// All crates in the wings.
///
/// # Panics
/// A folder cannot be read.
pub fn crates() -> Vec<Crate> {
    let mut found = Vec::new();
    for wing in ["router", "tester", "hero", "lab"] {
        for entry in fs::read_dir(root().join(wing)).expect("a wing") {
            let folder = entry.expect("a room").path();
            if let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) {
                let wing = wing.into();
                found.push(Crate {
                    wing,
                    folder,
                    manifest,
                });
            }
        }
    }
    found
}

/// All files below a folder, but for those that builds and tools have put there.
///
/// # Panics
/// A folder cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_dir() {
            found.push(path);
        } else if name != "target" && !name.starts_with('.') {
            found.extend(files(&path));
        }
    }
    found
}
