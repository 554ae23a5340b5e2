//! The rings to the slow path, and the budgets of what may go there.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant};

use bora_buffer::Packet;
use bora_contract::{BUDGET_WINDOW_NS, Reason, budget_of_window};
use bora_fib::PortId;
use crossbeam_queue::ArrayQueue;

/// Places for packets that Linux answers or drops ([`Reason::has_budget`]).
const EXCEPTIONS: usize = 1024;
/// Places for packets that Linux forwards: some milliseconds of its work. The region has frames for
/// them, so that punts do not starve reception.
const BULK: usize = 4096;

/// A packet on its way to Linux.
#[derive(Debug)]
pub struct Punted {
    /// The packet, unchanged since it was received.
    pub packet: Packet,
    /// The port it came in by.
    pub port: PortId,
    /// Why it goes to Linux.
    pub reason: Reason,
    /// Whether the sender may have left its checksum to others.
    pub partial_checksum: bool,
}

/// The rings from all workers to the slow-path thread. Bulk traffic has no budget: if Linux cannot keep
/// up, its ring is full and packets are dropped.
#[derive(Debug)]
pub struct PuntRings {
    exceptions: ArrayQueue<Punted>,
    bulk: ArrayQueue<Punted>,
    /// The slow-path thread, once it has slept.
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
    /// Places of both rings.
    pub const PLACES: usize = EXCEPTIONS + BULK;

    /// Adds a packet.
    ///
    /// # Errors
    /// The packet, if there is no room.
    #[allow(clippy::result_large_err)] // the packet goes back to the caller
    pub fn push(&self, punted: Punted) -> Result<(), Punted> {
        if punted.reason.has_budget() {
            self.exceptions.push(punted)
        } else {
            self.bulk.push(punted)
        }
    }

    /// Wakes the slow-path thread after packets were added.
    pub fn announce(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// Sleeps until packets are announced, at most `longest`; for the slow-path thread.
    pub fn wait(&self, longest: Duration) {
        self.reader.get_or_init(std::thread::current);
        if self.held() == 0 {
            std::thread::park_timeout(longest);
        }
    }

    /// Packets in the rings.
    pub fn held(&self) -> usize {
        self.exceptions.len() + self.bulk.len()
    }

    /// The next packet; exceptions come first, because they are few.
    pub fn pop(&self) -> Option<Punted> {
        self.exceptions.pop().or_else(|| self.bulk.pop())
    }
}

const WINDOW: Duration = Duration::from_nanos(BUDGET_WINDOW_NS);

/// One worker's punt budgets, by reason, in packets a window: the protection of the control plane.
#[derive(Debug)]
pub struct Budgets {
    limit: u64,
    left: [u64; Reason::COUNT],
    window: Instant,
}

impl Budgets {
    /// A budget of this many packets a second for each reason.
    pub fn new(packets_per_second: u64) -> Self {
        let limit = budget_of_window(packets_per_second);
        Self {
            left: [limit; Reason::COUNT],
            limit,
            window: Instant::now(),
        }
    }

    /// Starts a new window if it is time; called once a loop.
    pub(crate) fn tick(&mut self, now: Instant) {
        if now.duration_since(self.window) >= WINDOW {
            self.window = now;
            self.left.fill(self.limit);
        }
    }

    /// Takes one packet from a budget; `false` if the budget is spent.
    pub(crate) fn take(&mut self, reason: Reason) -> bool {
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
        let mut budgets = Budgets::new(200);
        assert!(budgets.take(Reason::NoRoute) && budgets.take(Reason::NoRoute));
        assert!(!budgets.take(Reason::NoRoute));
        assert!(budgets.take(Reason::Options), "reasons do not share");
        budgets.tick(Instant::now() + WINDOW);
        assert!(budgets.take(Reason::NoRoute));
    }
}
