//! A router and the hosts around it, in namespaces; Linux or Bora forwards.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_linux::netns::{self, Namespace, remove_leftovers};
use bora_wire::MacAddr;

/// Most hosts: the router's interfaces are named by letters.
pub const MOST_HOSTS: usize = 16;
/// How long Bora may take until it forwards, in a guest without KVM, too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nice value of Bora and of the kernel's threads that forward: before other work on the machine.
const PRIORITY: i32 = -20;
/// Nice value of the threads that feed a worker which sleeps: they get what it leaves. With the
/// worker's own they take half of the CPU, to receive packets that find its ring full.
const BELOW_WORKER: i32 = 19;

/// Interface of every host.
pub const HOST_PORT: &str = "e0";

/// Interfaces of the first two hosts on a cable between them.
pub(crate) const DIRECT: &str = "x0";

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Linux alone.
    Kernel,
    /// Bora's XDP program.
    Express,
    /// Bora's workers.
    Engine,
}

impl Subject {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Kernel => "kernel",
            Subject::Express => "express",
            Subject::Engine => "engine",
        }
    }
}

/// Where the router's interfaces receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Napi {
    /// In threads on the router's CPU, so that the sender's CPU does not do the router's work.
    Threads,
    /// Where Linux does it by default: on the CPU of the sender.
    Softirq,
}

/// The CPU of the router, and of the hosts' receiving NAPI.
pub(crate) fn router_cpu() -> u32 {
    u32::from(cpus() > 1)
}

/// The CPUs of the senders: all others.
pub(crate) fn tester_cpus() -> Vec<u32> {
    let others: Vec<u32> = (0..cpus()).filter(|&cpu| cpu != router_cpu()).collect();
    if others.is_empty() { vec![0] } else { others }
}

fn cpus() -> u32 {
    thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// The namespaces, and the binary that runs in the router's.
///
/// Host n, from 0, is behind the router's interface `ra`, `rb`, … on the links 10.66.N.0/24 and
/// fd66:N::/64 with N = n + 1: the router is .1, the host .2. The hosts' Linux has no addresses and is
/// silent; the measuring program plays the hosts.
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Namespace>,
    router: Namespace,
    bora: PathBuf,
    napi: Napi,
}

/// A running Bora.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
}

impl Network {
    /// Builds the network; `bora` is the binary to run in it.
    ///
    /// # Errors
    /// If a namespace or a link cannot be made (root?).
    pub fn new(hosts: usize, bora: &Path) -> anyhow::Result<Self> {
        ensure!(
            (2..=MOST_HOSTS).contains(&hosts),
            "a lab has 2 to {MOST_HOSTS} hosts, not {hosts}"
        );
        remove_leftovers();
        let mut network = Self {
            hosts: Vec::with_capacity(hosts),
            router: Namespace::new("router")?,
            bora: bora.into(),
            napi: Napi::Threads,
        };
        network
            .router
            .run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")?;
        for index in 0..hosts {
            let host = Namespace::new(&letter(index).to_string())?;
            network.connect(index, &host)?;
            network.hosts.push(host);
        }
        network.place_threads(PRIORITY);
        Ok(network)
    }

    /// Moves the reception of the router's interfaces; before the first start of Bora.
    pub fn receive_in(&mut self, napi: Napi) {
        self.napi = napi;
        self.place_threads(PRIORITY);
    }

    /// The cable between the router and a host.
    fn connect(&self, index: usize, host: &Namespace) -> anyhow::Result<()> {
        let (router, port) = (&self.router, router_port(index));
        router.run(&format!(
            "ip link add {port} type veth peer name {HOST_PORT} netns {host}"
        ))?;
        host.run(&format!(
            "sysctl -qw net.ipv6.conf.{HOST_PORT}.disable_ipv6=1"
        ))?;
        // NAPI on both ends, so that XDP frames can be sent to them; a veth looks at its peer's GRO
        // when it comes up
        let ends = [(router, port.as_str()), (host, HOST_PORT)];
        for (space, device) in ends {
            space.run(&format!("ethtool -K {device} gro on"))?;
        }
        for (space, device) in ends {
            space.run(&format!("ip link set {device} up"))?;
        }
        self.address(index)
    }

