//! What the threads of a trial share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock;
use crate::schedule::{Schedule, ScheduleError};
use crate::trial::TrialSpec;

/// On links in memory nothing takes that long.
pub(super) const VIRTUAL_DRAIN: Duration = Duration::from_millis(200);
/// Longest wait for frames that keep coming.
const LONGEST_DRAIN: u64 = 5_000_000_000;
/// How long after the last step frames are still sent that were due before.
const GRACE: u64 = 100_000_000;
/// From making the trial to its first frame, ns: all threads run by then. More for each stream and
/// port, whose histograms take a while to make.
const LEAD: u64 = 5_000_000;
const LEAD_FOR_EACH: u64 = 200_000;

/// What all threads of a trial share.
pub(super) struct Common<'a> {
    pub(super) schedule: Schedule,
    /// Of the first frame, ns of [`clock::now`].
    pub(super) start: u64,
    /// Whether the trial has a frame limit.
    is_limited: bool,
    /// ns.
    drain: u64,
    pub(super) busy: bool,
    stop: &'a AtomicBool,
    /// Ports that still send, and the action that is not done.
    unfinished: AtomicUsize,
    /// When the last frame was received or the last of these finished, ns of [`clock::now`].
    active: AtomicU64,
    /// When the last of these finished.
    finished: AtomicU64,
}

impl<'a> Common<'a> {
    /// Of a trial that begins soon, on so many ports.
    pub(super) fn new(
        spec: &TrialSpec,
        ports: usize,
        drain: Duration,
        busy: bool,
        stop: &'a AtomicBool,
    ) -> Result<Self, ScheduleError> {
        let findings = (ports * spec.traffic.streams.len()) as u64;
        let actions = usize::from(spec.action.is_some());
        Ok(Self {
            schedule: Schedule::new(spec)?,
            start: clock::now() + LEAD + findings * LEAD_FOR_EACH,
            is_limited: spec.limit.is_some(),
            drain: drain.as_nanos() as u64,
            busy,
            stop,
            unfinished: AtomicUsize::new(spec.traffic.senders().len() + actions),
            active: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        })
    }

    pub(super) fn stop(&self) -> &AtomicBool {
        self.stop
    }

    /// How long a port sent, ns, that sent so many frames and the last one at this time: all of the
    /// steps' time, or until the last frame left if it ended before, or was late.
    pub(super) fn elapsed(&self, frames: u64, last: u64) -> u64 {
        let left = last.saturating_sub(self.start);
        if self.schedule.frames() == Some(frames) && !self.is_limited {
            left.max(self.schedule.end())
        } else {
            left
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn is_too_late(&self, elapsed: u64, unpaced: bool) -> bool {
        let grace = if unpaced { 0 } else { GRACE };
        elapsed > self.schedule.end().saturating_add(grace)
    }

    pub(super) fn is_active(&self, now: u64) {
        self.active.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn one_is_finished(&self) {
        let now = clock::now();
        self.is_active(now);
        self.finished.fetch_max(now, Ordering::Relaxed);
        self.unfinished.fetch_sub(1, Ordering::Release);
    }

    /// Whether the trial is over: nothing has come for a while since all has been sent and done.
    pub(super) fn is_over(&self, now: u64) -> bool {
        if self.unfinished.load(Ordering::Acquire) > 0 {
            return false;
        }
        let drain = match self.is_stopped() {
            true => self.drain.min(VIRTUAL_DRAIN.as_nanos() as u64),
            false => self.drain,
        };
        now > self.active.load(Ordering::Relaxed) + drain
            || now > self.finished.load(Ordering::Relaxed) + LONGEST_DRAIN.max(drain)
    }
}
