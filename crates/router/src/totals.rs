//! What has been counted under a port number, by program, workers and sockets together. Numbers are
//! used again, and their counters go on: so that no packet is forgotten when a port is removed.

use std::collections::BTreeMap;

use bora_fib::PortId;
use bora_forward::{Drop as DropReason, Punt};
use bora_port::hero::{CardStats, Counter};
use bora_port::xdp::REASONS;

use crate::router::Router;

/// Packets unless named otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// From Linux by twins, to be sent.
    pub(crate) from_linux: u64,
    /// Given to the sockets, and taken from them or lost before.
    pub(crate) to_engine: u64,
    pub(crate) from_engine: u64,
    pub(crate) passed: BTreeMap<String, u64>,
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Totals {
    /// What a card did that no worker knows of: what it forwarded or dropped by itself, and of what it
    /// was given to send, what it could not.
    fn add_card(&mut self, card: &CardStats) {
        self.rx_packets += card.fast + card.reset_lost + card.wire_full;
        for counter in Counter::ALL.into_iter().filter(|one| one.is_receive_drop()) {
            self.rx_packets += card.get(counter);
            add(&mut self.dropped, counter.name(), card.get(counter));
        }
        add(&mut self.dropped, "card_reset", card.reset_lost);
        add(&mut self.dropped, "wire_full", card.wire_full);
        let unsent = card.get(Counter::TransmitLength) + card.wire_refused;
        self.tx_packets = (self.tx_packets + card.fast_sent()).saturating_sub(unsent);
        add(
            &mut self.dropped,
            Counter::TransmitLength.name(),
            card.get(Counter::TransmitLength),
        );
        add(&mut self.dropped, "tx_refused", card.wire_refused);
    }

    /// What has come since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let map = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let more = now.iter().map(|(name, &count)| {
                let known = then.get(name).copied().unwrap_or(0);
                (name.clone(), count.saturating_sub(known))
            });
            more.filter(|&(_, count)| count > 0).collect()
        };
        Self {
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(before.rx_bytes),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_bytes: self.tx_bytes.saturating_sub(before.tx_bytes),
            from_linux: self.from_linux.saturating_sub(before.from_linux),
            to_engine: self.to_engine.saturating_sub(before.to_engine),
            from_engine: self.from_engine.saturating_sub(before.from_engine),
            passed: map(&self.passed, &before.passed),
            dropped: map(&self.dropped, &before.dropped),
        }
    }
}

impl Router {
    /// Everything that was ever counted under a number.
    pub(crate) fn totals(&self, id: PortId) -> Totals {
        let counters = self.counters(id);
        let refused = counters.tx_ring_full.min(counters.tx_packets);
        let mut total = Totals {
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets - refused,
            tx_bytes: counters.tx_bytes,
            to_engine: counters.to_engine,
            ..Totals::default()
        };
        for (index, reason) in REASONS.iter().enumerate() {
            add(&mut total.passed, reason.name, counters.passed[index]);
            // drops of a reason with a budget are drops for want of budget
            let name = if reason.budget {
                "punt_budget"
            } else {
                reason.name
            };
            add(&mut total.dropped, name, counters.dropped[index]);
        }
        add(&mut total.dropped, "tx_ring_full", counters.tx_ring_full);
        let Some(engine) = &self.engine else {
            return total;
        };
        for worker in engine.counters() {
            let counted = &worker.ports[usize::from(id.0)];
            // no program has counted what came past it
            let ungated = counted.ungated_packets.get();
            total.from_engine += counted.rx_packets.get() - ungated;
            total.rx_packets += ungated;
            total.rx_bytes += counted.ungated_bytes.get();
            total.from_linux += counted.from_linux.get();
            total.tx_packets += counted.tx_packets.get();
            total.tx_bytes += counted.tx_bytes.get();
            for (&reason, count) in Punt::ALL.iter().zip(&counted.punted) {
                add(&mut total.passed, reason.name(), count.get());
            }
            for (&reason, count) in DropReason::ALL.iter().zip(&counted.dropped) {
                add(&mut total.dropped, reason.name(), count.get());
            }
        }
        let lost = engine.lost(id);
        total.from_engine += lost.rx_ring_full + lost.rx_dropped;
        add(&mut total.dropped, "rx_ring_full", lost.rx_ring_full);
        add(&mut total.dropped, "no_frame", lost.rx_dropped);
        add(&mut total.dropped, "rx_too_long", lost.rx_too_long);
        add(&mut total.dropped, "rx_malformed", lost.rx_malformed);
        add(&mut total.dropped, "tx_link_down", lost.tx_link_down);
        add(&mut total.dropped, "tx_refused", lost.tx_refused);
        add(&mut total.dropped, "tx_invalid", lost.tx_invalid);
        // of the first two no worker knows, the others it has counted as sent
        total.rx_packets += lost.rx_too_long + lost.rx_malformed;
        let refused = lost.tx_link_down + lost.tx_refused + lost.tx_invalid;
        total.tx_packets = total.tx_packets.saturating_sub(refused);
        total.add_card(&lost.card);
        total
    }
}

/// Adds to a count by name; zeros are not listed.
pub(crate) fn add(map: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *map.entry(name.into()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_forgets_what_was_before() {
        let counted = |rx_packets, drops: &[(&str, u64)]| Totals {
            rx_packets,
            dropped: drops
                .iter()
                .map(|&(name, n)| (name.to_string(), n))
                .collect(),
            ..Totals::default()
        };
        let (before, now) = (counted(5, &[("a", 2)]), counted(7, &[("a", 2), ("b", 1)]));
        assert_eq!(now.since(&before), counted(2, &[("b", 1)]));
        assert_eq!(now.since(&Totals::default()), now);
    }
}
