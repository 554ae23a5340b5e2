//! Where the frames are.

use std::collections::BTreeMap;

use bora_fib::PortId;
use bora_worker::WorkerCounters;

use super::Engine;
use crate::ports::Port;
use crate::report::FramesReport;

impl Engine {
    /// Every frame at its place. `ports` give the names; what workers still have of a removed port is
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
