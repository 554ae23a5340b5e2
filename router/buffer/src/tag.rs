//! Which region a frame belongs to. In debug builds an assertion fails if a frame or packet is used with
//! another region; in release builds a tag is empty.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};

/// The tag of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(#[cfg(debug_assertions)] u32);

impl Tag {
    /// A tag for a new region.
    pub(crate) fn next() -> Self {
        #[cfg(debug_assertions)]
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(
            #[cfg(debug_assertions)]
            NEXT.fetch_add(1, Ordering::Relaxed),
        )
    }

    /// Asserts, in debug builds, that a frame with this tag belongs to `region`.
    #[inline]
    #[track_caller]
    pub(crate) fn is_of(self, region: Self) {
        debug_assert_eq!(self, region, "a frame of another region");
    }
}
