//! From the queues of an output to its transmit ring.
//!
//! Queues are pushed into, schedulers pull (Click). An [`Output`] composes them: a shaper over
//! strict priority over levels, each a deficit round robin over classes, each a queue behind a
//! shaper of its own; what is not configured is not there.

mod bucket;
mod drr;
pub mod handover;
mod output;
mod queue;

pub use bucket::{MAX_FRAME, Shaping, ShapingError, TokenBucket};
pub use drr::MIN_QUANTUM;
pub use output::{ClassConfig, Output, OutputConfig, OutputError};
pub use queue::{QueueLimits, QueueStats, Voq};
