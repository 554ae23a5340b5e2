//! The sets of capabilities of a thread.

use rustix::io::{Errno, Result};
pub use rustix::thread::CapabilitySet as Capabilities;
use rustix::thread::{
    CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Programs that this thread might run get none: no ambient ones, and an empty bounding set.
pub(crate) fn forget_for_programs() -> Result<()> {
    clear_ambient_capability_set()?;
    if !held()?.contains(Capabilities::SETPCAP) {
        return Ok(()); // a thread that took it away has set the bounds, too
    }
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(Capabilities::from_bits_retain(1 << bit)) {
            Err(Errno::INVAL) => break, // the kernel has no more
            done => done?,
        }
    }
    Ok(())
}

/// Gives up all but these, for good.
pub(crate) fn keep(these: Capabilities) -> Result<()> {
    let these = capabilities(None)?.permitted & these;
    set_capabilities(
        None,
        CapabilitySets {
            effective: these,
            permitted: these,
            inheritable: Capabilities::empty(),
        },
    )
}

pub(crate) fn held() -> Result<Capabilities> {
    Ok(capabilities(None)?.effective)
}

pub(crate) fn names(these: Capabilities) -> String {
    let names: Vec<&str> = these.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