    /// The addresses of an interface of the router.
    fn address(&self, index: usize) -> anyhow::Result<()> {
        let (port, v4, v6) = (router_port(index), v4(index, 1), v6(index, 1));
        let commands = format!(
            "ip addr replace {v4}/24 dev {port} && ip addr replace {v6}/64 dev {port} nodad"
        );
        self.router.run(&commands)?;
        Ok(())
    }

    /// A cable between the first two hosts, to measure them alone. The second one receives on the sender's
    /// CPU: a thread that wakes up on another one costs both more than the packets do. Returns its Ethernet
    /// address there.
    pub(crate) fn connect_hosts(&self) -> anyhow::Result<MacAddr> {
        let [a, b] = [0, 1].map(|index| &self.hosts[index]);
        a.run(&format!(
            "ip link add {DIRECT} type veth peer name {DIRECT} netns {b}"
        ))?;
        for host in [a, b] {
            host.run(&format!(
                "sysctl -qw net.ipv6.conf.{DIRECT}.disable_ipv6=1; ethtool -K {DIRECT} gro on"
            ))?;
        }
        for host in [a, b] {
            host.run(&format!("ip link set {DIRECT} up"))?;
        }
        Ok(MacAddr(b.mac(DIRECT)?))
    }

    /// Tells the router the hosts' Ethernet addresses, because the hosts do not answer ARP.
    pub(crate) fn settle_neighbours(&self) -> anyhow::Result<()> {
        for (index, host) in self.hosts.iter().enumerate() {
            let mac = MacAddr(host.mac(HOST_PORT)?);
            let port = router_port(index);
            for address in [v4(index, 2).to_string(), v6(index, 2).to_string()] {
                self.router.run(&format!(
                    "ip neigh replace {address} lladdr {mac} dev {port}"
                ))?;
            }
        }
        Ok(())
    }

    /// The hosts' namespaces.
    pub fn hosts(&self) -> &[Namespace] {
        &self.hosts
    }

    /// The router's.
    pub fn router(&self) -> &Namespace {
        &self.router
    }

    /// Gives the router's interfaces NAPI threads on the router's CPU with this nice value, unless they
    /// receive elsewhere; again after each change of programs, because a veth makes new threads then.
    /// The receiving host counts on the router's CPU, for every subject alike.
    fn place_threads(&self, nice: i32) {
        for index in 0..self.hosts.len() {
            let device = router_port(index);
            match self.napi {
                Napi::Threads => place(&self.router, &device, nice),
                Napi::Softirq => {
                    let _ = self
                        .router
                        .run(&format!("echo 0 > /sys/class/net/{device}/threaded"));
                }
            }
        }
    }

    /// Starts Bora between the hosts and waits until it forwards.
    ///
    /// # Errors
    /// If it ends instead, with what it said.
    pub fn start(&self, path: &str, options: &[&str]) -> anyhow::Result<Daemon> {
        self.start_on(self.hosts.len(), path, options)
    }

