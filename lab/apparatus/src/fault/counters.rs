//! What the faults did, and the switch of the link, for other threads.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets since the beginning. Each packet that came, and each copy, is passed on, lost by a name
/// or still held:
/// `came + duplicated = passed + outage + lost + buffer_full + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Taken from the queue behind.
    pub came: u64,
    /// Given to the reader.
    pub passed: u64,
    /// Packets on their way.
    pub held: u64,
    /// Lost because the link was down.
    pub outage: u64,
    /// Lost at random.
    pub lost: u64,
    /// Lost because the buffer was full.
    pub buffer_full: u64,
    /// Passed on after a packet that came later: held back, and overtaken. Those that jitter
    /// reorders are not among them.
    pub reordered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Copies that were due, but for which there was no free frame.
    pub not_duplicated: u64,
    /// Packets and copies damaged.
    pub corrupted: u64,
}

/// What the queue's owner and its handles share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counters: FaultCounters,
    /// When the link is down.
    pub(super) down: Range<u64>,
}

/// Reads and switches a faulty queue from any thread.
#[derive(Clone, Debug, Default)]
pub struct Handle(Arc<Mutex<Shared>>);

impl Handle {
    /// The numbers as of the queue's last call; they belong together.
    pub fn counters(&self) -> FaultCounters {
        self.shared().counters
    }

    /// Takes the link down for packets that arrive within these times, ns of CLOCK_MONOTONIC;
    /// in place of the outage before.
    pub fn take_down(&self, during: Range<u64>) {
        self.shared().down = during;
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        // plain numbers are whole whatever happened to a thread that held them
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
