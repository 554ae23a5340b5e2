//! A card's counters. Its driver gathers them, and any thread can read them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::registers::{COUNTERS, Counter};
use bora_contract::Reason;
use bora_port::offload::Load;
use bora_port::{QueueStats, ReadStats, Tally};

/// Most routes a card can have.
pub(crate) const MAX_ROUTES: usize = 64;
/// Destinations of packets on the slow path that are remembered.
const RECENT: usize = 256;

/// A card's counters since its port was opened, resets included. Its driver writes them.
#[derive(Debug)]
pub(crate) struct CardCounters {
    pub(crate) named: [AtomicU64; COUNTERS],
    /// Frames enqueued to other cards by a route slot since its route was set.
    pub(crate) routes: [AtomicU64; MAX_ROUTES],
    pub(crate) fast: AtomicU64,
    pub(crate) to_host: AtomicU64,
    pub(crate) from_host: AtomicU64,
    pub(crate) reset_lost: AtomicU64,
    pub(crate) resets: AtomicU64,
    pub(crate) wire_full: AtomicU64,
    pub(crate) wire_refused: AtomicU64,
    pub(crate) interrupts: AtomicU64,
    recent: [AtomicU32; RECENT],
    seen: AtomicU64,
}

impl CardCounters {
    pub(crate) fn new() -> Self {
        let zeros = || AtomicU64::new(0);
        Self {
            named: std::array::from_fn(|_| zeros()),
            routes: std::array::from_fn(|_| zeros()),
            fast: zeros(),
            to_host: zeros(),
            from_host: zeros(),
            reset_lost: zeros(),
            resets: zeros(),
            wire_full: zeros(),
            wire_refused: zeros(),
            interrupts: zeros(),
            recent: std::array::from_fn(|_| AtomicU32::new(0)),
            seen: zeros(),
        }
    }

    /// Remembers the destination of a packet on the slow path; ignores frames that are not IPv4.
    pub(crate) fn remember(&self, frame: &[u8]) {
        if let (Some([8, 0]), Some(octets)) = (frame.get(12..14), frame.get(30..34))
            && let Ok(octets) = <[u8; 4]>::try_from(octets)
        {
            let number = self.seen.load(Relaxed);
            let slot = &self.recent[number as usize % RECENT];
            slot.store(u32::from_be_bytes(octets), Relaxed);
            self.seen.store(number + 1, Relaxed);
        }
    }

    /// The totals.
    pub(crate) fn stats(&self) -> CardStats {
        CardStats {
            named: std::array::from_fn(|index| self.named[index].load(Relaxed)),
            fast: self.fast.load(Relaxed),
            to_host: self.to_host.load(Relaxed),
            from_host: self.from_host.load(Relaxed),
            reset_lost: self.reset_lost.load(Relaxed),
            resets: self.resets.load(Relaxed),
            wire_full: self.wire_full.load(Relaxed),
            wire_refused: self.wire_refused.load(Relaxed),
            interrupts: self.interrupts.load(Relaxed),
        }
    }

    /// The load, from which routes for the fast path are chosen.
    pub(crate) fn load(&self, routes: usize) -> Load {
        let seen = self.seen.load(Relaxed);
        let kept = (seen as usize).min(RECENT);
        let recent = (0..kept).map(|back| {
            let slot = (seen - 1 - back as u64) as usize % RECENT;
            Ipv4Addr::from_bits(self.recent[slot].load(Relaxed))
        });
        let routes = self.routes.iter().take(routes);
        Load {
            routes: routes.map(|route| route.load(Relaxed)).collect(),
            to_host: self.to_host.load(Relaxed),
            seen,
            recent: recent.collect(),
        }
    }
}

/// A card's totals, in frames unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardStats {
    named: [u64; COUNTERS],
    /// Received on the fast path: enqueued to other cards.
    pub fast: u64,
    /// Received on the slow path: enqueued to the host.
    pub to_host: u64,
    /// Fetched from the host's memory without error.
    pub from_host: u64,
    /// Enqueued to the host and lost by a reset of the card.
    pub reset_lost: u64,
    /// Resets since the port was opened, number.
    pub resets: u64,
    /// Lost in front of the card, because they came faster than the simulation runs.
    pub wire_full: u64,
    /// Sent by the card, and refused by the interface at the other end of its cable.
    pub wire_refused: u64,
    /// Interrupts taken, number.
    pub interrupts: u64,
}

impl CardStats {
    /// One of the card's own counters.
    pub fn get(&self, counter: Counter) -> u64 {
        self.named[counter as usize]
    }

    /// All of them by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = Counter::ALL.map(|counter| (counter.name(), self.get(counter)));
        own.into_iter().chain([
            ("fast_path", self.fast),
            ("to_host", self.to_host),
            ("from_host", self.from_host),
            ("reset_lost", self.reset_lost),
            ("resets", self.resets),
            ("wire_full", self.wire_full),
            ("wire_refused", self.wire_refused),
            ("interrupts", self.interrupts),
        ])
    }

    /// Sent for other cards, on the fast path.
    pub fn fast_sent(&self) -> u64 {
        self.get(Counter::Sent).saturating_sub(self.from_host)
    }

    /// Adds what the card forwarded without a worker, and corrects the count of sent frames by
    /// those that it lost.
    fn add_to(&self, stats: &mut QueueStats) {
        let drops = Counter::ALL.into_iter().filter(|one| one.is_receive_drop());
        stats.received += self.fast + self.reset_lost + self.wire_full;
        stats.received += drops.map(|drop| self.get(drop)).sum::<u64>();
        for counter in Counter::ALL {
            if let Some(reason) = counter.reason() {
                stats.dropped[reason] += self.get(counter);
            }
        }
        stats.dropped[Reason::CardReset] += self.reset_lost;
        stats.dropped[Reason::WireFull] += self.wire_full;
        stats.sent += self.fast_sent();
        // the queue, or the lines above, have counted these as sent
        stats.sent -= self.get(Counter::TransmitLength);
        stats.take_back(Reason::TxRefused, self.wire_refused);
    }
}

/// Reads the counters of a queue and its card.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) counters: Arc<CardCounters>,
    pub(crate) tally: Arc<Tally>,
}

impl ReadStats for Reader {
    /// The card's own counters are read a few times a second while there is traffic.
    fn read(&self) -> QueueStats {
        // the card's counters first: the queue has counted each frame before the card did
        let card = self.counters.stats();
        let mut stats = self.tally.read();
        card.add_to(&mut stats);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_destinations_are_remembered() {
        let counters = CardCounters::new();
        let mut frame = [0; 60];
        counters.remember(&frame); // not IPv4
        frame[12] = 8;
        for number in 0..RECENT as u32 + 3 {
            frame[30..34].copy_from_slice(&number.to_be_bytes());
            counters.remember(&frame);
        }
        counters.remember(&frame[..33]);
        let load = counters.load(3);
        assert_eq!((load.seen, load.recent.len()), (RECENT as u64 + 3, RECENT));
        let numbers: Vec<u32> = load.recent.iter().map(|a| a.to_bits()).collect();
        assert!(numbers.iter().rev().copied().eq(3..RECENT as u32 + 3));
        assert_eq!(load.routes, [0; 3]);
    }
}
