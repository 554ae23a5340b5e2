//! The thread that hands punted packets to Linux on the interface they came in by.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bora_buffer::{Region, SharedFrames};
use bora_contract::{Counter, Counters, Counts, INJECT_BATCH, Reason};
use bora_fib::PortId;
use bora_forward::complete_checksum;
use bora_linux::lock;
use bora_port::tap::Writer;
use bora_wire::ethernet::{EtherType, Frame};
use bora_wire::{ipv4, ipv6};
use bora_worker::{PuntRings, Punted};
use bora_xdp::LinuxDestinations;
use bora_xdp::inject::Injector;

/// Sleeps while there is nothing, each twice as long as the last: batches come together, and workers
/// need not wake the thread for each. Then it sleeps until it is woken.
const FIRST_WAIT: Duration = Duration::from_micros(50);
const LAST_WAIT: Duration = Duration::from_millis(1);
/// Between two signs of life.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Packets of a port in one batch from which on their destinations are noted.
const MUCH: usize = 32;

/// What the slow path did. It is the only writer.
#[derive(Debug)]
pub(crate) struct SlowPathCounters {
    /// By the number of the port that a packet came in by.
    ports: Vec<HandedOver>,
    /// Packets it has in hand.
    pub(crate) in_hand: Counter,
    /// Times round the loop.
    pub(crate) loops: Counter,
}

/// What became of the packets of one port.
#[derive(Debug, Default)]
struct HandedOver {
    /// Handed to Linux.
    passed: Counters,
    /// Refused by the kernel, or too long for it.
    failed: Counter,
}

impl SlowPathCounters {
    /// Zeros, with room for this many port numbers.
    pub(crate) fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| HandedOver::default()).collect(),
            in_hand: Counter::default(),
            loops: Counter::default(),
        }
    }

    /// Packets of a port number that were handed to Linux, and those that could not be.
    pub(crate) fn counted(&self, port: PortId) -> (Counts, u64) {
        let counted = self.ports.get(usize::from(port.0));
        let counted = counted.map(|port| (port.passed.read(), port.failed.get()));
        counted.unwrap_or_default()
    }
}

/// How packets of one port get to Linux.
#[derive(Clone, Debug)]
pub(crate) enum Device {
    /// Received once more on the interface itself.
    Interface {
        /// Its index.
        ifindex: u32,
        /// Whether it runs generic XDP.
        generic: bool,
    },
    /// Received on the TAP interface that stands for the port.
    Twin(Arc<Writer>),
}

/// Each port's way, by number; ports come and go.
#[derive(Debug)]
pub(crate) struct Devices(Vec<Mutex<Option<Device>>>);

impl Devices {
    /// None yet, with room for this many numbers.
    pub(super) fn new(ports: usize) -> Self {
        Self((0..ports).map(|_| Mutex::default()).collect())
    }

    /// Sets a port's way. It stays when the port is removed: what waits for Linux then still
    /// belongs there.
    pub(super) fn set(&self, port: PortId, device: Device) {
        if let Some(slot) = self.0.get(usize::from(port.0)) {
            *lock(slot) = Some(device);
        }
    }

    fn get(&self, port: PortId) -> Option<Device> {
        let slot = self.0.get(usize::from(port.0))?;
        lock(slot).clone()
    }
}

/// Everything the thread works with.
pub(crate) struct SlowPath {
    /// What the workers send.
    pub(crate) punts: Arc<PuntRings>,
    /// The memory the packets are in.
    pub(crate) region: Arc<Region>,
    /// Where their frames go afterwards.
    pub(crate) frames: SharedFrames,
    /// Where to hand them to Linux.
    pub(crate) devices: Arc<Devices>,
    /// What is counted.
    pub(crate) counters: Arc<SlowPathCounters>,
    /// Whether the engine obeys rules: then every packet must come by it.
    pub(crate) rules: Arc<AtomicBool>,
    /// Set to end the thread, once nothing waits.
    pub(crate) stop: Arc<AtomicBool>,
}

