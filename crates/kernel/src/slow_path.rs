//! The thread that hands punted packets to Linux on the interface they came in by.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bora_buffer::{Region, SharedFrames};
use bora_fib::PortId;
use bora_forward::{Punt, complete_checksum};
use bora_port::inject::{BATCH, Injector};
use bora_port::tap::Writer;
use bora_port::xdp::LinuxDestinations;
use bora_wire::ethernet::{EtherType, Frame};
use bora_wire::{ipv4, ipv6};
use bora_worker::{PuntRings, Punted};

/// Sleeps while there is nothing, each twice as long as the last: batches come together, and workers
/// need not wake the thread for each. Then it sleeps until it is woken.
const FIRST_WAIT: Duration = Duration::from_micros(50);
const LAST_WAIT: Duration = Duration::from_millis(1);
/// Between two signs of life.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Packets of a port in one batch from which on their destinations are noted.
const MUCH: usize = 32;

/// What the slow path did, in packets unless named otherwise.
#[derive(Debug, Default)]
pub struct SlowPathCounters {
    /// Handed to Linux.
    pub injected: AtomicU64,
    /// Refused by the kernel, or too long for it.
    pub failed: AtomicU64,
    /// Times round the loop.
    pub loops: AtomicU64,
}

/// How packets of one port get to Linux.
#[derive(Clone, Debug)]
pub enum Device {
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
pub struct Devices(Vec<Mutex<Option<Device>>>);

impl Devices {
    /// None yet, with room for this many numbers.
    pub fn new(ports: usize) -> Self {
        Self((0..ports).map(|_| Mutex::default()).collect())
    }

    /// Sets a port's way. It stays when the port is removed: what waits for Linux then still
    /// belongs there.
    pub fn set(&self, port: PortId, device: Device) {
        if let Some(slot) = self.0.get(usize::from(port.0)) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
        }
    }

    fn get(&self, port: PortId) -> Option<Device> {
        let slot = self.0.get(usize::from(port.0))?;
        slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything the thread works with.
pub struct SlowPath {
    /// What the workers send.
    pub punts: Arc<PuntRings>,
    /// The memory the packets are in.
    pub region: Arc<Region>,
    /// Where their frames go afterwards.
    pub frames: SharedFrames,
    /// Where to hand them to Linux.
    pub devices: Arc<Devices>,
    /// What is counted.
    pub counters: Arc<SlowPathCounters>,
    /// Whether the engine obeys rules: then every packet must come by it.
    pub rules: Arc<AtomicBool>,
    /// Set to end the thread, once nothing waits.
    pub stop: Arc<AtomicBool>,
}

impl SlowPath {
    /// Runs until told to stop. Without `destinations` everything comes by the engine.
    pub fn run(self, mut injector: Injector, mut destinations: Option<LinuxDestinations>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut wait = FIRST_WAIT;
        loop {
            self.counters.loops.fetch_add(1, Relaxed);
            batch.extend(std::iter::from_fn(|| self.punts.pop()).take(BATCH));
            if !batch.is_empty() {
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

    /// Hands packets to Linux, those of a port in their order.
    fn hand_over(&self, injector: &mut Injector, batch: &mut [Punted]) {
        for punted in batch.iter_mut().filter(|punted| punted.partial_checksum) {
            complete_checksum(self.region.octets_mut(&mut punted.packet));
        }
        batch.sort_by_key(|punted| punted.port.0);
        for of_port in batch.chunk_by(|one, next| one.port == next.port) {
            let done = match self.devices.get(of_port[0].port) {
                Some(Device::Interface { ifindex, generic }) => {
                    self.inject(injector, of_port, (ifindex, generic))
                }
                Some(Device::Twin(twin)) => {
                    let octets = of_port.iter().map(|one| self.region.octets(&one.packet));
                    octets.filter(|octets| twin.write(octets).is_ok()).count()
                }
                None => 0,
            };
            let failed = of_port.len() - done;
            self.counters.injected.fetch_add(done as u64, Relaxed);
            self.counters.failed.fetch_add(failed as u64, Relaxed);
        }
    }

    /// Has an interface receive packets once more; returns how many did.
    fn inject(
        &self,
        injector: &mut Injector,
        packets: &[Punted],
        (ifindex, generic): (u32, bool),
    ) -> usize {
        for punted in packets {
            injector.push(self.region.octets(&punted.packet));
        }
        injector.flush(ifindex, generic).unwrap_or_else(|error| {
            log::debug!("cannot hand packets to interface {ifindex}: {error}");
            0
        })
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
            let leads_to_linux =
                |one: &&Punted| matches!(one.reason, Punt::Unsupported | Punt::Redirect);
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
