//! How often the FIB changes.

use std::time::Instant;

use bora_fib::FibStats;

/// Rates of the FIB, sampled once a second.
#[derive(Debug, Default)]
pub(crate) struct FibRates {
    /// Updates until the last sample, and between the last two, IPv4 and IPv6.
    updates: [(u64, u64); 2],
    /// [`FibStats::reclaimed`] at the last sample, and when it last changed.
    reclaimed: (u64, Option<Instant>),
}

impl FibRates {
    /// Takes a sample, one second after the last.
    pub(crate) fn sample(&mut self, stats: &FibStats) {
        let updates = [stats.ipv4.updates, stats.ipv6.updates];
        for (known, now) in self.updates.iter_mut().zip(updates) {
            *known = (now, now - known.0);
        }
        if stats.reclaimed != self.reclaimed.0 {
            self.reclaimed = (stats.reclaimed, Some(Instant::now()));
        }
    }

    /// Updates in the last second, IPv4 and IPv6.
    pub(crate) fn updates_per_second(&self) -> [u64; 2] {
        self.updates.map(|(_, recently)| recently)
    }

    /// Seconds since something was freed; `None` for never.
    pub(crate) fn last_reclaim(&self) -> Option<u64> {
        self.reclaimed.1.map(|at| at.elapsed().as_secs())
    }
}
