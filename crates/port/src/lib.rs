//! How a packet comes and goes: one [`Queue`] type over AF_XDP, memif and memory, and the XDP program
//! in front of Linux.

pub mod af_xdp;
pub mod inject;
pub mod memif;
pub mod memory;
mod queue;
pub mod xdp;

pub use queue::{Queue, QueueStats, StatsReader};
