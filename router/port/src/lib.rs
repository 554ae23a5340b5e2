//! How packets come and go: ports of all kinds and their [`Queue`]s.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

pub mod af_packet;
pub mod af_xdp;
mod bell;
mod closing;
mod copying;
#[cfg(feature = "dpdk")]
mod dpdk;
pub mod kinds;
pub mod memif;
pub mod memory;
pub mod offload;
pub mod pcap;
pub mod port;
mod port_queue;
mod queue;
mod tally;
pub mod tap;

pub use bell::Bell;
pub use closing::Closing;
pub use port_queue::PortQueue;
pub use queue::Queue;
pub use tally::{QueueStats, ReadStats, StatsReader, Tally};
