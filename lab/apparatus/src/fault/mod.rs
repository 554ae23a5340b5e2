//! Faults set on purpose, for tests: a queue that receives what another one receives, but late,
//! damaged, twice, in another order or not at all, and counts each thing it did. What it counts is
//! the truth that a test compares with.

mod counters;
mod decide;
mod hold;
mod queue;
mod spec;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use counters::{FaultCounters, Handle};
pub use queue::{Arrival, Queue};
pub use spec::{Capacity, Corruption, Faults, Jitter, Loss, Reordering};

/// How long a packet is held back at most for others to overtake it.
pub const LONGEST_HOLD: Duration = Duration::from_millis(50);
