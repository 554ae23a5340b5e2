//! DPDK's testpmd on one port.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::cpu;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Its port.
#[derive(Clone, Copy, Debug)]
pub enum Device<'a> {
    /// Shared memory.
    Memif {
        /// `server` or `client`.
        role: &'a str,
        /// The memif's socket.
        socket: &'a Path,
        /// Share the client's memory instead of copying to it; needs huge pages.
        zero_copy: bool,
    },
    /// An interface of a network namespace, through a packet socket.
    AfPacket(&'a str, &'a str),
    /// Interfaces of a network namespace, each a port through an AF_XDP socket.
    AfXdp(&'a str, &'a [&'a str]),
}

/// Its configuration.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Distinguishes it from other instances.
    pub name: &'a str,
    /// The folder of a system that has it, if that is not this one.
    pub root: Option<&'a Path>,
    /// CPU of all its threads.
    pub core: usize,
    /// Its port.
    pub device: Device<'a>,
    /// Logarithm to base 2 of the slots of a ring.
    pub log2_ring_size: u8,
    /// Its forwarding mode.
    pub mode: &'a str,
    /// Packets a burst.
    pub burst: u32,
    /// Whether its memory is in huge pages; zero-copy needs them.
    pub huge: bool,
    /// More arguments.
    pub more: &'a [&'a str],
}

/// A running testpmd.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// Whether it is installed.
pub fn is_there() -> bool {
    let help = Command::new("dpdk-testpmd")
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    help.is_ok()
}

impl Testpmd {
    /// Starts it. It forwards as soon as the memif is connected.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub fn start(options: Options<'_>) -> anyhow::Result<Self> {
        let mut child = command(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start dpdk-testpmd (scripts/deps-bench installs it)")?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut testpmd = Self {
            child,
            input,
            lines,
        };
        testpmd.say("set record-core-cycles on")?;
        testpmd.say("start")?;
        testpmd.packets_sent()?;
        Ok(testpmd)
    }

    /// Packets its port has sent since the beginning.
    ///
    /// # Errors
    /// No answer.
    pub fn packets_sent(&mut self) -> anyhow::Result<u64> {
        self.say("show port stats 0")?;
        self.number("TX-packets:")
    }

    /// Packets its port has received since the beginning.
    ///
    /// # Errors
    /// No answer.
    pub fn packets_received(&mut self) -> anyhow::Result<u64> {
        self.say("show port stats 0")?;
        self.number("RX-packets:")
    }

    /// Packets it has forwarded, and the CPU time for that, without empty polls.
    ///
    /// # Errors
    /// No answer.
    pub fn busy(&mut self) -> anyhow::Result<(u64, Duration)> {
        self.say("show fwd stats all")?;
        let line = self.line("CPU cycles/packet=")?;
        // … (total cycles=1 / total macswap packets=2) at 2600 MHz Clock
        let after = |name: &str| -> Option<f64> {
            let rest = line.split_once(name)?.1;
            let end = rest.find(|letter: char| !letter.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().ok()
        };
        let numbers = after("cycles=").zip(after("packets=")).zip(after(" at "));
        let ((cycles, packets), megahertz) = numbers.with_context(|| line.clone())?;
        let time = Duration::from_secs_f64(cycles / megahertz / 1e6);
        Ok((packets as u64, time))
    }

    /// Stops the traffic, but keeps the link.
    ///
    /// # Errors
    /// testpmd has ended.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.say("stop")
    }

    /// The thread that forwards.
    ///
    /// # Errors
    /// It has ended.
    pub fn thread(&self) -> anyhow::Result<(u32, u32)> {
        let process = self.child.id();
        // its names since DPDK 23.03 and before
        let names = ["dpdk-worker", "rte-worker", "lcore-worker"];
        Ok((process, cpu::thread_named(process, &names)?))
    }

    fn say(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{command}").context("dpdk-testpmd has ended")
    }

    fn number(&mut self, name: &str) -> anyhow::Result<u64> {
        let line = self.line(name)?;
        let rest = line.split_once(name).map_or("", |(_, rest)| rest);
        let number = rest.split_ascii_whitespace().next().unwrap_or_default();
        number.parse().with_context(|| line.clone())
    }

    /// The next line that contains `name`.
    fn line(&mut self, name: &str) -> anyhow::Result<String> {
        let start = Instant::now();
        let mut last = String::new();
        while let Some(left) = PATIENCE.checked_sub(start.elapsed()) {
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(name) => return Ok(line),
                Ok(line) => last = line,
                Err(_) => break,
            }
        }
        bail!("dpdk-testpmd has not printed {name} Its last line: {last}")
    }
}

impl Device<'_> {
    /// The arguments of its ports for DPDK.
    pub fn arguments(&self, log2_ring_size: u8) -> Vec<String> {
        match self {
            Self::Memif {
                role,
                socket,
                zero_copy,
            } => vec![format!(
                "net_memif0,role={role},id=0,socket={},socket-abstract=no,rsize={log2_ring_size},\
                 zero-copy={}",
                socket.display(),
                if *zero_copy { "yes" } else { "no" }
            )],
            Self::AfPacket(_, interface) => vec![format!(
                "net_af_packet0,iface={interface},framecnt={}",
                1u32 << log2_ring_size
            )],
            Self::AfXdp(_, interfaces) => {
                let port = |(number, interface)| format!("net_af_xdp{number},iface={interface}");
                interfaces.iter().enumerate().map(port).collect()
            }
        }
    }

    fn netns(&self) -> Option<&str> {
        match self {
            Self::Memif { .. } => None,
            Self::AfPacket(netns, _) | Self::AfXdp(netns, _) => Some(netns),
        }
    }
}

fn command(options: Options<'_>) -> Command {
    let Options { core, device, .. } = options;
    let memory: &[&str] = match options.huge {
        true => &["--in-memory", "--single-file-segments", "-m", "128"],
        false => &["--no-huge", "-m", "256"],
    };
    let ports = device.arguments(options.log2_ring_size);
    let topology = if ports.len() == 1 { "loop" } else { "paired" };
    let slots = (1u32 << options.log2_ring_size).to_string();
    // without stdbuf its output would stay in a buffer
    let mut program: Vec<&OsStr> = vec![];
    if let Some(netns) = device.netns() {
        program.extend(["ip", "netns", "exec", netns].map(OsStr::new));
    }
    if let Some(root) = options.root {
        program.extend([OsStr::new("chroot"), root.as_os_str()]);
    }
    program.extend(["stdbuf", "-oL", "dpdk-testpmd"].map(OsStr::new));
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["--no-pci", "--no-telemetry"])
        .arg(format!("--lcores=0@{core},1@{core}"))
        .arg(format!("--file-prefix=bora-{}", options.name))
        .args(ports.iter().map(|port| format!("--vdev={port}")))
        .args(memory)
        .args(["--", "-i", "--total-num-mbufs=16384"])
        .arg(format!("--port-topology={topology}"))
        .args(["--txd", &slots, "--rxd", &slots])
        .arg(format!("--burst={}", options.burst))
        .arg(format!("--forward-mode={}", options.mode))
        .args(options.more);
    command
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        if self.say("quit").is_ok() {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(3) {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