impl SlowPath {
    /// Runs until told to stop. Without `destinations` everything comes by the engine.
    pub(super) fn run(self, mut injector: Injector, mut destinations: Option<LinuxDestinations>) {
        let mut batch = Vec::with_capacity(INJECT_BATCH);
        let mut wait = FIRST_WAIT;
        loop {
            self.counters.loops.add(1);
            self.punts.take(&mut batch, INJECT_BATCH);
            if !batch.is_empty() {
                self.counters.in_hand.set(batch.len() as u64);
                self.hand_over(&mut injector, &mut batch);
                wait = FIRST_WAIT;
            } else if self.stop.load(Relaxed) {
                return;
            } else if wait < LAST_WAIT {
                std::thread::sleep(wait);
                wait *= 2;
            } else {
                self.punts.wait(LONGEST_SLEEP);
            }
            if let Some(destinations) = &mut destinations {
                self.note(destinations, &batch);
            }
            for punted in batch.drain(..) {
                self.frames.give(punted.packet.into_frame(&self.region));
            }
        }
    }

    /// Hands packets to Linux, those of a port in their order, the most urgent first.
    fn hand_over(&self, injector: &mut Injector, batch: &mut [Punted]) {
        for punted in batch.iter_mut().filter(|punted| punted.partial_checksum) {
            complete_checksum(self.region.octets_mut(&mut punted.packet));
        }
        batch.sort_by_key(|punted| punted.port.0);
        for of_port in batch.chunk_by(|one, next| one.port == next.port) {
            let port = of_port[0].port;
            let counters = &self.counters.ports[usize::from(port.0)];
            let count = |punted: &Punted, taken: bool| match taken {
                true => counters.passed[punted.reason].add(1),
                false => counters.failed.add(1),
            };
            match self.devices.get(port) {
                Some(Device::Interface { ifindex, generic }) => {
                    self.inject(injector, of_port, (ifindex, generic), count);
                }
                Some(Device::Twin(twin)) => {
                    for punted in of_port {
                        let octets = self.region.octets(&punted.packet);
                        let written = twin.write(octets).inspect_err(|error| {
                            log::debug!("cannot hand a packet to a twin: {error}");
                        });
                        count(punted, matches!(written, Ok(())));
                    }
                }
                None => of_port.iter().for_each(|punted| count(punted, false)),
            }
        }
        self.counters.in_hand.set(0);
    }

    /// Has an interface receive packets once more; `count` gets each with whether it did.
    fn inject(
        &self,
        injector: &mut Injector,
        packets: &[Punted],
        (ifindex, generic): (u32, bool),
        mut count: impl FnMut(&Punted, bool),
    ) {
        let (fit, others): (Vec<&Punted>, Vec<&Punted>) = packets
            .iter()
            .partition(|punted| injector.push(self.region.octets(&punted.packet)));
        let taken = match injector.flush(ifindex, generic) {
            Ok(_) => true, // all of them
            Err(error) => {
                log::debug!("cannot hand packets to interface {ifindex}: {error}");
                false
            }
        };
        fit.into_iter().for_each(|one| count(one, taken));
        others.into_iter().for_each(|one| count(one, false));
    }

    /// Where a port brings much at once that Linux forwards, what follows need not come this way.
    fn note(&self, destinations: &mut LinuxDestinations, batch: &[Punted]) {
        if self.rules.load(Relaxed) {
            return destinations.forget();
        }
        destinations.tick(Instant::now());
        for of_port in batch.chunk_by(|one, next| one.port == next.port) {
            let Some(Device::Interface { ifindex, .. }) = self.devices.get(of_port[0].port) else {
                continue;
            };
            let leads_to_linux = |one: &&Punted| {
                matches!(
                    one.reason,
                    Reason::Unsupported
                        | Reason::Redirect
                        | Reason::RouteException
                        | Reason::Shaped
                )
            };
            let bulk = of_port.iter().filter(leads_to_linux);
            if bulk.clone().count() < MUCH {
                continue;
            }
            let found = bulk.filter_map(|one| destination(self.region.octets(&one.packet)));
            found.for_each(|address| destinations.note(ifindex, address));
        }
    }
}

/// Where the IP packet in an Ethernet frame goes.
#[expect(
    clippy::disallowed_methods,
    reason = "it only tells where much goes, and what is no whole packet goes nowhere"
)]
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let frame = Frame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EtherType::IPV4 => Some(
            ipv4::Packet::new_checked(frame.payload())
                .ok()?
                .dst()
                .into(),
        ),
        EtherType::IPV6 => Some(
            ipv6::Packet::new_checked(frame.payload())
                .ok()?
                .dst()
                .into(),
        ),
        _ => None,
    }
}
