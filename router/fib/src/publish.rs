//! The memory that writer and readers share.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::Reason;
use crate::dir24::Dir24;
use crate::epoch::Epochs;
use crate::family::{Family, V4, V6};
use crate::lookup::Kernel;
use crate::marks::Marks;
use crate::nexthop::{NextHop, NextHopId};
use crate::program::ProgramMap;
use crate::region::{Pages, Region};
use crate::tree::Tree;
use crate::{FibConfig, FibError, Ipv4Table};

/// Address space to reserve for a limit. Removals may exceed the limit until readers have left the
/// replaced nodes. One more page keeps wide loads inside.
pub(crate) fn reserved(limit: usize) -> usize {
    2 * limit + (64 << 20)
}

/// Everything that readers access.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) v4: Tree,
    pub(crate) v6: Tree,
    pub(crate) simd: Kernel,
    /// A pointer for each id.
    next_hops: Region,
    /// Which neighbours packets were sent to.
    pub(crate) marks: Marks,
    /// Ids below this have had objects.
    next_hops_end: AtomicU32,
    pub(crate) epochs: Epochs,
    /// The XDP program's place among the readers, if it is one.
    pub(crate) program: Option<usize>,
}

/// An object that readers may still hold.
pub(crate) struct RetiredNextHop(*mut NextHop);

// SAFETY: once readers have left it, the pointer is the only owner of a `Send` object.
unsafe impl Send for RetiredNextHop {}

impl Drop for RetiredNextHop {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `set_next_hop`, unlinked there, and dropped by the
        // writer only when `Epochs::passed` says that no reader can hold it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// The next-hop objects, for many look-ups.
#[derive(Clone, Copy, Debug)]
pub struct NextHops<'a>(&'a [AtomicPtr<NextHop>]);

impl<'a> NextHops<'a> {
    /// The object of an id, or "no route" if it has none: a reader may find an id whose object has
    /// just been removed.
    #[inline(always)]
    pub fn get(self, id: NextHopId) -> &'a NextHop {
        let slots = self.0;
        let slot = slots.get(id.0 as usize).unwrap_or(&slots[0]);
        let mut found = slot.load(Ordering::Acquire);
        if found.is_null() {
            found = slots[0].load(Ordering::Acquire);
        }
        // SAFETY: slot 0 is set in `Shared::new` and never cleared, so the pointer is valid. An object is
        // freed only after every reader passed a quiescent point, which needs `&mut FibReader`
        // and so ends this borrow; the writer itself frees only under `&mut FibWriter`.
        unsafe { &*found }
    }
}

impl Shared {
    /// The tree of a family.
    pub(crate) fn tree<F: Family>(&self) -> &Tree {
        if F::IS_V6 { &self.v6 } else { &self.v4 }
    }

    pub(crate) fn new(
        config: &FibConfig,
        map: Option<ProgramMap<'_>>,
        marks: Marks,
    ) -> Result<Self, FibError> {
        let (octets4, octets6) = (reserved(config.max_bytes4), reserved(config.max_bytes6));
        let pointers = (config.max_next_hops as usize + 1) * size_of::<*mut NextHop>();
        let refused = FibError::NoAddressSpace(octets4 + octets6 + pointers);
        let epochs = Epochs::new(config.max_readers);
        let mut shared = Self {
            v4: Tree::new::<V4>(octets4, map).ok_or(refused)?,
            v6: Tree::new::<V6>(octets6, map).ok_or(refused)?,
            simd: Kernel::new(config.simd)?,
            next_hops: Region::reserve(pointers, Pages::Small).ok_or(refused)?,
            marks,
            next_hops_end: AtomicU32::new(0),
            program: map.and_then(|_| epochs.register()),
            epochs,
        };
        if map.is_some() && shared.program.is_none() {
            return Err(FibError::ReadersFull(config.max_readers));
        }
        if config.ipv4 == Ipv4Table::Dir24 {
            shared.v4.dir24 = Some(Dir24::new().ok_or(refused)?);
        }
        let no_route = NextHop::Punt {
            reason: Reason::NoRoute,
            port: None,
        };
        let none = shared.set_next_hop(0, Some(no_route));
        debug_assert!(none.is_none());
        Ok(shared)
    }

    /// The next-hop objects.
    #[inline(always)]
    pub(crate) fn next_hops(&self) -> NextHops<'_> {
        NextHops(self.slots())
    }

    /// Sets the object of an id with one pointer store; returns the previous one.
    #[must_use]
    pub(crate) fn set_next_hop(&self, id: u32, object: Option<NextHop>) -> Option<RetiredNextHop> {
        let new = object.map_or(std::ptr::null_mut(), |object| {
            Box::into_raw(Box::new(object))
        });
        let end = &self.next_hops_end;
        end.fetch_max(id + 1, Ordering::Relaxed);
        let old = self.slots()[id as usize].swap(new, Ordering::AcqRel);
        (!old.is_null()).then(|| RetiredNextHop(old))
    }

    #[inline(always)]
    fn slots(&self) -> &[AtomicPtr<NextHop>] {
        // SAFETY: pointers to these objects, or null, are all that is ever stored in this region.
        unsafe { self.next_hops.pointers() }
    }

    pub(crate) fn register(&self) -> Result<usize, FibError> {
        let full = FibError::ReadersFull(self.epochs.readers());
        self.epochs.register().ok_or(full)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let end = *self.next_hops_end.get_mut() as usize;
        for slot in &self.slots()[..end] {
            let object = slot.load(Ordering::Relaxed);
            if !object.is_null() {
                drop(RetiredNextHop(object));
            }
        }
    }
}
