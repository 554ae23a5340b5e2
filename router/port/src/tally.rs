//! What a queue counts by itself.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use bora_contract::{Counter, Counters, Counts, Reason};

/// What a queue has counted, packets, since the beginning and over all its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Received and counted nowhere else: lost before a worker had it, or forwarded by a card.
    pub received: u64,
    /// Received and counted by the XDP program, and lost before a worker had it.
    pub lost_from_program: u64,
    /// Sent.
    pub sent: u64,
    /// Lost.
    pub dropped: Counts,
}

impl QueueStats {
    /// Adds what another queue has counted.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.lost_from_program += other.lost_from_program;
        self.sent += other.sent;
        self.dropped += other.dropped;
    }

    /// Counts packets as lost that it has counted as sent.
    pub fn take_back(&mut self, reason: Reason, count: u64) {
        self.sent -= count;
        self.dropped[reason] += count;
    }
}

/// Reads what a queue has counted. It may be called from any thread.
pub trait ReadStats: Any + Debug + Send {
    /// The numbers now; zeros if the kernel does not tell them.
    fn read(&self) -> QueueStats;
}

impl<T: ReadStats + Sync> ReadStats for Arc<T> {
    fn read(&self) -> QueueStats {
        T::read(self)
    }
}

/// A [`ReadStats`] of any kind of queue.
#[derive(Debug)]
pub struct StatsReader(Box<dyn ReadStats>);

impl StatsReader {
    /// A reader of some kind.
    pub fn new(reader: impl ReadStats) -> Self {
        Self(Box::new(reader))
    }

    /// The numbers now; zeros if the kernel does not tell them.
    pub fn read(&self) -> QueueStats {
        self.0.read()
    }

    /// The reader itself, if it is of the kind `T`.
    pub fn as_kind<T: ReadStats>(&self) -> Option<&T> {
        let reader: &dyn Any = &*self.0;
        reader.downcast_ref()
    }
}

/// The counters of a queue that knows itself what it loses; see [`QueueStats`]. Any thread may count.
// Two cache lines, which CPUs fetch together: queues of two workers must not count in the same.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    received: Counter,
    sent: Counter,
    dropped: Counters,
}

impl Tally {
    /// Counts packets that were received, and lost before a worker had them.
    pub fn lost(&self, reason: Reason, count: u64) {
        self.received.add_shared(count);
        self.dropped[reason].add_shared(count);
    }

    /// Counts packets that the other side took.
    #[inline]
    pub fn sent(&self, count: u64) {
        self.sent.add_shared(count);
    }

    /// Counts packets that the other side refused.
    pub fn refused(&self, reason: Reason, count: u64) {
        self.dropped[reason].add_shared(count);
    }

    /// Counts packets as lost that were counted as sent.
    pub fn take_back(&self, reason: Reason, count: u64) {
        self.sent.take_back(count);
        self.dropped[reason].add_shared(count);
    }
}

impl ReadStats for Tally {
    fn read(&self) -> QueueStats {
        QueueStats {
            received: self.received.get(),
            lost_from_program: 0,
            sent: self.sent.get(),
            dropped: self.dropped.read(),
        }
    }
}
