//! How long each stage of the loop takes, measured for a while on the traffic that there is.

use std::time::{Duration, Instant};

use bora_contract::Counter;
use bora_forward::Stage;

/// What a worker has measured since it was last asked to. Stages by [`Stage`].
#[derive(Debug, Default)]
pub struct ProfileCounters {
    /// Packets that went through the loop meanwhile.
    pub packets: Counter,
    /// Batches that these came in.
    pub batches: Counter,
    /// Nanoseconds of each stage, less what the clock takes.
    pub stages: [Counter; Stage::ALL.len()],
}

/// Measures until a certain time. The clock is read once for each stage of a batch.
#[derive(Debug)]
pub(crate) struct Profiler {
    pub(crate) until: Instant,
    last: Instant,
    /// What reading the clock takes.
    look: Duration,
    packets: u64,
    batches: u64,
    times: [Duration; Stage::ALL.len()],
}

impl Profiler {
    pub(crate) fn new(time: Duration) -> Self {
        /// Readings of the clock to time it.
        const LOOKS: u32 = 256;
        let begin = Instant::now();
        let last = (0..LOOKS).fold(begin, |_, _| Instant::now());
        Self {
            until: last + time,
            last,
            look: (last - begin) / LOOKS,
            packets: 0,
            batches: 0,
            times: [Duration::ZERO; Stage::ALL.len()],
        }
    }

    /// The next stage begins now, after something that is no stage.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.last = Instant::now();
    }

    /// A stage is done.
    #[inline]
    pub(crate) fn done(&mut self, stage: Stage) {
        let now = Instant::now();
        self.times[stage as usize] += (now - self.last).saturating_sub(self.look);
        self.last = now;
    }

    /// A batch has been through all stages.
    pub(crate) fn count(&mut self, packets: usize) {
        self.batches += 1;
        self.packets += packets as u64;
    }

    /// Shows what was measured so far.
    pub(crate) fn publish(&self, counters: &ProfileCounters) {
        counters.packets.set(self.packets);
        counters.batches.set(self.batches);
        for (counter, time) in counters.stages.iter().zip(self.times) {
            counter.set(time.as_nanos() as u64);
        }
    }
}
