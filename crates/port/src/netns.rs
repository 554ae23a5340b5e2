//! Threads in other network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

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

/// Runs something in the network namespace of this name (`ip netns`), on a thread that ends with it.
/// Sockets stay in the namespace they were opened in.
///
/// # Errors
/// There is none of this name, or no CAP_SYS_ADMIN.
///
/// # Panics
/// If `run` does.
pub fn in_named<T: Send>(name: &str, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(format!("/run/netns/{name}"))?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(run())
        });
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
