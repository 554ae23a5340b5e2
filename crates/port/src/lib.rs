//! How a packet comes and goes: one [`Queue`] type over AF_XDP, AF_PACKET, memif, TAP, HERO cards,
//! capture files and memory, with faults in front where a test wants them, and the XDP program in front of Linux.

pub mod af_packet;
pub mod af_xdp;
mod bell;
pub mod fault;
pub mod hero;
pub mod inject;
pub mod interface;
mod losses;
pub mod memif;
pub mod memory;
pub mod multipath;
pub mod netns;
pub mod offload;
pub mod pcap;
mod queue;
mod refusal;
pub mod tap;
pub mod xdp;

pub use bell::Bell;
pub use losses::Losses;
pub use queue::{Queue, QueueStats, StatsReader};
pub use refusal::Refusal;
