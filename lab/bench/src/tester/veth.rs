//! Ways to send on a veth pair; an XDP program counts at its other end.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bora_linux::netns::{self, Namespace};
use bora_tester::generate::Generator;
use bora_tester::ports::Kind;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::counter::{Bare, Counter};
use super::memif::with_testpmd;
use super::{
    BATCH, CORES, FRAME, MANY, MANY_FLOWS, ONE_FLOW, Sample, Samples, patiently, pin, port, send,
    traffic, watch,
};
use crate::cpu::Usage;
use crate::ends;
use crate::engine::testpmd::{self, Device};
use crate::engine::{Plan, Section};

/// The sender's interface, and the counting one.
const OUT: &str = "e0";
const COUNTING: &str = "benchcount0";
/// Octets of the UDP payload of a frame of [`FRAME`] octets.
const PAYLOAD: usize = FRAME as usize - 4 - 14 - 20 - 8;

/// The sender.
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
    /// Kept, because the namespace goes when it is dropped.
    _right: Namespace,
}

impl Pair {
    fn new() -> anyhow::Result<Self> {
        let (left, right) = (Namespace::new("out")?, Namespace::new("count")?);
        left.run(&format!(
            "ip link add {OUT} type veth peer name {COUNTING} netns {right}"
        ))?;
        for (space, name) in [(&left, OUT), (&right, COUNTING)] {
            space.run(&format!("ethtool -K {name} gro on"))?;
            // otherwise Linux sends router solicitations
            space.run(&format!("ip link set {name} addrgenmode none up"))?;
        }
        let (index, mac) = (right.ifindex(COUNTING)?, right.mac(COUNTING)?);
        let counter = netns::in_named(right.name(), || Counter::new(index))??;
        // threaded NAPI, so that reception runs on a CPU of its own
        right.run(&format!("echo 1 > /sys/class/net/{COUNTING}/threaded"))?;
        pin_receiver()?;
        Ok(Self {
            left,
            counter,
            mac: mac_text(mac),
            _right: right,
        })
    }

    /// Sets the sender's interface up with its addresses, because testpmd leaves it down.
    fn address(&self) -> anyhow::Result<()> {
        let mac = &self.mac;
        self.left.run(&format!(
            "ip link set {OUT} up && ip address replace 198.18.0.1/24 dev {OUT} && \
             ip neighbour replace 198.18.0.2 lladdr {mac} dev {OUT}"
        ))?;
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
                    true => Device::AfXdp(netns, &[OUT]),
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

    /// Measures a thread of ours in the sender's namespace, on its CPU, which sends until it is
    /// told to stop.
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

/// Sends by BPF_PROG_RUN alone.
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

/// Sends by a UDP socket, in batches as large as those of the others.
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

/// Runs the benchmark.
///
/// # Errors
/// The process may not make namespaces, or a sender fails.
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
            // the cheapest sender shows what the receiver takes
            if matches!(subject, Subject::Bare) {
                samples.rates.add(ONE_FLOW, ends::ALONE, sample.rate);
                samples.rates.add(MANY_FLOWS, ends::ALONE, sample.rate);
            }
        }
    }
    samples.publish(&mut section, "bora, live XDP frames");
    Ok(section)
}

fn subjects() -> Vec<(&'static str, &'static str, Subject)> {
    let testpmd = |mode, xdp| Subject::Testpmd { mode, xdp };
    vec![
        (
            ONE_FLOW,
            "bora, live XDP frames",
            Subject::Bora(Kind::Xdp, 1),
        ),
        (ONE_FLOW, "bora, AF_XDP", Subject::Bora(Kind::AfXdp, 1)),
        (
            ONE_FLOW,
            "bora, AF_PACKET",
            Subject::Bora(Kind::af_packet, 1),
        ),
        (ONE_FLOW, "testpmd, AF_XDP", testpmd("txonly", true)),
        (ONE_FLOW, "testpmd, AF_PACKET", testpmd("txonly", false)),
        (ONE_FLOW, "BPF_PROG_RUN alone", Subject::Bare),
        (ONE_FLOW, "UDP socket, sendmmsg", Subject::Udp),
        (
            MANY_FLOWS,
            "bora, live XDP frames",
            Subject::Bora(Kind::Xdp, MANY),
        ),
        (MANY_FLOWS, "bora, AF_XDP", Subject::Bora(Kind::AfXdp, MANY)),
        (
            MANY_FLOWS,
            "bora, AF_PACKET",
            Subject::Bora(Kind::af_packet, MANY),
        ),
        (MANY_FLOWS, "testpmd, AF_XDP", testpmd("flowgen", true)),
        (MANY_FLOWS, "testpmd, AF_PACKET", testpmd("flowgen", false)),
    ]
}

/// Pins the kernel's receiving thread to the receiver's CPU.
fn pin_receiver() -> anyhow::Result<()> {
    // thread names are cut after 15 octets
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
