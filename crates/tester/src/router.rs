//! Acting on the device under test: commands, routes, route changes.

mod churn;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::plan::{Prefix, RouterSection};
use crate::routes::{self, Routes};

/// Routing protocol that marks the tester's routes: nobody's in `rt_protos`.
const PROTOCOL: u8 = 214;
/// Longest time that a command may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something done to the router.
pub type Hook = Arc<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// The device under test.
#[derive(Clone)]
pub struct Device {
    section: RouterSection,
    /// Instead of the section's commands.
    restart: Option<Hook>,
    reset: Option<Hook>,
}

impl Device {
    /// As a plan describes it; `restart` and `reset` go before the plan's own.
    pub fn new(section: RouterSection, restart: Option<Hook>, reset: Option<Hook>) -> Self {
        Self {
            section,
            restart,
            reset,
        }
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
        // by standard input: so it needs no quoting, whether the way there is ssh or a namespace
        self.run("sh", command)
            .with_context(|| format!("`{command}`"))
    }

    /// Runs a program on the router with an input.
    fn run(&self, program: &str, input: &str) -> anyhow::Result<String> {
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
        let ended = wait(&mut child);
        let mut text = Vec::new();
        let mut said = said;
        said.seek(SeekFrom::Start(0))?;
        said.take(1 << 16).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        match ended? {
            true => Ok(text),
            false => Err(anyhow!("{}", text.trim())),
        }
    }

    fn command(&self, program: &str) -> Command {
        let shell = self.section.shell.as_deref().unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {shell} {program}")]);
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
        let remove =
            format!("ip -4 route flush proto {PROTOCOL}; ip -6 route flush proto {PROTOCOL}");
        self.execute(&remove).map(|_| ())
    }

    fn batch(&self, lines: &str) -> anyhow::Result<()> {
        self.run("ip -batch -", lines).map(|_| ())
    }
}

/// A line for `ip -batch`.
fn add(prefix: Prefix, via: IpAddr) -> String {
    format!("route replace {prefix} via {via} proto {PROTOCOL}\n")
}

/// Whether a process has succeeded; kills it if it takes too long.
fn wait(child: &mut Child) -> anyhow::Result<bool> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            bail!("not done after {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::plan::{ChurnSection, RoutesSection};

    struct Namespace(String);

    impl Namespace {
        /// A router with a port towards 10.1.0.2.
        fn new(name: &str) -> Self {
            let name = format!("bora-test-{}-{name}", std::process::id());
            let this = Self(name);
            let script = format!(
                "ip netns add {0} && ip -n {0} link add d0 type veth peer name d1 \
                 && ip -n {0} link set d0 up && ip -n {0} link set d1 up \
                 && ip -n {0} addr add 10.1.0.1/24 dev d0",
                this.0
            );
            let status = Command::new("sh").args(["-c", &script]).status().unwrap();
            assert!(status.success());
            this
        }

        fn device(&self, section: RouterSection) -> Device {
            let shell = Some(format!("ip netns exec {}", self.0));
            Device::new(RouterSection { shell, ..section }, None, None)
        }
    }

    impl Drop for Namespace {
        fn drop(&mut self) {
            let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
        }
    }

    fn count(device: &Device) -> usize {
        let routes = device.execute("ip route show proto 214 | wc -l").unwrap();
        routes.trim().parse().unwrap()
    }

    #[test]
    fn commands_say_what_went_wrong() {
        let device = Device::new(RouterSection::default(), None, None);
        assert_eq!(device.execute("echo \"a  b\" 'c'").unwrap(), "a  b c\n");
        let error = device.execute("echo no such thing; exit 3").unwrap_err();
        assert!(format!("{error:#}").contains("no such thing"), "{error:#}");
        // a daemon that stays is not waited for
        let start = Instant::now();
        device.execute("sleep 3 &").unwrap();
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn routes_come_and_go() {
        let space = Namespace::new("routes");
        let routes = Some(RoutesSection { count: 5000 });
        let device = space.device(RouterSection {
            routes,
            ..RouterSection::default()
        });
        let via = ["10.1.0.2".parse().unwrap(), "10.1.0.3".parse().unwrap()];
        device.add_routes(false, 1, &via).unwrap();
        assert_eq!(count(&device), 5000);
        let first = device.execute("ip route show proto 214 via 10.1.0.2 | wc -l");
        assert_eq!(first.unwrap().trim(), "2500");
        // what a killed run has left goes
        let network = "198.18.0.0/16".parse().unwrap();
        device.add_networks(&[(network, via[0])]).unwrap();
        assert_eq!(count(&device), 1);
        device.add_routes(false, 1, &via).unwrap();
        assert_eq!(count(&device), 5001);
        device.remove_routes().unwrap();
        assert_eq!(count(&device), 0);
        let error = device.add_routes(false, 1, &["10.2.0.2".parse().unwrap()]);
        assert!(error.is_err(), "the next hop is not reachable");
    }

    #[test]
    fn churn_leaves_no_route() {
        let space = Namespace::new("churn");
        let churn = Some(ChurnSection {
            rate: 2000,
            routes: Some(300),
        });
        let device = space.device(RouterSection {
            churn,
            ..RouterSection::default()
        });
        let changes = Arc::new(AtomicU64::new(0));
        let time = Duration::from_millis(500);
        let hook = device.churn("10.1.0.2".parse().unwrap(), time, changes.clone());
        hook.unwrap()().unwrap();
        let done = changes.load(Ordering::Relaxed);
        assert!((800..=1000).contains(&done), "{done}");
        assert_eq!(count(&device), 0);
    }
}
