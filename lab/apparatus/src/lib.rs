//! The laboratory's apparatus: ports that no product needs, to test and to measure with. They plug in
//! as [`bora_port::Queue::Other`].
//!
//! - [`replay`] presents the same packets for ever, [`paced`] presents them by the clock;
//! - [`observed`] shows what is sent to an [`Observer`];
//! - [`locked`] gives several workers one queue behind a lock;
//! - [`fault`] stands in front of another queue and loses, delays, doubles, reorders and damages.
#![forbid(unsafe_code)]

pub mod fault;
mod locked;
mod paced;
mod queue;
mod replay;
mod sink;
mod template;
#[cfg(test)]
mod tests;

pub use locked::locked;
pub use paced::{Arrivals, Pace, Paced, Stamp, paced};
pub use queue::observed;
pub use replay::{Replay, replay};
pub use sink::{Observer, SinkCounter};

/// Frames taken from the pool at once.
const STOCK: usize = bora_buffer::MAX_BATCH;
