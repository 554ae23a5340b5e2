//! The way to the slow path, and how much may go there.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant};

use bora_buffer::Packet;
use bora_fib::PortId;
use bora_forward::Punt;
use crossbeam_queue::ArrayQueue;

/// Places for what Linux answers or drops ([`Punt::is_exception`]).
const EXCEPTIONS: usize = 1024;
/// Places for what Linux forwards: some milliseconds of its work. The packets' memory is set aside, so
/// that they do not starve reception of frames.
const BULK: usize = 4096;

/// A packet on its way to Linux.
#[derive(Debug)]
pub struct Punted {
    /// The packet, unchanged since it was received.
    pub packet: Packet,
    /// The port it came in by.
    pub port: PortId,
    /// Why it goes to Linux.
    pub reason: Punt,
    /// Whether the sender may have left its checksum to others.
    pub partial_checksum: bool,
}

/// From all workers to the slow-path thread. Bulk traffic has no budget: where Linux does not keep up,
/// its ring is full.
#[derive(Debug)]
pub struct PuntRings {
    exceptions: ArrayQueue<Punted>,
    bulk: ArrayQueue<Punted>,
    /// Who takes them, once it has slept.
    reader: OnceLock<Thread>,
}

impl Default for PuntRings {
    fn default() -> Self {
        Self {
            exceptions: ArrayQueue::new(EXCEPTIONS),
            bulk: ArrayQueue::new(BULK),
            reader: OnceLock::new(),
        }
    }
}

impl PuntRings {
    /// Packets there is room for.
    pub const PLACES: usize = EXCEPTIONS + BULK;

    /// Adds a packet.
    ///
    /// # Errors
    /// The packet, if there is no room.
    #[allow(clippy::result_large_err)] // it goes back where it came from
    pub fn push(&self, punted: Punted) -> Result<(), Punted> {
        if punted.reason.is_exception() {
            self.exceptions.push(punted)
        } else {
            self.bulk.push(punted)
        }
    }

    /// Wakes the slow-path thread: there is something for it.
    pub fn announce(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// Sleeps until something is announced, or so long; for the slow-path thread.
    pub fn wait(&self, longest: Duration) {
        self.reader.get_or_init(std::thread::current);
        if self.held() == 0 {
            std::thread::park_timeout(longest);
        }
    }

    /// Packets on their way.
    pub fn held(&self) -> usize {
        self.exceptions.len() + self.bulk.len()
    }

    /// The next packet; exceptions come first, they are few.
    pub fn pop(&self) -> Option<Punted> {
        self.exceptions.pop().or_else(|| self.bulk.pop())
    }
}

const WINDOW: Duration = Duration::from_millis(10);
const WINDOWS_A_SECOND: u64 = 100;

/// One worker's punt budgets: the router's own control-plane protection, by reason, in packets a
/// fixed window.
#[derive(Debug)]
pub struct Budgets {
    limit: Vec<u64>,
    left: Vec<u64>,
    window: Instant,
}

impl Budgets {
    /// Budgets of this many packets a second each.
    pub fn new(packets_per_second: impl Fn(Punt) -> u64) -> Self {
        let limit: Vec<u64> = Punt::ALL
            .iter()
            .map(|&reason| packets_per_second(reason).div_ceil(WINDOWS_A_SECOND))
            .collect();
        Self {
            left: limit.clone(),
            limit,
            window: Instant::now(),
        }
    }

    /// Starts a new window if it is time; called once a loop.
    pub(crate) fn tick(&mut self, now: Instant) {
        if now.duration_since(self.window) >= WINDOW {
            self.window = now;
            self.left.copy_from_slice(&self.limit);
        }
    }

    /// Takes one packet from a budget; false if it is spent.
    pub(crate) fn take(&mut self, reason: Punt) -> bool {
        let left = &mut self.left[reason as usize];
        let some = *left > 0;
        *left -= u64::from(some);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_and_comes_back() {
        let mut budgets = Budgets::new(|_| 200);
        assert!(budgets.take(Punt::NoRoute) && budgets.take(Punt::NoRoute));
        assert!(!budgets.take(Punt::NoRoute));
        assert!(budgets.take(Punt::Options), "reasons do not share");
        budgets.tick(Instant::now() + WINDOW);
        assert!(budgets.take(Punt::NoRoute));
    }
}
