//! The thread that hands punted packets to Linux on the interface they came in by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bora_buffer::{Region, SharedFrames};
use bora_fib::PortId;
use bora_port::inject::Injector;
use bora_worker::{PuntRing, Punted};

/// Wait when the ring is empty: bounds the delay an exception suffers.
const IDLE: Duration = Duration::from_millis(1);

/// What the slow path did, in packets.
#[derive(Debug, Default)]
pub struct SlowPathCounters {
    /// Handed to Linux.
    pub injected: AtomicU64,
    /// Refused by the kernel, or too long for it.
    pub failed: AtomicU64,
}

/// ifindex of each port, by number, and whether it runs generic XDP; ports come and go.
#[derive(Debug)]
pub struct Devices(Vec<AtomicU64>);

impl Devices {
    /// None yet, with room for this many numbers.
    pub fn new(ports: usize) -> Self {
        Self((0..ports).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a port's interface. It stays when the port is removed: what waits for Linux then still
    /// belongs there.
    pub fn set(&self, port: PortId, ifindex: u32, generic: bool) {
        if let Some(slot) = self.0.get(usize::from(port.0)) {
            slot.store(u64::from(ifindex) << 1 | u64::from(generic), Relaxed);
        }
    }

    /// An index of 0, which the kernel refuses, for ports that never were.
    fn get(&self, port: PortId) -> (u32, bool) {
        let slot = self.0.get(usize::from(port.0));
        let value = slot.map_or(0, |slot| slot.load(Relaxed));
        ((value >> 1) as u32, value & 1 == 1)
    }
}

/// Everything the thread works with.
pub struct SlowPath {
    /// What the workers send.
    pub punts: PuntRing,
    /// The memory the packets are in.
    pub region: Arc<Region>,
    /// Where their frames go afterwards.
    pub frames: SharedFrames,
    /// Where to hand them to Linux.
    pub devices: Arc<Devices>,
    /// What is counted.
    pub counters: Arc<SlowPathCounters>,
    /// Set to end the thread, once the ring is empty.
    pub stop: Arc<AtomicBool>,
}

impl SlowPath {
    /// Runs until told to stop.
    pub fn run(self, mut injector: Injector) {
        let mut last: Option<PortId> = None;
        loop {
            match self.punts.pop() {
                Some(punted) => {
                    // a batch is of one port, because a call is for one interface
                    if last.is_some_and(|port| port != punted.port) {
                        self.flush(&mut injector, last);
                    }
                    last = Some(punted.port);
                    self.add(&mut injector, punted);
                }
                None => {
                    self.flush(&mut injector, last);
                    if self.stop.load(Relaxed) {
                        return;
                    }
                    std::thread::sleep(IDLE);
                }
            }
        }
    }

    fn add(&self, injector: &mut Injector, punted: Punted) {
        if injector.waiting() == bora_port::inject::BATCH {
            self.flush(injector, Some(punted.port));
        }
        if !injector.push(self.region.octets(&punted.packet)) {
            self.counters.failed.fetch_add(1, Relaxed);
        }
        self.frames.give(punted.packet.into_frame(&self.region));
    }

    fn flush(&self, injector: &mut Injector, port: Option<PortId>) {
        let Some(port) = port else { return };
        let (device, generic) = self.devices.get(port);
        let waiting = injector.waiting() as u64;
        match injector.flush(device, generic) {
            Ok(count) => drop(self.counters.injected.fetch_add(count as u64, Relaxed)),
            Err(error) => {
                log::debug!("cannot hand packets to interface {device}: {error}");
                self.counters.failed.fetch_add(waiting, Relaxed);
            }
        }
    }
}
