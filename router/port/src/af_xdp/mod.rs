//! AF_XDP: the kernel's rings of raw frames, mapped into this process.
//!
//! Written over `libc` because the crates for it lack shared UMEM or have had bugs in the life
//! time of their rings; see docs/dependencies.md.

mod open;
mod release;
mod ring;
mod socket;
mod system;

pub use open::{Mode, Opened, QueueSet, frame_size_for, longest_mtu, open_queues, ring_size};
pub use socket::{RING_SIZE, Socket, SocketConfig, SocketError, StatsReader, frames_for};
