//! Frames of a closed queue that the kernel may still use.

use std::fmt;
use std::time::{Duration, Instant};

use bora_buffer::{FrameSet, SharedFrames};

/// Time between two questions to the kernel.
const PAUSE: Duration = Duration::from_millis(5);

/// The frames of a closed queue. A card may go on writing to them, or sending from them, for a moment.
/// Dropping this loses the frames.
#[must_use = "its frames return only through it"]
pub struct Closing {
    frames: FrameSet,
    is_released: Box<dyn FnMut() -> bool + Send>,
    asked: Option<Instant>,
    unsent: u32,
}

impl Closing {
    /// Frames that return when `is_released` says that the kernel has let go of them; `unsent` packets
    /// were still to be sent.
    pub(crate) fn new(
        frames: FrameSet,
        unsent: u32,
        is_released: impl FnMut() -> bool + Send + 'static,
    ) -> Self {
        Self {
            frames,
            is_released: Box::new(is_released),
            asked: None,
            unsent,
        }
    }

    /// Packets that the kernel had not taken from the transmit ring.
    pub fn unsent(&self) -> u32 {
        self.unsent
    }

    /// Frames that have not returned yet.
    pub fn len(&self) -> u32 {
        self.frames.len()
    }

    /// Whether all frames have returned.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Gives the frames to `home` if the kernel no longer uses them; returns whether it did. Call it
    /// again until it does, on a thread in the network namespace of the interface.
    pub fn finish(&mut self, home: &SharedFrames) -> bool {
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return false;
        }
        self.asked = Some(Instant::now());
        if !(self.is_released)() {
            return false;
        }
        self.frames.drain().for_each(|frame| home.give(frame));
        true
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Closing");
        debug.field("frames", &self.frames.len());
        debug.finish_non_exhaustive()
    }
}