    /// Starts Bora on the first of the interfaces only; Linux forwards what leaves by the others.
    ///
    /// # Errors
    /// If it ends instead, with what it said.
    pub fn start_on(
        &self,
        interfaces: usize,
        path: &str,
        options: &[&str],
    ) -> anyhow::Result<Daemon> {
        let mut command = self.router.command("nice");
        let nice = PRIORITY.to_string();
        command.args(["-n", &nice, &self.bora.to_string_lossy(), "run"]);
        for index in 0..interfaces {
            command.args(["--port", &router_port(index)]);
        }
        let mut child = command
            .args(["--path", path, "--cores", &router_cpu().to_string()])
            .args(options)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C in the terminal is for the measuring program
            .process_group(0)
            .spawn()
            .context("cannot start bora")?;
        let stderr = child.stderr.take().context("no output of bora")?;
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            let mut said = String::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.contains("ready") {
                    let _ = ready.send(Ok(()));
                }
                said += &line;
                said.push('\n');
            }
            let _ = ready.send(Err(said));
        });
        let daemon = Daemon { child };
        match is_ready.recv_timeout(PATIENCE) {
            Ok(Ok(())) => {}
            Ok(Err(said)) => bail!("bora ended: {said}"),
            Err(_) => bail!("bora is not ready after {} s", PATIENCE.as_secs()),
        }
        // a worker that polls leaves nothing to others
        let is_fed = path == Subject::Engine.name() && !options.contains(&"poll");
        self.place_threads(if is_fed { BELOW_WORKER } else { PRIORITY });
        Ok(daemon)
    }

    /// Has the router's `ip -batch` carry out these commands, and go on after errors.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn batch(&self, commands: &str) -> anyhow::Result<()> {
        let mut ip = self.router.command("ip");
        let ip = ip.args(["-force", "-batch", "-"]).stdin(Stdio::piped());
        let mut ip = ip.stderr(Stdio::null()).spawn().context("ip -batch")?;
        let mut input = ip.stdin.take().context("no input of ip")?;
        input.write_all(commands.as_bytes())?;
        drop(input);
        ip.wait()?;
        Ok(())
    }

    /// Tells the router that these addresses are the host's.
    ///
    /// # Errors
    /// If it has no interface.
    pub fn add_neighbours(&self, host: usize, addresses: &[Ipv4Addr]) -> anyhow::Result<()> {
        let mac = MacAddr(self.hosts[host].mac(HOST_PORT)?);
        let port = router_port(host);
        let command = |address| format!("neigh replace {address} lladdr {mac} dev {port}\n");
        self.batch(&addresses.iter().map(command).collect::<String>())
    }

    /// Another router in place of Linux and Bora, to be started in [`Self::router`]; the interfaces
    /// are as Linux has made them, their threads at the priority of Bora's.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_other<T>(
        &self,
        start: impl FnOnce(&[String]) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let interfaces: Vec<String> = (0..self.hosts.len()).map(router_port).collect();
        let other = start(&interfaces)?;
        self.place_threads(PRIORITY);
        Ok(other)
    }

    /// Gives Linux the interfaces back after another router has stopped.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn restore(&self) -> anyhow::Result<()> {
        for index in 0..self.hosts.len() {
            let device = router_port(index);
            let commands = format!(
                "ip link set {device} xdp off; ip link set {device} promisc off; \
                 ip link set {device} up"
            );
            self.router.run(&commands)?;
            self.address(index)?;
        }
        self.settle_neighbours()?;
        self.place_threads(PRIORITY);
        Ok(())
    }

    /// Stops Bora and takes it off the interfaces.
    ///
    /// # Errors
    /// If `bora stop` fails.
    pub fn stop(&self, daemon: Daemon) -> anyhow::Result<()> {
        drop(daemon);
        self.bora(&["stop", "--detach"])?;
        self.place_threads(PRIORITY);
        Ok(())
    }

    /// What `bora show WHAT --json` says.
    ///
    /// # Errors
    /// If no Bora runs.
    pub fn show(&self, what: &str) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_str(
            &self.bora(&["show", what, "--json"])?,
        )?)
    }

    /// What another `bora` says in the router's namespace.
    pub(crate) fn bora(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.router.command(&self.bora.to_string_lossy());
        Ok(netns::output(command.args(arguments))?)
    }
}

/// NAPI threads of an interface on the router's CPU. Best effort: without it the measurement is only
/// noisier.
fn place(space: &Namespace, device: &str, nice: i32) {
    let cpu = router_cpu();
    let script = format!(
        "echo 1 > /sys/class/net/{device}/threaded; \
         for p in $(pgrep '^napi/{device}-'); do \
         taskset -pc {cpu} $p; renice -n {nice} -p $p; done"
    );
    let _ = space.run(&script);
}

pub(crate) fn letter(index: usize) -> char {
    char::from(b'a' + index as u8)
}

fn router_port(index: usize) -> String {
    format!("r{}", letter(index))
}

/// An address on the link of a host.
pub(crate) fn v4(index: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 66, index as u8 + 1, last)
}

/// See [`v4`].
pub(crate) fn v6(index: usize, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd66, index as u16 + 1, 0, 0, 0, 0, 0, last)
}

impl Daemon {
    /// kill -9.
    ///
    /// # Errors
    /// If it has gone already.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(25));
        }
        let _ = self.kill();
    }
}
