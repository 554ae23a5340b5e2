//! Ways to send on a veth pair, counted at its other end by an XDP program.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bora_lab::Namespace;
use bora_tester::generate::Generator;
use bora_tester::ports::{Kind, netns};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::counter::{Bare, Counter};
use super::memif::with_testpmd;
use super::{
    BATCH, CORES, FRAME, MANY, Sample, Samples, patiently, pin, port, send, traffic, watch,
};
use crate::cpu::Usage;
use crate::engine::testpmd::{self, Device};
use crate::engine::{Plan, Section};

/// The sender's interface, and the counting one.
const OUT: &str = "e0";
const COUNTING: &str = "benchcount0";
/// Octets of a UDP payload that make a frame of [`FRAME`] octets.
const PAYLOAD: usize = FRAME as usize - 4 - 14 - 20 - 8;

/// Who sends.
#[derive(Clone, Copy)]
enum Subject {
    Bora(fn(String) -> Kind, u32),
    Testpmd { mode: &'static str, xdp: bool },
    Bare,
    Udp,
}

/// A veth pair between two namespaces.
struct Pair {
    left: Namespace,
    counter: Counter,
    /// Ethernet address of the counting end.
    mac: String,
    /// Only kept.
    _right: Namespace,
}

impl Pair {
    fn new() -> anyhow::Result<Self> {
        let (left, right) = (Namespace::new("out")?, Namespace::new("count")?);
        let (there, peer) = (right.name(), COUNTING);
        left.run(&[
            "ip", "link", "add", OUT, "type", "veth", "peer", "name", peer, "netns", there,
        ])?;
        for (space, name) in [(&left, OUT), (&right, COUNTING)] {
            space.run(&["ethtool", "-K", name, "gro", "on"])?;
            // or Linux sends router solicitations
            space.run(&["ip", "link", "set", name, "addrgenmode", "none"])?;
            space.run(&["ip", "link", "set", name, "up"])?;
        }
        let (index, mac) = (right.ifindex(COUNTING)?, right.mac(COUNTING)?);
        let counter = netns::inside(Some(right.name()), || Counter::new(index))?;
        // the receiving half runs on a thread of the kernel's, on a CPU of its own
        let threaded = format!("echo 1 > /sys/class/net/{COUNTING}/threaded");
        right.run(&["sh", "-c", &threaded])?;
        pin_receiver()?;
        Ok(Self {
            left,
            counter,
            mac: mac_text(mac),
            _right: right,
        })
    }

    /// Gives the sender's interface its addresses; testpmd, for one, leaves it down.
    fn address(&self) -> anyhow::Result<()> {
        let own = "198.18.0.1/24";
        self.left.run(&["ip", "link", "set", OUT, "up"])?;
        self.left
            .run(&["ip", "address", "replace", own, "dev", OUT])?;
        let peer = ["198.18.0.2", "lladdr", &self.mac, "dev", OUT];
        self.left
            .run(&[&["ip", "neighbour", "replace"][..], &peer].concat())?;
        Ok(())
    }

    fn measure(&self, subject: Subject, time: Duration) -> anyhow::Result<Sample> {
        self.address()?;
        let (packets, octets) = self.counter.read()?;
        let count = || Ok(self.counter.read()?.0);
        let netns = self.left.name();
        let sample = match subject {
            Subject::Bora(kind, flows) => {
                let port = port(kind(OUT.into()), Some(netns), CORES[0]);
                send(port, flows, time, &count, &|| Ok(Duration::ZERO))
            }
            Subject::Testpmd { mode, xdp } => {
                let device = match xdp {
                    true => Device::AfXdp(netns, OUT),
                    false => Device::AfPacket(netns, OUT),
                };
                with_testpmd(mode, device, time, &count)
            }
            Subject::Bare => {
                let index = self.left.ifindex(OUT)?;
                self.thread(time, &count, |stop| run_program(index, stop))
            }
            Subject::Udp => self.thread(time, &count, send_datagrams),
        }?;
        let (packets, octets) = {
            let now = self.counter.read()?;
            (now.0 - packets, now.1 - octets)
        };
        super::same_length(octets as f64 / packets as f64)?;
        Ok(sample)
    }

