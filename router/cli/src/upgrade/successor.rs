//! The Bora that runs, and how this binary takes its place.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File as Memory};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_daemon::{File, RuntimeDir};
use bora_terminal::say;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::client;
use crate::run::order_stop;

/// How long a Bora that has stopped may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// What Linux adds to the name of a program whose file is gone (proc_pid_exe(5)).
const DELETED: &[u8] = b" (deleted)";

/// The Bora that runs here.
pub(super) struct Running {
    pid: i32,
    /// Its program.
    program: PathBuf,
    /// The service of systemd that it is.
    unit: Option<String>,
}

impl Running {
    pub(super) fn find() -> anyhow::Result<Self> {
        let pid = client::process()?;
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        let program = program.context("cannot look at the Bora that runs: be root")?;
        let name = program.as_os_str().as_bytes();
        let name = name.strip_suffix(DELETED).unwrap_or(name);
        Ok(Self {
            pid,
            program: OsStr::from_bytes(name).into(),
            unit: unit_of(pid)?,
        })
    }

    /// Whether this binary can take its place.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn can_be_replaced(&self) -> anyhow::Result<()> {
        let own = env::current_exe().context("which binary this is")?;
        if let Some(unit) = &self.unit {
            ensure!(
                own == self.program,
                "the Bora that runs is {unit}, which starts {}, and not this binary ({}): install it there, or only compare \
                 (--canary --dry-run)",
                self.program.display(),
                own.display()
            );
        }
        Ok(())
    }

    /// Restarts the service; or stops the Bora that runs, and goes on as the new one. Linux forwards meanwhile.
    pub(super) fn replace(&self, file: &File) -> anyhow::Result<()> {
        match &self.unit {
            Some(unit) => restart(unit),
            None => self.succeed(file),
        }
    }

    /// Returns only if it cannot.
    fn succeed(&self, file: &File) -> anyhow::Result<()> {
        let own = env::current_exe().context("which binary this is")?;
        let folder = fs::read_link(format!("/proc/{}/cwd", self.pid))?;
        let memory = written(file)?;
        let pid = Pid::from_raw(self.pid).context("no process")?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        order_stop(&RuntimeDir::here()?, false)?;
        let patience = Timespec::try_from(PATIENCE)?;
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience))?;
        if ended == 0 {
            bail!("Bora (process {}) has stopped and does not end", self.pid);
        }
        say!("the old Bora has stopped; this process is the new one")?;
        let config = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let mut command = Command::new(&own);
        command.args(["run", "--config", &config]);
        // relative paths in the configuration mean what they meant
        let error = command.current_dir(folder).exec();
        Err(error).with_context(|| format!("cannot execute {}; Linux forwards", own.display()))
    }
}

/// The configuration, which may have secrets, in memory that the next program of this process has, too.
fn written(file: &File) -> anyhow::Result<Memory> {
    let mut memory = Memory::from(memfd_create("bora.toml", MemfdFlags::empty())?);
    memory.write_all(file.to_text()?.as_bytes())?;
    Ok(memory)
}

fn restart(unit: &str) -> anyhow::Result<()> {
    let status = Command::new("systemctl").args(["restart", unit]).status();
    let status = status.context("systemctl")?;
    ensure!(status.success(), "`systemctl restart {unit}`: {status}");
    say!("{unit} is restarted")?;
    Ok(())
}

/// The service of systemd whose main process this is.
fn unit_of(pid: i32) -> anyhow::Result<Option<String>> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let Some(unit) = service(&groups) else {
        return Ok(None);
    };
    if !Path::new("/run/systemd/system").exists() {
        return Ok(None);
    }
    let shown = Command::new("systemctl")
        .args(["show", "--property", "MainPID", "--value", unit])
        .output()
        .context("systemctl")?;
    let main = String::from_utf8_lossy(&shown.stdout);
    Ok((main.trim() == pid.to_string()).then(|| unit.to_owned()))
}

/// The service in the lines of a process's groups (cgroups(7)).
fn service(groups: &str) -> Option<&str> {
    let names = groups.lines().filter_map(|line| line.rsplit('/').next());
    names.into_iter().find(|name| name.ends_with(".service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_systemd() {
        assert_eq!(
            service("0::/system.slice/bora.service\n"),
            Some("bora.service")
        );
        assert_eq!(
            service("1:name=systemd:/system.slice/bora.service\n0::/\n"),
            Some("bora.service")
        );
        let shell = "0::/user.slice/user-0.slice/session-3.scope\n";
        assert_eq!(service(shell), None);
        assert_eq!(service("0::/\n"), None);
    }

    #[test]
    fn the_next_program_reads_the_configuration() {
        let file = File::parse("port = [{ name = \"r0\" }, { name = \"r1\" }]").unwrap();
        let memory = written(&file).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let read = File::read(Path::new(&path)).unwrap();
        assert_eq!(read.to_text().unwrap(), file.to_text().unwrap());
    }
}
