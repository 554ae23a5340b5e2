//! Network namespaces: threads in them, and named ones that are removed when they are dropped.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Prefix of the names of all namespaces that Bora makes; the process id follows it.
const PREFIX: &str = "bora-lab-";

/// Moves the calling thread into a new network namespace; it stays there. The namespace is gone when
/// nothing in it is open any more; its only interface is the loopback interface, which is down.
///
/// # Errors
/// No CAP_SYS_ADMIN, or too many namespaces.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: only the network namespace of this thread changes; no memory or file is shared less.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread into the network namespace of this name (`ip netns`); it stays there.
///
/// # Errors
/// There is none of this name, or no CAP_SYS_ADMIN.
pub fn enter(name: &str) -> io::Result<()> {
    let file = File::open(format!("/run/netns/{name}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Runs something in a new network namespace ([`enter_new`]), on a thread that ends with it.
///
/// # Errors
/// See [`enter_new`].
///
/// # Panics
/// If `run` does.
pub fn in_new<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_a_thread(enter_new, run)
}

/// Runs something in the network namespace of this name (`ip netns`), on a thread that ends with it.
/// Sockets stay in the namespace they were opened in.
///
/// # Errors
/// See [`enter`].
///
/// # Panics
/// If `run` does.
pub fn in_named<T: Send>(name: &str, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_a_thread(|| enter(name), run)
}

fn on_a_thread<T: Send>(
    enter: impl FnOnce() -> io::Result<()> + Send,
    run: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter()?;
            Ok(run())
        });
        match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A named network namespace, as `ip netns` makes them: laboratories and tests put hosts and
/// routers into them.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one and sets its loopback interface up. The name contains the process id, so that several
    /// laboratories can run.
    ///
    /// # Errors
    /// No CAP_SYS_ADMIN, or the process has one of this role.
    pub fn new(role: &str) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{role}", std::process::id());
        output(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a command of the shell inside; its output if it succeeds.
    ///
    /// # Errors
    /// The command fails; the error has what it said.
    pub fn run(&self, command: &str) -> io::Result<String> {
        output(self.command("sh").args(["-c", command]))
    }

    /// A program to be started inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Moves the calling thread inside; it stays there.
    ///
    /// # Errors
    /// See [`enter`].
    pub fn enter(&self) -> io::Result<()> {
        enter(&self.name)
    }

    /// Index of an interface inside.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn ifindex(&self, interface: &str) -> io::Result<u32> {
        let text = self.run(&format!("cat /sys/class/net/{interface}/ifindex"))?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Ethernet address of an interface inside.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn mac(&self, interface: &str) -> io::Result<[u8; 6]> {
        let text = self.run(&format!("cat /sys/class/net/{interface}/address"))?;
        let octets = text.trim().split(':');
        let octets = octets.map(|part| u8::from_str_radix(part, 16));
        match octets.collect::<Result<Vec<u8>, _>>().as_deref() {
            Ok(&[a, b, c, d, e, f]) => Ok([a, b, c, d, e, f]),
            _ => Err(io::Error::other(format!(
                "{interface} has no Ethernet address, but {}",
                text.trim()
            ))),
        }
    }
}

impl fmt::Display for Namespace {
    /// Its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

/// Removes the namespaces of processes that were killed, and tells processes in them to stop.
pub fn remove_leftovers() {
    remove(|pid| match fs::exists(format!("/proc/{pid}")) {
        Ok(exists) => !exists,
        Err(_) => false, // not known, so it stays
    });
}

/// Removes the namespaces of this process at once, and tells processes in them to stop; for a signal
/// handler that ends this process.
pub fn remove_own() {
    let own = std::process::id().to_string();
    remove(|pid| pid == own);
}

/// Removes the namespaces of the processes that `which` names.
fn remove(which: impl Fn(&str) -> bool) {
    let entries = fs::read_dir("/run/netns").and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return, // never made one
        Err(error) => return log::warn!("/run/netns: {error}; network namespaces may be left"),
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if which(rest.split('-').next().unwrap_or_default()) {
            match output(Command::new("ip").args(["netns", "pids", &name])) {
                Ok(pids) => stop(&pids),
                Err(error) => log::warn!("processes in namespace {name} may be left: {error}"),
            }
            delete(&name);
        }
    }
}

/// Tells processes to stop, but not this one.
fn stop(pids: &str) {
    let own = std::process::id().to_string();
    for pid in pids.split_whitespace().filter(|pid| *pid != own) {
        if let Err(error) = output(Command::new("kill").arg(pid)) {
            log::debug!("{error}"); // most likely it has just ended
        }
    }
}

fn delete(name: &str) {
    if let Err(error) = output(Command::new("ip").args(["netns", "del", name])) {
        log::warn!("namespace {name} may be left: {error}");
    }
}

/// Runs a command; what it wrote to its standard output if it succeeds.
///
/// # Errors
/// It cannot be started or fails; the error has what it wrote to its standard error.
pub fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what = format!("{command:?}: {}", said.trim());
        return Err(io::Error::other(what));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            bora_testing::skip("network namespaces need root");
        }
        root
    }

    #[test]
    fn a_namespace_comes_and_goes() {
        if !is_root() {
            return;
        }
        let space = Namespace::new("comes").unwrap();
        let path = format!("/run/netns/{space}");
        assert!(fs::exists(&path).unwrap());
        assert_eq!(space.ifindex("lo").unwrap(), 1);
        assert_eq!(space.mac("lo").unwrap(), [0; 6]);
        let inside = in_named(space.name(), || {
            fs::read_to_string("/proc/thread-self/net/dev")
        });
        assert_eq!(inside.unwrap().unwrap().lines().count(), 3, "only lo");
        let error = space.run("echo so >&2; false").unwrap_err();
        assert!(error.to_string().ends_with(": so"), "{error}");
        drop(space);
        assert!(!fs::exists(&path).unwrap());
        assert!(in_named("nowhere", || ()).is_err());
    }

    #[test]
    fn what_a_killed_process_leaves_goes() {
        if !is_root() {
            return;
        }
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let name = format!("{PREFIX}{}-left", child.id());
        output(Command::new("ip").args(["netns", "add", &name])).unwrap();
        remove_leftovers();
        assert!(!fs::exists(format!("/run/netns/{name}")).unwrap());
    }
}
