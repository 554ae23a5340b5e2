//! What writer and readers share, and when the writer may reuse it (QSBR).
//!
//! Protocol. A reader's slot holds the last epoch it has seen at a quiescent point, or
//! [`OFFLINE`]. The writer unlinks an object with a release store, then [`Shared::advance`]s the
//! epoch and tags the object with it. Once every slot is offline or has reached the tag, no
//! reader can hold the object. The `SeqCst` fences order "unlink, then read the slots" against
//! "go online, then read the tables": one of the two sides sees the other.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::nexthop::{NextHop, PuntReason};
use crate::{FibConfig, FibError};

const OFFLINE: u64 = 0;
const FREE: u64 = u64::MAX;

/// A table of one-word entries: a root and nodes of 256.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) root: Box<[AtomicU32]>,
    pub(crate) nodes: Box<[AtomicU32]>,
}

impl Entries {
    fn new(root_bits: u32, max_nodes: u32) -> Self {
        Self {
            root: zeroed(1 << root_bits),
            nodes: zeroed(max_nodes as usize * 256),
        }
    }
}

/// Zeroed words that cost memory only when touched.
fn zeroed(count: usize) -> Box<[AtomicU32]> {
    let words = vec![0u32; count].into_boxed_slice();
    let raw = Box::into_raw(words);
    // SAFETY: AtomicU32 has the size, alignment and bit validity of u32, and the box is given up.
    unsafe { Box::from_raw(raw as *mut [AtomicU32]) }
}

/// Everything readers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) v4: Entries,
    pub(crate) v6: Entries,
    next_hops: Box<[AtomicPtr<NextHop>]>,
    epoch: AtomicU64,
    readers: Box<[CachePadded<AtomicU64>]>,
}

/// An object that readers may still hold.
pub(crate) struct RetiredNextHop(*mut NextHop);

// SAFETY: the pointer is the only owner of a `Send` object once readers are through with it.
unsafe impl Send for RetiredNextHop {}

impl Drop for RetiredNextHop {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `set_next_hop`, unlinked there, and dropped by the
        // writer only when `Shared::passed` says that no reader can hold it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Shared {
    pub(crate) fn new(config: &FibConfig) -> Self {
        let shared = Self {
            v4: Entries::new(24, config.max_nodes4),
            v6: Entries::new(16, config.max_nodes6),
            next_hops: (0..=config.max_next_hops)
                .map(|_| AtomicPtr::default())
                .collect(),
            epoch: AtomicU64::new(1),
            readers: (0..config.max_readers)
                .map(|_| CachePadded::new(FREE.into()))
                .collect(),
        };
        let no_route = NextHop::Punt {
            reason: PuntReason::NoRoute,
            port: None,
        };
        let none = shared.set_next_hop(0, Some(no_route));
        debug_assert!(none.is_none());
        shared
    }

    /// The object, or "no route" for an id that has none: a reader may meet an id whose object
    /// went a moment ago.
    #[inline]
    pub(crate) fn next_hop(&self, id: u32) -> &NextHop {
        let slot = self
            .next_hops
            .get(id as usize)
            .unwrap_or(&self.next_hops[0]);
        let mut found = slot.load(Ordering::Acquire);
        if found.is_null() {
            found = self.next_hops[0].load(Ordering::Acquire);
        }
        // SAFETY: slot 0 is set in `new` and never cleared, so the pointer is valid. An object is
        // freed only after every reader passed a quiescent point, which needs `&mut FibReader`
        // and so ends this borrow; the writer itself frees only under `&mut FibWriter`.
        unsafe { &*found }
    }

    /// Puts an object in its place with one pointer store; gives back what was there.
    #[must_use]
    pub(crate) fn set_next_hop(&self, id: u32, object: Option<NextHop>) -> Option<RetiredNextHop> {
        let new = object.map_or(std::ptr::null_mut(), |object| {
            Box::into_raw(Box::new(object))
        });
        let old = self.next_hops[id as usize].swap(new, Ordering::AcqRel);
        (!old.is_null()).then(|| RetiredNextHop(old))
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

    pub(crate) fn register(&self) -> Result<usize, FibError> {
        for (index, slot) in self.readers.iter().enumerate() {
            let now = self.epoch.load(Ordering::Acquire);
            if slot
                .compare_exchange(FREE, now, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                fence(Ordering::SeqCst);
                return Ok(index);
            }
        }
        Err(FibError::ReadersFull(self.readers.len()))
    }

    pub(crate) fn unregister(&self, reader: usize) {
        self.readers[reader].store(FREE, Ordering::Release);
    }

    #[inline]
    pub(crate) fn quiesce(&self, reader: usize) {
        self.readers[reader].store(self.epoch.load(Ordering::Acquire), Ordering::Release);
    }

    pub(crate) fn offline(&self, reader: usize) {
        self.readers[reader].store(OFFLINE, Ordering::Release);
    }

    pub(crate) fn online(&self, reader: usize) {
        self.quiesce(reader);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for slot in &mut self.next_hops {
            let object = *slot.get_mut();
            if !object.is_null() {
                drop(RetiredNextHop(object));
            }
        }
    }
}
