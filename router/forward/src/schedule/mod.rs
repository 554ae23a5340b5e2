//! From the queues of an output to its transmit ring.
//!
//! As in Click, stages push into queues and schedulers pull. An [`Output`] is a shaper over strict
//! priority over levels; a level is a deficit round robin over classes; a class is a queue behind a
//! shaper of its own. Parts that are not configured do not exist.

mod bucket;
mod drr;
pub mod grant;
mod output;
mod queue;

pub use bucket::{MAX_FRAME, Shaping, ShapingError, TokenBucket};
pub use drr::MIN_QUANTUM;
pub use output::{ClassConfig, Output, OutputConfig, OutputError};
pub use queue::{QueueLimits, QueueStats, Voq};
