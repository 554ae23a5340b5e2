//! A router whose behaviour is known: a thread that moves packets between memory queues by their
//! destination, through the faults of `bora_apparatus::fault`, and notes each one that it lets out.

mod in_time;
pub(crate) mod testbed;
pub(crate) mod traffic;
pub(crate) mod truth;

pub(crate) use in_time::in_time;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bora_apparatus::fault::{self, FaultCounters, Faults};
use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::{Queue, memory};
use bora_tester::clock;
use bora_tester::signature::{LENGTH, MASK, Signature};

/// Frames for all ports, and of each ring.
const FRAMES: u32 = 16_384;
const RING: usize = 2048;
/// How long the router sleeps when it finds nothing: its own part of the latency, beside what the
/// machine adds.
const NAP: Duration = Duration::from_micros(20);

/// The router that a test wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// Faults of what comes in, at each port with another seed.
    pub(crate) faults: Faults,
    /// Packets arrive when they are found, instead of when they were due: then capacity and outage
    /// depend on how the machine schedules.
    pub(crate) by_clock: bool,
    /// Every n-th packet leaves by the port after the right one; 0 is none.
    pub(crate) misrouted: u64,
}

/// The router at work.
pub(crate) struct Router {
    pub(crate) region: Arc<Region>,
    pub(crate) frames: SharedFrames,
    /// The faults of each port.
    pub(crate) handles: Vec<fault::Handle>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    misrouted: AtomicU64,
    seen: Mutex<Vec<Seen>>,
}

/// A packet that left the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) port: usize,
    pub(crate) stream: u16,
    pub(crate) sequence: u64,
    /// Whether its UDP checksum is right.
    pub(crate) whole: bool,
}

impl Router {
    /// Starts a router of this many ports; the queues are the other ends of its links. Port n has the
    /// networks 10.0.n.0/24 and 2001:db8:n::/48.
    pub(crate) fn start(ports: usize, model: &Model) -> (Self, Vec<Queue>) {
        let region = Arc::new(Region::new(FRAMES, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let (mut links, mut handles, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        for port in 0..ports {
            let (far, near) = memory::pair(RING);
            let faults = Faults {
                seed: model.faults.seed + port as u64,
                ..model.faults.clone()
            };
            let arrival: Option<fault::Arrival> = if model.by_clock { None } else { Some(due) };
            let near = Queue::Memory(near);
            let (near, handle) = fault::Queue::new(near, region.clone(), faults, arrival).unwrap();
            links.push(Link {
                queue: Queue::other(near),
                out: Vec::new(),
            });
            handles.push(handle);
            outside.push(Queue::Memory(far));
        }
        let shared = Arc::new(Shared::default());
        let engine = Engine {
            links,
            region: region.clone(),
            pool: Pool::new(frames.clone(), 256),
            misrouted: model.misrouted,
            forwarded: 0,
            shared: shared.clone(),
        };
        let router = Self {
            frames: frames.clone(),
            region,
            handles,
            shared,
            thread: Some(std::thread::spawn(move || engine.run(&frames))),
        };
        (router, outside)
    }

    /// What the faults of all ports did.
    pub(crate) fn counters(&self) -> FaultCounters {
        let mut sum = FaultCounters::default();
        for it in self.handles.iter().map(fault::Handle::counters) {
            sum.came += it.came;
            sum.passed += it.passed;
            sum.held += it.held;
            sum.outage += it.outage;
            sum.lost += it.lost;
            sum.buffer_full += it.buffer_full;
            sum.reordered += it.reordered;
            sum.duplicated += it.duplicated;
            sum.not_duplicated += it.not_duplicated;
            sum.corrupted += it.corrupted;
        }
        sum
    }

    /// Packets that left by a wrong port.
    pub(crate) fn misrouted(&self) -> u64 {
        self.shared.misrouted.load(Relaxed)
    }

    /// Everything that left since the last call, in order.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the router panicked"
            );
        }
    }
}

struct Link {
    queue: Queue,
    out: Vec<Packet>,
}

struct Engine {
    links: Vec<Link>,
    region: Arc<Region>,
    pool: Pool,
    misrouted: u64,
    forwarded: u64,
    shared: Arc<Shared>,
}

impl Engine {
    fn run(mut self, frames: &SharedFrames) {
        let slack = std::num::NonZeroU64::new(1);
        rustix::thread::set_current_timer_slack(slack).unwrap();
        let mut packets = Vec::new();
        while !self.shared.stop.load(Relaxed) {
            for link in &mut self.links {
                link.queue.receive(&mut packets, 64);
                link.queue.refill(&mut self.pool);
            }
            if packets.is_empty() && self.links.iter().all(|link| link.out.is_empty()) {
                std::thread::sleep(NAP);
                continue;
            }
            for packet in packets.drain(..) {
                self.forward(packet);
            }
            for link in &mut self.links {
                link.queue.transmit(&mut link.out);
            }
        }
        for link in self.links {
            link.queue.close(frames);
        }
    }

    fn forward(&mut self, packet: Packet) {
        let Some(seen) = look(self.region.octets(&packet), self.links.len()) else {
            // none of the tester's (ARP): a host with no interest in it
            self.pool.give(packet.into_frame(&self.region));
            return;
        };
        self.forwarded += 1;
        let mut port = seen.port;
        if self.misrouted > 0 && self.forwarded.is_multiple_of(self.misrouted) {
            port = (port + 1) % self.links.len();
            self.shared.misrouted.fetch_add(1, Relaxed);
        }
        self.shared.seen.lock().unwrap().push(Seen { port, ..seen });
        self.links[port].out.push(packet);
    }
}

/// When a packet was due to be sent.
fn due(octets: &[u8]) -> Option<u64> {
    let (_, at) = destination(octets)?;
    let (signature, _) = Signature::read(octets.get(at..at + LENGTH)?.try_into().ok()?);
    // 48 bits of the clock, to be taken as near as can be
    let now = clock::now();
    let ahead = (signature.stamp.wrapping_sub(now & MASK) << 16) as i64 >> 16;
    Some(now.wrapping_add_signed(ahead))
}

/// The port a packet is for, and where its signature begins.
fn destination(octets: &[u8]) -> Option<(usize, usize)> {
    match octets.get(12..14)? {
        // 10.0.n.h
        [0x08, 0x00] => Some((usize::from(*octets.get(32)?), 42)),
        // 2001:db8:n::h
        [0x86, 0xdd] => Some((usize::from(*octets.get(43)?), 62)),
        _ => None,
    }
}

fn look(octets: &[u8], ports: usize) -> Option<Seen> {
    let (port, at) = destination(octets)?;
    let (signature, _) = Signature::read(octets.get(at..at + LENGTH)?.try_into().ok()?);
    (port < ports).then_some(Seen {
        port,
        stream: signature.stream,
        sequence: signature.sequence,
        whole: truth::is_whole(octets),
    })
}
