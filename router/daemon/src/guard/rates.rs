//! How many packets the guard leaves to Linux.

use std::collections::BTreeMap;

use bora_fib::PortId;

/// Packets of each port that were left to Linux because of the guard, sampled once a second.
#[derive(Debug, Default)]
pub(crate) struct GuardWatch {
    /// Until the last sample, and between the last two.
    ports: BTreeMap<PortId, (u64, u64)>,
}

impl GuardWatch {
    /// Takes a sample, one second after the last, of the packets of each port until now.
    pub(crate) fn sample(&mut self, totals: impl Iterator<Item = (PortId, u64)>) {
        for (port, total) in totals {
            let known = self.ports.entry(port).or_default();
            *known = (total, total - known.0);
        }
    }

    /// Packets of a port in the last second.
    pub(crate) fn last_second(&self, port: PortId) -> u64 {
        self.ports.get(&port).map_or(0, |&(_, recently)| recently)
    }
}
