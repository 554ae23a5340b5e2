//! How packets come and go: ports of all kinds and their [`Queue`]s, and the XDP program in front of
//! Linux.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

mod advice;
pub mod af_packet;
pub mod af_xdp;
mod bell;
mod closing;
mod copying;
#[cfg(feature = "dpdk")]
mod dpdk;
pub mod features;
pub mod inject;
pub mod interface;
pub mod kinds;
mod lock;
pub mod memif;
pub mod memory;
pub mod multipath;
pub mod netns;
pub mod offload;
pub mod pcap;
pub mod port;
mod port_queue;
mod queue;
mod refusal;
mod tally;
pub mod tap;
pub mod xdp;

pub use advice::advice;
pub use bell::Bell;
pub use closing::Closing;
pub use port_queue::PortQueue;
pub use queue::Queue;
pub use refusal::Refusal;
pub use tally::{QueueStats, ReadStats, StatsReader, Tally};