    /// One of our threads in the sender's namespace, on its CPU, until it is told to stop.
    fn thread(
        &self,
        time: Duration,
        count: &dyn Fn() -> anyhow::Result<u64>,
        run: impl FnOnce(&AtomicBool) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<Sample> {
        let stop = &AtomicBool::new(false);
        let (sender, id) = mpsc::channel();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                self.left.enter()?;
                pin(None, CORES[0]);
                sender.send(super::thread_id()?)?;
                run(stop)
            });
            let sample = id
                .recv()
                .context("the sender")
                .and_then(|thread| watch(time, count, &|| Usage::of(std::process::id(), thread)));
            stop.store(true, Ordering::Relaxed);
            worker.join().map_err(|_| anyhow!("a thread failed"))??;
            sample
        })
    }
}

/// BPF_PROG_RUN and nothing else.
fn run_program(index: u32, stop: &AtomicBool) -> anyhow::Result<()> {
    const BURST: u32 = 1 << 14;
    let mut frame = vec![0; usize::from(FRAME) - 4];
    Generator::new(&traffic(0, 1), 0, &[super::link()])?.write(&mut frame, 0);
    let sender = Bare::new(index, frame)?;
    while !stop.load(Ordering::Relaxed) {
        sender.send(BURST)?;
    }
    Ok(())
}

/// A UDP socket, as many datagrams a call as others send at once.
fn send_datagrams(stop: &AtomicBool) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("198.18.0.1:1024")?;
    socket.connect("198.18.0.2:9")?;
    let payload = [std::io::IoSlice::new(&[0; PAYLOAD])];
    let mut controls: Vec<_> = (0..BATCH).map(|_| SendAncillaryBuffer::default()).collect();
    let controls = controls.iter_mut();
    let mut messages: Vec<_> = controls.map(|it| MMsgHdr::new(&payload, it)).collect();
    while !stop.load(Ordering::Relaxed) {
        sendmmsg(&socket, &mut messages, SendFlags::empty())?;
    }
    Ok(())
}

/// Runs it.
///
/// # Errors
/// No right to make namespaces, or a sender fails.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("veth");
    let mut subjects = subjects();
    if !testpmd::is_there() {
        let note = "testpmd is left out: it is not installed (`scripts/deps-bench`).";
        section.notes.push(note.into());
        subjects.retain(|(.., subject)| !matches!(subject, Subject::Testpmd { .. }));
    }
    let pair = Pair::new()?;
    let mut samples = Samples::default();
    for round in 1..=plan.rounds {
        eprintln!("veth: round {round} of {}", plan.rounds);
        for &(case, name, subject) in &subjects {
            let sample = patiently(name, || pair.measure(subject, plan.time))?;
            samples.add(case, name, sample);
        }
    }
    samples.publish(&mut section, "bora, live XDP frames");
    Ok(section)
}

fn subjects() -> Vec<(&'static str, &'static str, Subject)> {
    let (one, many) = ("1 flow", "8192 flows");
    let testpmd = |mode, xdp| Subject::Testpmd { mode, xdp };
    vec![
        (one, "bora, live XDP frames", Subject::Bora(Kind::Xdp, 1)),
        (one, "bora, AF_XDP", Subject::Bora(Kind::AfXdp, 1)),
        (one, "bora, AF_PACKET", Subject::Bora(Kind::AfPacket, 1)),
        (one, "testpmd, AF_XDP", testpmd("txonly", true)),
        (one, "testpmd, AF_PACKET", testpmd("txonly", false)),
        (one, "BPF_PROG_RUN alone", Subject::Bare),
        (one, "UDP socket, sendmmsg", Subject::Udp),
        (
            many,
            "bora, live XDP frames",
            Subject::Bora(Kind::Xdp, MANY),
        ),
        (many, "bora, AF_XDP", Subject::Bora(Kind::AfXdp, MANY)),
        (many, "bora, AF_PACKET", Subject::Bora(Kind::AfPacket, MANY)),
        (many, "testpmd, AF_XDP", testpmd("flowgen", true)),
        (many, "testpmd, AF_PACKET", testpmd("flowgen", false)),
    ]
}

/// Keeps the kernel's thread that receives on the receiver's CPU.
fn pin_receiver() -> anyhow::Result<()> {
    // names of threads have 15 octets
    let name = format!("napi/{COUNTING}");
    let name = &name[..name.len().min(15)];
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let id = entry.file_name().to_string_lossy().parse().ok();
        if let Some(id) = id.filter(|_| comm.starts_with(name)) {
            pin(rustix::process::Pid::from_raw(id), CORES[1]);
            return Ok(());
        }
    }
    Err(anyhow!("Linux has made no thread {name}"))
}

fn mac_text(mac: [u8; 6]) -> String {
    bora_wire::MacAddr(mac).to_string()
}
