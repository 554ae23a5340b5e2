//! Whose a frame is, in debug builds: there a frame or packet that meets another region than its own
//! is an assertion. In release builds a tag is nothing.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};

/// One region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(#[cfg(debug_assertions)] u32);

impl Tag {
    /// For a new region.
    pub(crate) fn next() -> Self {
        #[cfg(debug_assertions)]
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(
            #[cfg(debug_assertions)]
            NEXT.fetch_add(1, Ordering::Relaxed),
        )
    }

    /// Asserts, in debug builds, that a frame with this tag is of the region with that one.
    #[inline]
    #[track_caller]
    pub(crate) fn is_of(self, region: Self) {
        debug_assert_eq!(self, region, "a frame of another region");
    }
}
