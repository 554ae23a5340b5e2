//! Makes eventfds readable that a hostile peer shares.
//!
//! A write to an eventfd waits while its counter is full, and O_NONBLOCK does not help: it is a flag of the
//! open file, which the peer has too and may change. The kernel itself adds to an eventfd without ever
//! waiting: when a request of Linux's AIO completes that names one (IOCB_FLAG_RESFD, io_submit(2)). The
//! request here reads an empty file in memory, and is complete when io_submit returns.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::fs::{MemfdFlags, memfd_create};

use bora_linux::lock;

/// Completions that wait to be read; one at a time is enough for each thread.
const EVENTS: usize = 64;
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_FLAG_RESFD: u32 = 1;

/// struct iocb (include/uapi/linux/aio_abi.h).
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    octets: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// struct io_event.
type Event = [u64; 4];

/// An AIO context of this process.
#[derive(Debug)]
pub(super) struct Signal {
    context: libc::c_ulong,
    empty: OwnedFd,
}

/// Contexts that no thread uses. They are not destroyed: io_destroy waits until the kernel's readers have
/// passed (RCU), which takes tens of milliseconds, and the last owner of a ring may be a worker.
static UNUSED: Mutex<Vec<libc::c_ulong>> = Mutex::new(Vec::new());

impl Signal {
    /// # Errors
    /// The kernel has no AIO (CONFIG_AIO), or no more of it (fs.aio-max-nr).
    pub(super) fn new() -> io::Result<Self> {
        let empty = memfd_create("bora-signal", MemfdFlags::CLOEXEC)?;
        let mut unused = lock(&UNUSED);
        if let Some(context) = unused.pop() {
            return Ok(Self { context, empty });
        }
        let mut context: libc::c_ulong = 0;
        // SAFETY: io_setup writes one number to `context`, which is zero as it must be.
        let failed = unsafe { libc::syscall(libc::SYS_io_setup, EVENTS, &raw mut context) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { context, empty })
    }

    /// Adds to an eventfd without waiting.
    pub(super) fn ring(&self, eventfd: BorrowedFd<'_>) {
        let request = Request {
            opcode: IOCB_CMD_PREAD,
            file: self.empty.as_raw_fd() as u32,
            flags: IOCB_FLAG_RESFD,
            eventfd: eventfd.as_raw_fd() as u32,
            ..Request::default()
        };
        let requests = [&raw const request];
        // SAFETY: one request, which the kernel copies; it asks for no octets, so no buffer is written.
        unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, requests.as_ptr()) };
        self.reap();
    }

    /// Takes completions away, so that there is always room for more.
    fn reap(&self) {
        let mut events = [Event::default(); EVENTS];
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let (place, now) = (events.as_mut_ptr(), &raw const now);
        // SAFETY: `events` has room for EVENTS of struct io_event, and the call does not wait.
        unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 0, EVENTS, place, now) };
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let mut unused = lock(&UNUSED);
        unused.push(self.context);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn it_counts_and_never_runs_out() {
        let signal = Signal::new().unwrap();
        let bell = eventfd(0, EventfdFlags::empty()).unwrap();
        for _ in 0..10 * EVENTS {
            signal.ring(bell.as_fd());
        }
        let mut count = [0; 8];
        rustix::io::read(&bell, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 10 * EVENTS as u64);
    }
}
