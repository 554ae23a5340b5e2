//! `bora support`: everything for a report of a defect in one file, without secrets.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use anyhow::{Context, bail};
use bora_daemon::{File, REPORTS, Request, private};

use crate::client;
use bora_terminal::say;

/// What other programs say: name of the file, program, arguments.
const COMMANDS: &[(&str, &str, &[&str])] = &[
    ("uname", "uname", &["-a"]),
    ("os-release", "cat", &["/etc/os-release"]),
    ("cpus", "lscpu", &[]),
    ("memory", "cat", &["/proc/meminfo"]),
    ("links", "ip", &["-s", "-d", "link"]),
    ("addresses", "ip", &["-br", "address"]),
    ("rules", "ip", &["rule"]),
    ("rules6", "ip", &["-6", "rule"]),
    (
        "route-counts",
        "ip",
        &[
            "-s", "-s", "route", "show", "table", "main", "scope", "link",
        ],
    ),
    ("bridge", "bridge", &["-d", "vlan"]),
    ("nftables", "nft", &["list", "ruleset"]),
    (
        "sysctls",
        "sysctl",
        &[
            "-a",
            "--pattern",
            "^net\\.ipv[46]\\.(ip_forward|fib_|conf\\..*\\.(forwarding|rp_filter))",
        ],
    ),
    ("xdp", "bpftool", &["net", "show"]),
    (
        "journal",
        "journalctl",
        &["-u", "bora", "-n", "2000", "--no-pager"],
    ),
    ("kernel-log", "dmesg", &["--level", "err,warn"]),
];

/// Writes a bundle, and says what is in it.
pub(crate) fn support(output: &Path) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let version = concat!("bora ", env!("CARGO_PKG_VERSION"), "\n");
    folder.add("version", version)?;
    let mut files = 1;
    for (name, program, arguments) in COMMANDS {
        if let Some(text) = said(program, arguments) {
            folder.add(name, &text)?;
            files += 1;
        }
    }
    let reports = REPORTS.iter().filter(|report| report.argument.is_none());
    for report in reports.filter(|report| report.name != "config") {
        let text = client::get(&report.url(&Request::default()));
        let text = text.unwrap_or_else(|error| format!("{error:#}"));
        folder.add(&format!("show-{}.json", report.name), &text)?;
        files += 1;
    }
    folder.add("bora.toml", &configuration())?;
    files += 1;
    folder.pack(output)?;
    say!(
        "{}: {files} files. Secrets of the configuration are left out; addresses, routes and firewall rules are in it: \
         look through it before you send it",
        output.display()
    )?;
    Ok(())
}

/// The configuration in force without secrets, or why there is none.
fn configuration() -> String {
    let file = client::get("/v1/config").and_then(|text| {
        let file: File = serde_json::from_str(&text)?;
        file.without_secrets().to_text()
    });
    file.unwrap_or_else(|error| format!("# {error:#}"))
}

/// What a program prints; `None` if it is not there.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let done = match Command::new(program).args(arguments).output() {
        Ok(done) => done,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("{program} cannot be run: {error}\n")),
    };
    let [out, error] =
        [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Some(out + &error)
}

/// A folder that goes away with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("bora-support-{}", std::process::id()));
        // not one that somebody has made for us
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    fn add(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        let written = private::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| path.display().to_string())
    }

    fn pack(&self, output: &Path) -> anyhow::Result<()> {
        let name = || output.display().to_string();
        match fs::remove_file(output) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(name);
            }
            _ => {} // others may have had it open
        }
        let file = private::create(output).with_context(name)?;
        let mut tar = Command::new("tar");
        tar.args(["--create", "--gzip", "--directory"]);
        let done = tar
            .arg(&self.0)
            .arg(".")
            .stdout(file)
            .stderr(Stdio::piped());
        let done = done.spawn().and_then(Child::wait_with_output);
        let done = done.context("cannot run tar")?;
        if !done.status.success() {
            let error = String::from_utf8_lossy(&done.stderr);
            bail!("{}: {}", output.display(), error.trim());
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
