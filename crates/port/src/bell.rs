//! Wakes a thread that sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// One thread's bell, for those that put packets or commands where it looks for them. Ringing costs
/// a system call only while the owner sleeps.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            asleep: AtomicBool::new(false),
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Wakes the owner if it sleeps; what was put there before, it sees.
    #[inline]
    pub fn ring(&self) {
        // between the ring's index before and the flag here; the sleeper does it the other way round
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // full means readable, which is all that is wanted
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Before a sleep; rings must be looked at once more afterwards.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After a sleep.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        // empty is what is wanted
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
