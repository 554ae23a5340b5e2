//! Where packets are in memory.
//!
//! A [`Region`] is one memory area cut into frames of equal size. A frame is owned by exactly one
//! place at a time: a [`Pool`], a [`Packet`], or the kernel's rings. Frames
//! move; they are never copied, shared or reference-counted.

mod frame_set;
mod packet;
mod pool;
mod region;
mod tag;

pub use frame_set::FrameSet;
pub use packet::{Frame, Packet, Purpose, prefetch};
pub use pool::{Pool, PoolStats, SharedFrames};
pub use region::{HEADROOM, Region, RegionError};

/// Most packets that travel together through a worker's stages.
pub const MAX_BATCH: usize = 256;
