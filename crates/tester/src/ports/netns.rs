//! Opening things in another network namespace.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread;

use anyhow::{Context, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs something in the network namespace of this name (`ip netns`), on a thread that ends with
/// it; `None` runs it here. Sockets stay in the namespace they were opened in.
///
/// # Errors
/// As of `run`, or see [`enter`].
pub fn inside<T: Send>(
    netns: Option<&str>,
    run: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let Some(name) = netns else {
        return run();
    };
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter(name)?;
            run()
        });
        worker.join().map_err(|_| anyhow!("a thread failed"))?
    })
}

/// Moves the calling thread into a network namespace, for good.
///
/// # Errors
/// There is none of this name, or Linux does not let us in.
pub fn enter(name: &str) -> anyhow::Result<()> {
    let file = File::open(format!("/run/netns/{name}")).with_context(|| {
        format!("no network namespace {name}; `ip netns` lists those there are")
    })?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter network namespace {name}; run as root"))
}
