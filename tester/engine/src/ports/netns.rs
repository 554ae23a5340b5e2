//! Opening things in another network namespace.

use std::io::ErrorKind;

use anyhow::anyhow;
use bora_linux::netns::in_named;

/// Runs something in the network namespace of this name (`ip netns`), on a thread that ends with it; `None`
/// runs it here. Sockets stay in the namespace they were opened in.
///
/// # Errors
/// What `run` says; there is no namespace of this name, or Linux does not let us in.
pub fn inside<T: Send>(
    netns: Option<&str>,
    run: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let Some(name) = netns else {
        return run();
    };
    in_named(name, run).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("no network namespace {name}; `ip netns` lists those there are")
        }
        _ => anyhow!("cannot enter network namespace {name}: {error}; run as root"),
    })?
}
