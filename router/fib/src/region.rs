//! Reserved address space, which takes no memory until it is touched.
//!
//! The words are atomics, so that the writer can change them through a shared reference and no reader sees
//! half a word. A region can be accessed in several widths; while readers may read a place, it is written in
//! one width only (see `node`), so accesses of different widths never race.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};

/// Unit in which memory is used and given back, octets.
pub(crate) const PAGE: usize = 4096;

/// How the kernel should back a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// 2 MiB pages if possible; for dense tables.
    Huge,
    /// Small pages only; for sparse tables, where most of a huge page would be zeros.
    Small,
}

/// A zeroed range of memory, page aligned.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    /// Octets, a multiple of [`PAGE`].
    len: usize,
    /// Pages at the start that lie in a BPF map.
    in_map: usize,
}

// SAFETY: a region owns its mapping and hands out atomics only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves at least this many octets, which must not be 0; `None` if the system refuses.
    pub(crate) fn reserve(octets: usize, pages: Pages) -> Option<Self> {
        let len = octets.checked_next_multiple_of(PAGE)?;
        let base = NonNull::new(map(len, pages)?)?;
        Some(Self {
            base,
            len,
            in_map: 0,
        })
    }

    /// Reserves address space as [`Region::reserve`] does, with these pages of a BPF array map, which must all be
    /// zero, in place of the first ones. The program that has the map may read there, or change whole words
    /// as we do.
    pub(crate) fn in_map(
        octets: usize,
        backing: Pages,
        map: BorrowedFd<'_>,
        pages: Range<u32>,
    ) -> Option<Self> {
        let mut region = Self::reserve(octets, backing)?;
        region.in_map = pages.len();
        let len = region.in_map * PAGE;
        assert!(len <= region.len);
        if len > 0 {
            // SAFETY: the range lies in the region's own mapping, to which there is no reference yet.
            unsafe { replace(region.base.as_ptr(), len, map, u64::from(pages.start))? };
        }
        Some(region)
    }

    /// Pages at the start that lie in a BPF map.
    pub(crate) fn in_map_pages(&self) -> usize {
        self.in_map
    }

    #[inline(always)]
    pub(crate) fn words64(&self) -> &[AtomicU64] {
        // SAFETY: `base` is valid, aligned and initialised (to zero) for `len` octets as long as
        // `self` lives, any bits are a valid atomic, and all accesses go through atomics or
        // through the gathers of `avx2` and `avx512`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 8) }
    }

    #[inline(always)]
    pub(crate) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: as in `words64`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 4) }
    }

    #[inline(always)]
    pub(crate) fn words16(&self) -> &[AtomicU16] {
        // SAFETY: as in `words64`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 2) }
    }

    /// Pointers, null at first.
    ///
    /// # Safety
    /// The region must never be used in another width, nor with another `T`.
    #[inline(always)]
    pub(crate) unsafe fn pointers<T>(&self) -> &[AtomicPtr<T>] {
        let len = self.len / size_of::<AtomicPtr<T>>();
        // SAFETY: `base` is valid and page aligned for `self.len` octets as long as `self` lives, zero
        // is a null pointer, and by the caller's promise nothing but such pointers is ever stored.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), len) }
    }

    /// Gives the memory of a page back to the system, after which it reads as zero. The memory of a map
    /// stays as it is.
    pub(crate) fn release(&self, page: usize) {
        assert!((page + 1) * PAGE <= self.len);
        if page < self.in_map {
            return;
        }
        #[cfg(not(miri))]
        // SAFETY: the page lies in our private anonymous mapping; it stays mapped and reads as
        // zero, which is a valid value of every atomic in it. A failure leaves it as it is.
        let _ = unsafe {
            let page = self.base.as_ptr().add(page * PAGE);
            rustix::mm::madvise(page.cast(), PAGE, rustix::mm::Advice::LinuxDontNeed)
        };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length and not used afterwards.
        unsafe { unmap(self.base.as_ptr(), self.len) }
    }
}

#[cfg(not(miri))]
fn map(len: usize, pages: Pages) -> Option<*mut u8> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses; it overlaps nothing.
    let base = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    };
    let base = base.ok()?;
    let advice = match pages {
        Pages::Huge => Advice::LinuxHugepage,
        Pages::Small => Advice::LinuxNoHugepage,
    };
    // SAFETY: the range is the mapping made above; the advice changes no contents. A kernel without
    // huge pages refuses it, which does no harm.
    let _ = unsafe { madvise(base, len, advice) };
    Some(base.cast())
}

/// Puts pages of a BPF map in place of memory; `None` if the system refuses.
///
/// # Safety
/// `base` begins a mapping of at least `len` octets that is not in use.
#[cfg(not(miri))]
unsafe fn replace(base: *mut u8, len: usize, map: BorrowedFd<'_>, page: u64) -> Option<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: by the caller's promise. An array map never shrinks, so the memory stays valid, and the
    // program reads it, or changes whole words atomically.
    let mapped = unsafe { mmap(base.cast(), len, access, flags, map, page * PAGE as u64) };
    mapped.ok().map(|_| ())
}

#[cfg(miri)]
unsafe fn replace(_: *mut u8, _: usize, _: BorrowedFd<'_>, _: u64) -> Option<()> {
    None
}

#[cfg(not(miri))]
unsafe fn unmap(base: *mut u8, len: usize) {
    // SAFETY: the caller passes a mapping of `map`.
    let _ = unsafe { rustix::mm::munmap(base.cast(), len) };
}

/// Miri does not support mmap.
#[cfg(miri)]
fn map(len: usize, _pages: Pages) -> Option<*mut u8> {
    let layout = std::alloc::Layout::from_size_align(len, PAGE).ok()?;
    // SAFETY: the callers never reserve nothing.
    Some(unsafe { std::alloc::alloc_zeroed(layout) })
}

#[cfg(miri)]
unsafe fn unmap(base: *mut u8, len: usize) {
    // SAFETY: the layout of `map`, which accepted it.
    unsafe {
        std::alloc::dealloc(
            base,
            std::alloc::Layout::from_size_align_unchecked(len, PAGE),
        )
    }
}
