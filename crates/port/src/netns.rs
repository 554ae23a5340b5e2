//! Network namespaces without a name.

use std::io;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs something in a new network namespace, on a thread that ends with it. The namespace is gone
/// when nothing in it is open any more; its only interface is the loopback interface, which is down.
///
/// # Errors
/// No CAP_SYS_ADMIN, or too many namespaces.
///
/// # Panics
/// If `run` does.
pub fn in_new<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // SAFETY: only the network namespace of this thread; it keeps its file descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(run())
        });
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
