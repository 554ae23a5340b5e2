//! Acting on the device under test: commands, routes, route changes.

mod churn;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::plan::RouterSection;
use crate::prefix::Prefix;
use crate::routes::{self, Routes};
use crate::trial::Hook;
pub use churn::Changes;

/// Routing protocol number that marks the tester's routes; `rt_protos` gives it to nobody.
const PROTOCOL: u8 = 214;
/// Routing protocol number of routes that come and go, which are removed while the others stay.
const CHURN_PROTOCOL: u8 = 215;
/// Longest time that a command may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The device under test.
#[derive(Clone)]
pub struct Device {
    section: RouterSection,
    /// How to restart and reset, instead of the section's commands.
    restart: Option<Hook>,
    reset: Option<Hook>,
    /// Set when the user asks to stop.
    stop: Arc<AtomicBool>,
}

impl Device {
    /// The device that a plan describes; `restart` and `reset`, if given, replace the plan's commands.
    pub fn new(section: RouterSection, restart: Option<Hook>, reset: Option<Hook>) -> Self {
        Self {
            section,
            restart,
            reset,
            stop: Arc::default(),
        }
    }

    /// Once this is true, commands and route changes end soon; only cleaning up goes on.
    pub fn set_stop(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the tester installs routes to test networks.
    pub fn installs(&self) -> bool {
        self.section.installs()
    }

    /// Restarts what forwards, if that is known.
    pub fn restart(&self) -> Option<Hook> {
        let command = || self.hook(self.section.restart.clone()?);
        self.restart.clone().or_else(command)
    }

    /// Resets the router, if that is known.
    pub fn reset(&self) -> Option<Hook> {
        let command = || self.hook(self.section.reset.clone()?);
        self.reset.clone().or_else(command)
    }

    fn hook(&self, command: String) -> Option<Hook> {
        let device = self.clone();
        Some(Arc::new(move || device.execute(&command).map(|_| ())))
    }

    /// What the plan's commands say about the router.
    pub fn facts(&self) -> Vec<(String, String)> {
        let facts = self.section.facts.iter();
        let facts = facts.map(|(name, command)| {
            let said = self.execute(command);
            let text = said.unwrap_or_else(|error| format!("unknown: {error:#}"));
            (name.clone(), text.trim().to_string())
        });
        facts.collect()
    }

    /// Runs one line of a shell on the router; its output if it succeeds.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub fn execute(&self, command: &str) -> anyhow::Result<String> {
        // through standard input, so that it needs no quoting for ssh or `ip netns exec`
        self.run("sh", command, &self.stop)
            .with_context(|| format!("`{command}`"))
    }

    /// Runs a program on the router with an input, until it ends or is to stop.
    fn run(&self, program: &str, input: &str, stop: &AtomicBool) -> anyhow::Result<String> {
        // files in memory: a daemon that a command leaves behind may keep them open
        let said = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        let mut given = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        given.write_all(input.as_bytes())?;
        given.seek(SeekFrom::Start(0))?;
        let mut child = self
            .command(program)
            .stdin(Stdio::from(given))
            .stdout(Stdio::from(said.try_clone()?))
            .stderr(Stdio::from(said.try_clone()?))
            .spawn()
            .context("cannot run sh")?;
        let ended = wait(&mut child, stop, PATIENCE);
        let text = read(said)?;
        match ended?.success() {
            true => Ok(text),
            false => Err(anyhow!("{}", text.trim())),
        }
    }

    fn command(&self, program: &str) -> Command {
        let shell = self.section.shell.as_deref().unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {shell} {program}")]);
        // Ctrl-C must end the tester only: it still needs ssh to clean up on the router
        command.process_group(0);
        command
    }

    /// Installs routes to test networks, each via an address of the tester; first takes off what
    /// the tester had installed, also in a run that was killed.
    ///
    /// # Errors
    /// If Linux refuses one.
    pub fn add_networks(&self, networks: &[(Prefix, IpAddr)]) -> anyhow::Result<()> {
        self.remove_routes()?;
        let lines: String = networks
            .iter()
            .map(|(prefix, via)| add(*prefix, *via))
            .collect();
        self.batch(&lines)
    }

    /// Installs as many routes as the plan says, an equal share of them via each address.
    ///
    /// # Errors
    /// If Linux refuses one.
    pub fn add_routes(&self, v6: bool, seed: u64, via: &[IpAddr]) -> anyhow::Result<()> {
        let count = self
            .section
            .routes
            .context("[router] has no `routes`")?
            .count;
        ensure!(!via.is_empty(), "no port has routes behind it");
        let mut lines = String::with_capacity(count as usize * 48);
        for (index, route) in Routes::new(v6, count, seed).enumerate() {
            lines += &add(route, via[routes::share_of(index, count, via.len())]);
        }
        self.batch(&lines).context("cannot install the routes")
    }

    /// Removes all routes that the tester has installed.
    ///
    /// # Errors
    /// If that fails.
    pub fn remove_routes(&self) -> anyhow::Result<()> {
        self.flush(PROTOCOL)?;
        self.flush(CHURN_PROTOCOL)
    }

    /// Removes the routes of a protocol, also after a stop.
    fn flush(&self, protocol: u8) -> anyhow::Result<()> {
        let flush =
            format!("ip -4 route flush proto {protocol} && ip -6 route flush proto {protocol}");
        let never = AtomicBool::new(false);
        let done = self.run("sh", &flush, &never);
        done.with_context(|| format!("`{flush}`")).map(|_| ())
    }

    fn batch(&self, lines: &str) -> anyhow::Result<()> {
        self.run("ip -batch -", lines, &self.stop).map(|_| ())
    }
}

/// A line for `ip -batch`.
fn add(prefix: Prefix, via: IpAddr) -> String {
    format!("route replace {prefix} via {via} proto {PROTOCOL}\n")
}

/// The beginning of a command's output.
fn read(mut said: File) -> anyhow::Result<String> {
    let mut text = Vec::new();
    said.seek(SeekFrom::Start(0))?;
    said.take(1 << 16).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How a process ends; kills it and its children if it takes too long, or when it is to stop.
fn wait(child: &mut Child, stop: &AtomicBool, patience: Duration) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let is_stopped = stop.load(Ordering::Relaxed);
        if is_stopped || start.elapsed() > patience {
            kill(child);
            ensure!(!is_stopped, "stopped by the user before it was done");
            bail!("not done after {} s", patience.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Ends a process and all of its group.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}
