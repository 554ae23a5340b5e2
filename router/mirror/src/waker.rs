//! Ends a poll of the mirror from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Ends a [`crate::Mirror::poll`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker of the mirror that waits for this eventfd.
    pub(crate) fn new(eventfd: Arc<OwnedFd>) -> Self {
        Self(eventfd)
    }

    /// Ends the poll in progress, or else the next.
    pub fn wake(&self) {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "it fails only if the counter is near 2^64, and then the mirror wakes anyway"
        )]
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}
