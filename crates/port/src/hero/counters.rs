//! What a card counts, gathered by its driver and read from any thread.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::registers::{COUNTERS, Counter};
use crate::losses::Losses;
use crate::queue::QueueStats;

/// Most routes a card can have.
pub(super) const MAX_ROUTES: usize = 64;
/// Destinations remembered of packets on the slow path.
const RECENT: usize = 256;

/// A card's counters since its port was opened, over all resets. Its driver writes them.
#[derive(Debug)]
pub(super) struct CardCounters {
    pub(super) named: [AtomicU64; COUNTERS],
    /// Frames enqueued to other cards by a route slot since its route was set.
    pub(super) routes: [AtomicU64; MAX_ROUTES],
    pub(super) fast: AtomicU64,
    pub(super) to_host: AtomicU64,
    pub(super) from_host: AtomicU64,
    pub(super) reset_lost: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) wire_full: AtomicU64,
    pub(super) wire_refused: AtomicU64,
    pub(super) interrupts: AtomicU64,
    recent: [AtomicU32; RECENT],
    seen: AtomicU64,
}

impl CardCounters {
    pub(super) fn new() -> Self {
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

    /// Remembers where a packet on the slow path goes; frames that are not IPv4 go nowhere.
    pub(super) fn remember(&self, frame: &[u8]) {
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
    pub(super) fn stats(&self) -> CardStats {
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

    /// What the choice of routes for the fast path needs.
    pub(super) fn load(&self, routes: usize) -> Load {
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

/// A card's totals, frames unless named otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardStats {
    named: [u64; COUNTERS],
    /// Enqueued to other cards: received on the fast path.
    pub fast: u64,
    /// Enqueued to the host: received on the slow path.
    pub to_host: u64,
    /// Taken from the host's memory without error.
    pub from_host: u64,
    /// Enqueued to the host and lost by a reset of the card.
    pub reset_lost: u64,
    /// Resets since the port was opened, number.
    pub resets: u64,
    /// Lost in front of the card, because the simulation is slower than they came.
    pub wire_full: u64,
    /// Sent by the card and refused by what its wire is joined to.
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

    /// The sum of two.
    pub fn plus(self, other: Self) -> Self {
        Self {
            named: std::array::from_fn(|index| self.named[index] + other.named[index]),
            fast: self.fast + other.fast,
            to_host: self.to_host + other.to_host,
            from_host: self.from_host + other.from_host,
            reset_lost: self.reset_lost + other.reset_lost,
            resets: self.resets + other.resets,
            wire_full: self.wire_full + other.wire_full,
            wire_refused: self.wire_refused + other.wire_refused,
            interrupts: self.interrupts + other.interrupts,
        }
    }
}

/// How busy a card is with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Frames by each route slot since its route was set.
    pub routes: Vec<u64>,
    /// Frames enqueued to the host.
    pub to_host: u64,
    /// IPv4 packets that came to the host.
    pub seen: u64,
    /// The destinations of the last of them, latest first.
    pub recent: Vec<Ipv4Addr>,
}

/// Reads what a queue and its card lost, from any thread.
#[derive(Debug)]
pub struct StatsReader {
    pub(super) counters: Arc<CardCounters>,
    pub(super) losses: Arc<Losses>,
}

impl StatsReader {
    /// The numbers now; the card's own are read some times a second while there is traffic.
    pub fn read(&self) -> QueueStats {
        QueueStats {
            card: self.counters.stats(),
            ..self.losses.read()
        }
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
