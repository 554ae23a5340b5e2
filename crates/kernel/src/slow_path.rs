//! The thread that hands punted packets to Linux on the interface they came in by.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bora_buffer::{Region, SharedFrames};
use bora_fib::PortId;
use bora_port::inject::Injector;
use bora_port::tap::Writer;
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
        if let Some(Device::Twin(twin)) = self.devices.get(punted.port) {
            let written = twin.write(self.region.octets(&punted.packet));
            let counter = match written {
                Ok(()) => &self.counters.injected,
                Err(_) => &self.counters.failed,
            };
            counter.fetch_add(1, Relaxed);
            self.frames.give(punted.packet.into_frame(&self.region));
            return;
        }
        if injector.waiting() == bora_port::inject::BATCH {
            self.flush(injector, Some(punted.port));
        }
        if !injector.push(self.region.octets(&punted.packet)) {
            self.counters.failed.fetch_add(1, Relaxed);
        }
        self.frames.give(punted.packet.into_frame(&self.region));
    }

    fn flush(&self, injector: &mut Injector, port: Option<PortId>) {
        let Some(Device::Interface { ifindex, generic }) =
            port.and_then(|port| self.devices.get(port))
        else {
            return;
        };
        let waiting = injector.waiting() as u64;
        match injector.flush(ifindex, generic) {
            Ok(count) => drop(self.counters.injected.fetch_add(count as u64, Relaxed)),
            Err(error) => {
                log::debug!("cannot hand packets to interface {ifindex}: {error}");
                self.counters.failed.fetch_add(waiting, Relaxed);
            }
        }
    }
}
