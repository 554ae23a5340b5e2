//! `bora support`: everything for a report of a defect in one file, without secrets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use bora_router::{File, REPORTS, Request};

use crate::client;
use crate::output::say;

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
    ("xdp", "ip", &["-br", "link", "show", "xdp"]),
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
    let mut files = 0;
    for (name, program, arguments) in COMMANDS {
        files += usize::from(said(program, arguments).is_some_and(|text| folder.add(name, &text)));
    }
    let reports = REPORTS.iter().filter(|report| report.argument.is_none());
    for report in reports.filter(|report| report.name != "config") {
        let text = client::get(&report.url(&Request::default()));
        let text = text.unwrap_or_else(|error| format!("{error:#}"));
        files += usize::from(folder.add(&format!("show-{}.json", report.name), &text));
    }
    files += usize::from(folder.add("bora.toml", &configuration()));
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
    let done = Command::new(program).args(arguments).output().ok()?;
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
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Whether it could be written.
    fn add(&self, name: &str, text: &str) -> bool {
        fs::write(self.0.join(name), text).is_ok()
    }

    fn pack(&self, output: &Path) -> anyhow::Result<()> {
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--gzip").arg("--file").arg(output);
        let done = tar.arg("--directory").arg(&self.0).arg(".").output();
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
