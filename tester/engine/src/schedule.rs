//! When frames are due: open loop, from the steps' rates alone, so that a slow router cannot slow
//! the tester down (no coordinated omission; Tene: How NOT to measure latency, 2013).

use anyhow::ensure;

use crate::trial::{Step, Trial, TrialSpec};

/// The due times of one port's frames, which are numbered from 0.
#[derive(Clone, Debug)]
pub struct Schedule {
    parts: Vec<Part>,
    burst: u64,
    limit: u64,
    end: u64,
}

/// A step with a rate above zero.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// ns after the trial's start.
    start: u64,
    /// Number of its first frame.
    first: u64,
    /// One more than that of its last.
    next: u64,
    /// ns from frame to frame; 0 at an infinite rate.
    interval: f64,
}

impl Schedule {
    /// The schedule of each port of a trial.
    ///
    /// # Errors
    /// A rate or a burst makes no sense.
    pub fn new(spec: &TrialSpec) -> anyhow::Result<Self> {
        ensure!(spec.burst > 0, "bursts of no frames; 1 sends evenly");
        let (mut start, mut first) = (0, 0);
        let mut parts = Vec::new();
        for (number, step) in spec.steps.iter().enumerate() {
            check_step(number, step, number + 1 == spec.steps.len())?;
            let part = Part::new(step, start, first);
            start = start.saturating_add(nanoseconds(step));
            first = part.next;
            if part.next > part.first {
                parts.push(part);
            }
        }
        Ok(Self {
            parts,
            burst: spec.burst.into(),
            limit: spec.limit.unwrap_or(u64::MAX),
            end: start,
        })
    }

    /// When frame k is due, ns after the start; `None` if there is no such frame.
    ///
    /// At an infinite rate each frame is due at the step's start: stamp it with the time at which it
    /// is written.
    #[inline]
    pub fn due(&self, k: u64) -> Option<u64> {
        if k >= self.limit {
            return None;
        }
        let part = self.parts.iter().find(|part| k < part.next)?;
        Some(part.due(k - part.first, self.burst))
    }

    /// How many frames are due until `elapsed` ns after the start, at that moment included; at an
    /// infinite rate all that the trial may send.
    #[inline]
    pub fn due_by(&self, elapsed: u64) -> u64 {
        let started = self.parts.iter().rev().find(|part| part.start <= elapsed);
        let due = started.map_or(0, |part| {
            part.first + part.due_by(elapsed - part.start, self.burst)
        });
        due.min(self.limit)
    }

    /// ns from frame k to the next one; 0 at an infinite rate, and if there is no such frame.
    #[inline]
    pub fn interval(&self, k: u64) -> f64 {
        let part = self.parts.iter().find(|part| k < part.next);
        part.map_or(0.0, |part| part.interval)
    }

    /// Frames that are due at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// How many frames there are; `None` if that depends on how fast the port is.
    pub fn frames(&self) -> Option<u64> {
        let frames = self
            .parts
            .last()
            .map_or(0, |part| part.next)
            .min(self.limit);
        (frames != u64::MAX).then_some(frames)
    }

    /// When nothing more is sent, ns after the start, even if frames are still due.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether frames are sent as fast as it goes at that moment, ns after the start.
    #[inline]
    pub fn unpaced(&self, elapsed: u64) -> bool {
        let last = self.parts.last();
        last.is_some_and(|part| part.interval == 0.0 && part.start <= elapsed)
    }
}

impl Trial {
    /// Takes the scheduled time for that of sending if each frame of the schedule left. The last
    /// ones leave late if the machine is busy, which says nothing about the load: latencies, which
    /// count from when frames were due, and `lateness` show it. A trial that sent less, or had no
    /// schedule to keep, has its real time.
    #[must_use]
    pub fn on_schedule(mut self, spec: &TrialSpec) -> Self {
        let frames = Schedule::new(spec).ok().and_then(|it| it.frames());
        let due = frames.map(|frames| frames * spec.traffic.senders().len() as u64);
        // a limited one is over before the steps are
        if spec.limit.is_none() && due == Some(self.counts().sent) {
            self.elapsed = spec.time();
        }
        self
    }
}

impl Part {
    fn new(step: &Step, start: u64, first: u64) -> Self {
        let mut part = Self {
            start,
            first,
            next: u64::MAX,
            interval: 1e9 / step.rate,
        };
        let time = nanoseconds(step);
        if time == 0 || step.rate == 0.0 {
            part.next = first;
        } else if part.interval > 0.0 {
            // those due before the step's end
            part.next = first.saturating_add(part.due_by(time - 1, 1));
        }
        part
    }

    /// The product has a relative error below 2^-51: less than 0.1 ns in a day.
    #[inline]
    fn due(&self, n: u64, burst: u64) -> u64 {
        let n = if burst == 1 { n } else { n - n % burst };
        self.start + (n as f64 * self.interval) as u64
    }

    /// Frames of this part that are due `elapsed` ns after its start.
    #[inline]
    fn due_by(&self, elapsed: u64, burst: u64) -> u64 {
        let all = self.next - self.first;
        if self.interval == 0.0 {
            return all;
        }
        // those before the next ns; the quotient may be one off
        let due = self.start + elapsed;
        let mut n = ((elapsed + 1) as f64 / self.interval).ceil() as u64;
        n = n.min(all);
        while n > 0 && self.due(n - 1, 1) > due {
            n -= 1;
        }
        while n < all && self.due(n, 1) <= due {
            n += 1;
        }
        // n are due singly; of bursts, those begun are due whole
        n.div_ceil(burst).saturating_mul(burst).min(all)
    }
}

fn check_step(number: usize, step: &Step, last: bool) -> anyhow::Result<()> {
    let rate = step.rate;
    ensure!(
        rate >= 0.0,
        "step {number} has a rate of {rate} frames/s; a rate is 0 or more"
    );
    ensure!(
        rate.is_finite() || last,
        "step {number} is as fast as it goes and others follow; give it a rate, or make it the last one"
    );
    Ok(())
}

fn nanoseconds(step: &Step) -> u64 {
    u64::try_from(step.time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
