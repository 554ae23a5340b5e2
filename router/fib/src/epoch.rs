//! Quiescent-state-based reclamation (QSBR): when the writer may reuse what readers could still
//! hold.
//!
//! Protocol. A reader's slot holds the last epoch it has seen at a quiescent point, or
//! [`OFFLINE`]. The writer unlinks an object with a release store, then [`Epochs::advance`]s the
//! epoch and tags the object with it. Once every slot is offline or has reached the tag, no
//! reader can hold the object. The `SeqCst` fences order "unlink, then read the slots" against
//! "go online, then read the tables": one of the two sides sees the other.

// `tests/loom.rs` compiles this file with loom's atomics under this name.
use super::sync::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

const OFFLINE: u64 = 0;
const FREE: u64 = u64::MAX;

/// The writer's epoch and the last one each reader has seen.
#[derive(Debug)]
pub(crate) struct Epochs {
    epoch: AtomicU64,
    readers: Box<[CachePadded<AtomicU64>]>,
}

impl Epochs {
    pub(crate) fn new(max_readers: usize) -> Self {
        Self {
            epoch: AtomicU64::new(1),
            readers: (0..max_readers)
                .map(|_| CachePadded::new(AtomicU64::new(FREE)))
                .collect(),
        }
    }

    /// Most readers at a time.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// The epoch.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Starts a new epoch after an unlink and returns it as the tag of what was unlinked.
    pub(crate) fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The newest tag that every reader has passed.
    pub(crate) fn passed(&self) -> u64 {
        fence(Ordering::SeqCst);
        let online = self.readers.iter().map(|slot| slot.load(Ordering::Acquire));
        let oldest = online.filter(|&seen| seen != OFFLINE && seen != FREE).min();
        oldest.unwrap_or_else(|| self.epoch.load(Ordering::Acquire))
    }

    /// Registers a reader, online; `None` if all slots are taken.
    pub(crate) fn register(&self) -> Option<usize> {
        for (index, slot) in self.readers.iter().enumerate() {
            let now = self.epoch.load(Ordering::Acquire);
            if slot
                .compare_exchange(FREE, now, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                fence(Ordering::SeqCst);
                return Some(index);
            }
        }
        None
    }

    /// Frees the slot.
    pub(crate) fn unregister(&self, reader: usize) {
        self.readers[reader].store(FREE, Ordering::Release);
    }

    /// Marks a quiescent point: the reader holds nothing that it has read.
    #[inline]
    pub(crate) fn quiesce(&self, reader: usize) {
        self.pass(reader, self.now());
    }

    /// The last epoch that a reader has seen at a quiescent point.
    pub(crate) fn seen(&self, reader: usize) -> u64 {
        self.readers[reader].load(Ordering::Acquire)
    }

    /// Marks a quiescent point of a reader that was at an epoch, and has held nothing since.
    #[inline]
    pub(crate) fn pass(&self, reader: usize, epoch: u64) {
        self.readers[reader].store(epoch, Ordering::Release);
    }

    /// Takes a reader offline: it will not read until it is online again.
    pub(crate) fn offline(&self, reader: usize) {
        self.readers[reader].store(OFFLINE, Ordering::Release);
    }

    /// Takes a reader online again.
    pub(crate) fn online(&self, reader: usize) {
        self.quiesce(reader);
        fence(Ordering::SeqCst);
    }
}
