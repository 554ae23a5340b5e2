//! Wakes a thread that sleeps, and costs nothing while it does not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd with a note whether anybody waits for it.
#[derive(Debug)]
pub(super) struct Bell {
    fd: OwnedFd,
    armed: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let armed = AtomicBool::new(false);
        Ok(Self { fd, armed })
    }

    /// To be called before sleeping on [`Bell::fd`]; then look once more whether there is something to do.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        // pairs with the one in `ring`: either the sleeper sees the work, or the ringer sees this
        fence(Ordering::SeqCst);
    }

    /// To be called after the work is there.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            self.ring_anyhow();
        }
    }

    /// Makes the descriptor readable.
    pub(super) fn ring_anyhow(&self) {
        // it fails only when it is readable already
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// To be called after sleeping.
    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
