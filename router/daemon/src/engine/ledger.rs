//! Where the frames are.

use std::collections::BTreeMap;

use bora_fib::PortId;
use bora_worker::WorkerCounters;
use serde::{Deserialize, Serialize};

use super::Engine;
use crate::ports::Port;

/// Where the frames of the packet memory are: `total = reserve + pools + rings + held + to_linux +
/// closing`, each counted at its own moment, so that it adds up when nothing moves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FramesReport {
    /// All there are.
    pub(crate) total: u64,
    /// Octets of a frame.
    pub(crate) octets: u32,
    /// Free, for any worker.
    pub(crate) reserve: u64,
    /// Free, on the workers' own lists.
    pub(crate) pools: u64,
    /// With the queues of each port, and through them with Linux, a card or a peer.
    pub(crate) rings: BTreeMap<String, u64>,
    /// Packets that workers hold: waiting for a transmit ring, or on their way to another worker.
    pub(crate) held: u64,
    /// Packets on their way to Linux.
    pub(crate) to_linux: u64,
    /// Frames of closed sockets, while the kernel may still use them.
    pub(crate) closing: u64,
}

impl Engine {
    /// Packets that workers and slow path hold, each counted at its own moment.
    pub(crate) fn held(&self) -> u64 {
        let workers = self.workers.iter();
        let workers: u64 = workers.map(|worker| worker.counters.queued.get()).sum();
        workers + self.common.punts.held() as u64 + self.slow_path.in_hand.get()
    }

    /// Every frame at its dir. `ports` give the names; what workers still have of a removed port is
    /// under its number.
    pub(crate) fn frames(&self, ports: &[Port]) -> FramesReport {
        let sum = |of: fn(&WorkerCounters) -> u64| {
            let workers = self.workers.iter();
            workers.map(|worker| of(&worker.counters)).sum()
        };
        let closing = self.closing.iter();
        FramesReport {
            total: self.common.region.frames().into(),
            octets: self.common.region.frame_size(),
            reserve: self.common.frames.len() as u64,
            pools: sum(|worker| worker.pool_size.get()),
            rings: self.rings(ports),
            held: sum(|worker| worker.queued.get()),
            to_linux: self.common.punts.held() as u64,
            closing: closing.map(|(_, one)| u64::from(one.len())).sum(),
        }
    }

    fn rings(&self, ports: &[Port]) -> BTreeMap<String, u64> {
        let mut rings: BTreeMap<PortId, u64> = ports.iter().map(|port| (port.id, 0)).collect();
        for worker in &self.workers {
            for (number, port) in worker.counters.ports.iter().enumerate() {
                let frames = port.frames.get();
                if frames > 0 {
                    *rings.entry(PortId(number as u16)).or_default() += frames;
                }
            }
        }
        for leaving in &self.leaving {
            let queues = leaving.queues.iter();
            let frames: u64 = queues.map(|queue| u64::from(queue.frames())).sum();
            *rings.entry(leaving.port).or_default() += frames;
        }
        let name = |id: PortId| match ports.iter().find(|port| port.id == id) {
            Some(port) => port.name.clone(),
            None => format!("removed port {}", id.0),
        };
        let rings = rings.into_iter();
        rings.map(|(id, frames)| (name(id), frames)).collect()
    }
}
