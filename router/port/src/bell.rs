//! Wakes a thread that sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that wakes one thread when others have packets or commands for it. Ringing costs a
/// system call only while the owner sleeps.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            asleep: AtomicBool::new(false),
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Wakes the owner if it sleeps. The owner then sees everything that was written before the call.
    #[inline]
    pub fn ring(&self) {
        // orders the index written before the flag read here; the sleeper orders them the other way
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            wake(&self.fd);
        }
    }

    /// To be called before a sleep, and before the rings are looked at once more.
    pub fn before_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// To be called after a sleep.
    pub fn after_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        #[expect(
            clippy::let_underscore_must_use,
            reason = "an empty counter is an error, and is what is wanted"
        )]
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

/// Makes an eventfd readable.
pub(crate) fn wake(eventfd: &OwnedFd) {
    #[expect(
        clippy::let_underscore_must_use,
        reason = "a full counter is an error, but the descriptor is readable then, too"
    )]
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
