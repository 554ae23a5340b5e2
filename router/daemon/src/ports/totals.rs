//! The ledger of a port number: what has been counted under it by queues, workers, the slow path and the XDP
//! program together. Numbers are used again, and their counters go on: so that no packet is forgotten when a
//! port is removed.
//!
//! Once nothing moves, over all numbers
//! `received + from_linux = sent + passed + dropped + to_engine - from_engine + what workers and slow path hold`.

use std::ops::AddAssign;

use bora_contract::{Counts, Reason};
use bora_port::QueueStats;
use bora_worker::PortCounters;
use bora_xdp::Counters;

/// Packets unless named otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// From Linux by twins, to be sent.
    pub(crate) from_linux: u64,
    /// How often express has asked Linux's FIB.
    pub(crate) asked: u64,
    /// Forwarded by flows of Linux's flowtables, of what came in here.
    pub(crate) flows: u64,
    /// Given to the sockets by the program, and of these taken by the workers or lost before.
    pub(crate) to_engine: u64,
    pub(crate) from_engine: u64,
    pub(crate) passed: Counts,
    pub(crate) dropped: Counts,
}

impl Totals {
    /// Everything that was ever counted under a port's number; the pair is what the slow path has handed
    /// to Linux, and what it could not. `program` is called last, so that the program has counted
    /// whatever the others have taken from it.
    pub(crate) fn of<'a>(
        queues: &QueueStats,
        workers: impl Iterator<Item = &'a PortCounters>,
        (passed, failed): (Counts, u64),
        program: impl FnOnce() -> Counters,
    ) -> Self {
        let mut total = Self::default();
        total.add_queues(queues);
        for counted in workers {
            total.add_worker(counted);
        }
        total.passed += passed;
        total.dropped[Reason::SlowPathFailed] += failed;
        total.add_program(&program());
        total
    }

    /// A queue alone knows what it has sent, and what it has lost in front of the workers or behind them.
    fn add_queues(&mut self, counted: &QueueStats) {
        self.rx_packets += counted.received;
        self.from_engine += counted.lost_from_program;
        self.tx_packets += counted.sent;
        self.dropped += counted.dropped;
    }

    fn add_worker(&mut self, counted: &PortCounters) {
        // no program has counted what came past it; a worker counts it last
        let ungated = counted.ungated_packets.get();
        self.from_engine += counted.rx_packets.get() - ungated;
        self.rx_packets += ungated;
        self.rx_bytes += counted.ungated_bytes.get();
        self.from_linux += counted.from_linux.get();
        self.tx_bytes += counted.tx_bytes.get();
        self.dropped += counted.dropped.read();
    }

    fn add_program(&mut self, counted: &Counters) {
        self.rx_packets += counted.rx_packets;
        self.rx_bytes += counted.rx_bytes;
        self.to_engine += counted.to_engine;
        self.tx_packets += counted.tx_packets;
        self.tx_bytes += counted.tx_bytes;
        self.asked += counted.asked;
        self.flows += counted.flows;
        for (reason, count) in counted.reasons.iter() {
            if reason.is_drop_of_program() {
                self.dropped[reason] += count;
            } else {
                self.passed[reason] += count;
            }
        }
    }

    /// Packets that came in, by the port or from Linux.
    pub(crate) fn received(&self) -> u64 {
        self.rx_packets + self.from_linux
    }

    /// What has come since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let (mut passed, mut dropped) = (self.passed, self.dropped);
        passed -= before.passed;
        dropped -= before.dropped;
        Self {
            rx_packets: self.rx_packets - before.rx_packets,
            rx_bytes: self.rx_bytes - before.rx_bytes,
            tx_packets: self.tx_packets - before.tx_packets,
            tx_bytes: self.tx_bytes - before.tx_bytes,
            from_linux: self.from_linux - before.from_linux,
            asked: self.asked - before.asked,
            flows: self.flows - before.flows,
            to_engine: self.to_engine - before.to_engine,
            from_engine: self.from_engine - before.from_engine,
            passed,
            dropped,
        }
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.from_linux += other.from_linux;
        self.asked += other.asked;
        self.flows += other.flows;
        self.to_engine += other.to_engine;
        self.from_engine += other.from_engine;
        self.passed += other.passed;
        self.dropped += other.dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_forgets_what_was_before() {
        let counted = |rx_packets, drops: &[(Reason, u64)]| {
            let mut total = Totals {
                rx_packets,
                ..Totals::default()
            };
            for &(reason, count) in drops {
                total.dropped[reason] = count;
            }
            total
        };
        let before = counted(5, &[(Reason::Rule, 2)]);
        let now = counted(7, &[(Reason::Rule, 2), (Reason::Blackhole, 1)]);
        assert_eq!(now.since(&before), counted(2, &[(Reason::Blackhole, 1)]));
        assert_eq!(now.since(&Totals::default()), now);
    }
}
