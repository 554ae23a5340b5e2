//! What writer and readers share, and when the writer may reuse it (QSBR).
//!
//! Protocol. A reader's slot holds the last epoch it has seen at a quiescent point, or
//! [`OFFLINE`]. The writer unlinks an object with a release store, then [`Shared::advance`]s the
//! epoch and tags the object with it. Once every slot is offline or has reached the tag, no
//! reader can hold the object. The `SeqCst` fences order "unlink, then read the slots" against
//! "go online, then read the tables": one of the two sides sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::family::{Family, V4, V6, root_len};
use crate::lookup::Kernel;
use crate::nexthop::{NextHop, PuntReason};
use crate::region::{Pages, Region};
use crate::{FibConfig, FibError};

const OFFLINE: u64 = 0;
const FREE: u64 = u64::MAX;

/// What readers have of one family: words and nodes as described in `node`.
#[derive(Debug)]
pub(crate) struct Tree {
    /// A word for each value of the first bits.
    pub(crate) root: Arc<Region>,
    /// The nodes.
    pub(crate) nodes: Region,
    /// Next hop of addresses in the root's range whose leaf is 0.
    pub(crate) inherit: AtomicU32,
    /// Next hop of other addresses whose leaf is 0.
    pub(crate) default: AtomicU32,
    /// The word for the first six bits of addresses outside the root's range.
    pub(crate) outside: AtomicU32,
}

impl Tree {
    fn new<F: Family>(nodes: usize, pages: Pages) -> Option<Self> {
        Some(Self {
            root: Arc::new(Region::reserve(root_len::<F>() * 4, pages)?),
            nodes: Region::reserve(nodes, pages)?,
            inherit: AtomicU32::new(0),
            default: AtomicU32::new(0),
            outside: AtomicU32::new(0),
        })
    }
}

/// Address space for a limit: removals may for a while need more than the limit, until readers
/// have left the nodes they replace. A page more keeps wide loads inside.
pub(crate) fn reserved(limit: usize) -> usize {
    2 * limit + (1 << 20)
}

/// Everything readers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) v4: Tree,
    pub(crate) v6: Tree,
    pub(crate) simd: Kernel,
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
    pub(crate) fn new(config: &FibConfig) -> Result<Self, FibError> {
        let (octets4, octets6) = (reserved(config.max_bytes4), reserved(config.max_bytes6));
        let refused = FibError::NoAddressSpace(octets4 + octets6);
        let shared = Self {
            v4: Tree::new::<V4>(octets4, Pages::Huge).ok_or(refused)?,
            v6: Tree::new::<V6>(octets6, Pages::Small).ok_or(refused)?,
            simd: Kernel::new(config.simd)?,
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
        Ok(shared)
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
