//! Network namespaces that go when they are dropped.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use bora_tester::ports::netns;

/// What the names of the lab's namespaces begin with: as those of the tester's own links.
const PREFIX: &str = bora_tester::calibrate::NAMESPACES;

/// A named network namespace, as `ip netns` makes them.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one. The name gets the process id, so that several labs do not meet.
    pub fn new(role: &str) -> anyhow::Result<Self> {
        let name = format!("{PREFIX}{}-{role}", std::process::id());
        execute(&["ip", "netns", "add", &name])?;
        let namespace = Self { name };
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a command inside; its output if it succeeds.
    pub fn run(&self, command: &[&str]) -> anyhow::Result<String> {
        let mut all = vec!["ip", "netns", "exec", &self.name];
        all.extend(command);
        execute(&all)
    }

    /// A command to be started inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name, program])
            .stdin(Stdio::null());
        command
    }

    /// Moves the calling thread inside, for good.
    pub fn enter(&self) -> anyhow::Result<()> {
        netns::enter(&self.name)
    }

    /// Index of an interface inside.
    pub fn ifindex(&self, interface: &str) -> anyhow::Result<u32> {
        let text = self.run(&["cat", &format!("/sys/class/net/{interface}/ifindex")])?;
        text.trim().parse().context("ifindex")
    }

    /// Ethernet address of an interface inside.
    pub fn mac(&self, interface: &str) -> anyhow::Result<[u8; 6]> {
        let text = self.run(&["cat", &format!("/sys/class/net/{interface}/address")])?;
        let octets: Vec<u8> = text
            .trim()
            .split(':')
            .filter_map(|part| u8::from_str_radix(part, 16).ok())
            .collect();
        octets
            .try_into()
            .ok()
            .with_context(|| format!("address of {interface}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = execute(&["ip", "netns", "del", &self.name]);
    }
}

/// Removes namespaces of labs whose process was killed.
pub fn remove_leftovers() {
    remove(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true));
}

/// Removes the namespaces of this process at once, and tells what runs in them to stop; for the
/// handler of a signal that ends the process.
pub fn remove_own() {
    let own = std::process::id().to_string();
    remove(|pid| pid == own);
}

/// Makes SIGINT and SIGTERM end this process with its namespaces removed and what runs in them
/// told to stop.
///
/// # Errors
/// If somebody else handles these signals already.
pub(crate) fn clean_up_on_signals() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        remove_own();
        std::process::exit(130);
    })
    .context("cannot handle signals")
}

/// Removes the namespaces of the processes that `which` names.
fn remove(which: impl Fn(&str) -> bool) {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if which(rest.split('-').next().unwrap_or_default()) {
            for pid in execute(&["ip", "netns", "pids", &name])
                .unwrap_or_default()
                .split_whitespace()
                .filter(|pid| *pid != std::process::id().to_string())
            {
                let _ = execute(&["kill", pid]);
            }
            let _ = execute(&["ip", "netns", "del", &name]);
        }
    }
}

fn execute(command: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", command[0]))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`{}`: {}", command.join(" "), error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
