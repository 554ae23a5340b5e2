//! The XDP program of `xdp/bora.bpf.c`: loading, its maps, its counters, its attachments.

mod counters;
mod destinations;
mod link;
mod program;
mod query;
mod refusal;
mod survey;
mod symbols;

#[allow(
    clippy::all,
    missing_docs,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/bora.skel.rs"));
}

pub use counters::{Counters, REASONS, Reason};
pub use destinations::LinuxDestinations;
pub use link::{AttachError, AttachMode, Attachment};
pub use program::{Lease, Path, PortSettings, Program, ProgramError};
pub use query::{XdpQuery, query};
pub use survey::{DeviceHooks, HOOKS, Hook, Survey};
pub use symbols::names_of;

/// Most ports of one Bora; rows of the program's maps.
pub const MAX_PORTS: usize = 256;
/// Most receive queues of a port that have sockets; what comes on others is Linux's.
pub const MAX_QUEUES: u32 = 128;
