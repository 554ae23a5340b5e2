//! What the threads of a trial share.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_current_timer_slack};

use crate::clock;
use crate::schedule::Schedule;
use crate::trial::TrialSpec;

/// Wait for late frames on virtual links, which deliver sooner than that.
pub(super) const VIRTUAL_DRAIN: Duration = Duration::from_millis(200);
/// Longest wait for frames that keep coming.
const LONGEST_DRAIN: u64 = 5_000_000_000;
/// How long after the last step frames are still sent that were due before.
const GRACE: u64 = 100_000_000;
/// From preparing the trial to its first frame, ns, by when all threads run; and more for each stream
/// and port, because their histograms take time to allocate.
const LEAD: u64 = 5_000_000;
const LEAD_FOR_EACH: u64 = 200_000;

/// What all threads of a trial share.
pub(super) struct Common<'a> {
    pub(super) schedule: Schedule,
    /// When the first frame is due, ns of [`clock::now`].
    pub(super) start: u64,
    /// Whether the trial has a frame limit.
    is_limited: bool,
    /// ns.
    drain: u64,
    pub(super) busy: bool,
    stop: &'a AtomicBool,
    /// How many [`Unfinished`] there are.
    unfinished: AtomicUsize,
    /// When the trial was seen to be stopped, ns of [`clock::now`]; 0: not yet.
    stopped: AtomicU64,
    /// When the last frame was received or the last of these finished, ns of [`clock::now`].
    active: AtomicU64,
    /// When the last of these finished.
    finished: AtomicU64,
}

impl<'a> Common<'a> {
    /// Prepares a trial that begins soon, on this many ports.
    pub(super) fn new(
        spec: &TrialSpec,
        ports: usize,
        drain: Duration,
        busy: bool,
        stop: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        let findings = (ports * spec.traffic.streams.len()) as u64;
        Ok(Self {
            schedule: Schedule::new(spec)?,
            start: clock::now() + LEAD + findings * LEAD_FOR_EACH,
            is_limited: spec.limit.is_some(),
            drain: drain.as_nanos() as u64,
            busy,
            stop,
            unfinished: AtomicUsize::new(0),
            stopped: AtomicU64::new(0),
            active: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        })
    }

    pub(super) fn stop(&self) -> &AtomicBool {
        self.stop
    }

    /// How long a port sent, ns, after its `frames` frames, the last one at `last`: all of the steps' time,
    /// or until the last frame left if it ended before, or was late.
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

    /// Something more for the trial to wait for; to be called before its threads run.
    pub(super) fn unfinished(&self) -> Unfinished<'_> {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        Unfinished {
            unfinished: &self.unfinished,
            active: &self.active,
            finished: &self.finished,
        }
    }

    /// Whether the trial was stopped so long ago that nothing is waited for any more.
    pub(super) fn is_given_up(&self, now: u64) -> bool {
        if !self.is_stopped() {
            return false;
        }
        let relaxed = Ordering::Relaxed;
        let stopped = self.stopped.compare_exchange(0, now, relaxed, relaxed);
        stopped.is_err_and(|stopped| now > stopped + LONGEST_DRAIN)
    }

    /// Whether the trial is over: nothing has come for a while since all has been sent and done.
    pub(super) fn is_over(&self, now: u64) -> bool {
        if self.is_given_up(now) {
            return true;
        }
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

/// A port that still sends, or the action while it is not done: the trial waits until it is dropped,
/// as it also is when its thread panics.
pub(super) struct Unfinished<'a> {
    unfinished: &'a AtomicUsize,
    active: &'a AtomicU64,
    finished: &'a AtomicU64,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let now = clock::now();
        self.active.fetch_max(now, Ordering::Relaxed);
        self.finished.fetch_max(now, Ordering::Relaxed);
        self.unfinished.fetch_sub(1, Ordering::Release);
    }
}

/// Prepares this thread for a trial.
pub(super) fn place(cpu: Option<u32>) {
    // best effort, both: without them the measurement is only noisier
    if let Some(cpu) = cpu {
        let mut cpus = CpuSet::new();
        cpus.set(cpu as usize);
        let _ = sched_setaffinity(None, &cpus);
    }
    let _ = set_current_timer_slack(NonZero::new(1));
}

/// Raises this thread's priority: while other threads had its CPU, for milliseconds, frames would be
/// late. Best effort, too.
pub(super) fn raise_priority() {
    let _ = setpriority_process(Some(gettid()), -20);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::test_traffic;

    fn common(stop: &AtomicBool) -> Common<'_> {
        let traffic = Arc::new(test_traffic::one_flow(64));
        let spec = TrialSpec::steady(traffic, 1000.0, Duration::from_millis(10));
        Common::new(&spec, 2, VIRTUAL_DRAIN, false, stop).unwrap()
    }

    #[test]
    fn a_panic_ends_the_wait() {
        let stop = AtomicBool::new(false);
        let common = common(&stop);
        let (sender, action) = (common.unfinished(), common.unfinished());
        assert!(!common.is_over(clock::now() + 10 * LONGEST_DRAIN));
        let failed = std::thread::scope(|scope| {
            let died = scope.spawn(move || {
                let _unfinished = sender;
                panic!("for the test");
            });
            died.join()
        });
        assert!(failed.is_err());
        assert!(!common.is_over(clock::now() + 10 * LONGEST_DRAIN));
        drop(action);
        assert!(common.is_over(clock::now() + 10 * LONGEST_DRAIN));
    }

    #[test]
    fn nothing_outlives_a_stop_for_long() {
        let stop = AtomicBool::new(false);
        let common = common(&stop);
        let _unfinished = common.unfinished();
        let now = clock::now();
        assert!(!common.is_over(now + 10 * LONGEST_DRAIN));
        stop.store(true, Ordering::Relaxed);
        assert!(!common.is_over(now));
        assert!(!common.is_over(now + LONGEST_DRAIN / 2));
        assert!(common.is_over(now + LONGEST_DRAIN + 1));
    }
}
