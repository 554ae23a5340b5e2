//! Losses that a queue counts by itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::queue::QueueStats;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a queue lost since the beginning, over all its connections.
#[derive(Debug, Default)]
pub struct Losses {
    pub(crate) rx_too_long: Counter,
    pub(crate) rx_malformed: Counter,
    pub(crate) tx_link_down: Counter,
    pub(crate) tx_refused: Counter,
}

impl Losses {
    /// The numbers now.
    pub fn read(&self) -> QueueStats {
        QueueStats {
            rx_too_long: self.rx_too_long.get(),
            rx_malformed: self.rx_malformed.get(),
            tx_link_down: self.tx_link_down.get(),
            tx_refused: self.tx_refused.get(),
            ..QueueStats::default()
        }
    }
}
