//! Limits how fast a late sender catches up. On a busy machine the tester may not run for a while; if
//! it then sent all frames that are due at once, the burst would fill the router's rings, and the loss
//! would look like the router's.

use crate::schedule::Schedule;

/// Frames of a late sender leave at most this many times as fast as the load asks for.
pub(crate) const CATCH_UP: f64 = 1.5;
/// The frames of this time, ns, may leave at once, or [`FEW`] if that is more: they fill no ring.
const AT_ONCE: f64 = 100_000.0;
const FEW: u64 = 32;

/// The pace of one sender in one trial.
#[derive(Debug, Default)]
pub struct Pacer {
    /// When it was last asked, ns after the trial's start.
    last: u64,
    /// Frames that may leave at once.
    credit: f64,
}

impl Pacer {
    /// How many frames may leave now, `elapsed` ns after the trial's start, if `sent` have already. They
    /// count as sent.
    #[inline]
    pub fn allow(&mut self, schedule: &Schedule, sent: u64, elapsed: u64, most: u64) -> u64 {
        let due = schedule.due_by(elapsed).saturating_sub(sent).min(most);
        let interval = schedule.interval(sent);
        if due == 0 || interval == 0.0 {
            return due;
        }
        let burst = schedule.burst();
        let at_once = AT_ONCE.max(interval * burst.max(FEW) as f64);
        let passed = (elapsed.saturating_sub(self.last) as f64).min(at_once);
        self.last = elapsed;
        let most = at_once / interval * CATCH_UP + burst as f64;
        self.credit = (self.credit + passed / interval * CATCH_UP).min(most);
        if sent == 0 {
            self.credit = most;
        }
        let allowed = due.min(self.credit as u64);
        self.credit -= allowed as f64;
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::test_traffic::one_flow;
    use crate::trial::TrialSpec;

    const MS: u64 = 1_000_000;

    fn schedule(rate: f64, burst: u32) -> Schedule {
        let spec = TrialSpec {
            burst,
            ..TrialSpec::steady(Arc::new(one_flow(64)), rate, Duration::from_secs(1))
        };
        Schedule::new(&spec).unwrap()
    }

    #[test]
    fn who_is_on_time_is_not_held_back() {
        for (rate, burst) in [(1e3, 1), (1e5, 1), (1e6, 1), (1e5, 50)] {
            let schedule = schedule(rate, burst);
            let (mut pacer, mut sent) = (Pacer::default(), 0);
            for elapsed in (0..50 * MS).step_by(10_000) {
                sent += pacer.allow(&schedule, sent, elapsed, u64::MAX);
                assert_eq!(sent, schedule.due_by(elapsed), "{rate}, {burst}, {elapsed}");
            }
        }
    }

    #[test]
    fn who_is_late_catches_up_gently() {
        let schedule = schedule(1e5, 1);
        let (mut pacer, mut sent) = (Pacer::default(), 0);
        sent += pacer.allow(&schedule, sent, 0, u64::MAX);
        // away for 10 ms, in which 1000 frames were due
        let mut caught_up = 0;
        for elapsed in (10 * MS..50 * MS).step_by(20_000) {
            let now = pacer.allow(&schedule, sent, elapsed, u64::MAX);
            assert!(now <= 49, "{now} at once");
            sent += now;
            if sent == schedule.due_by(elapsed) {
                caught_up = elapsed;
                break;
            }
        }
        assert!((25 * MS..35 * MS).contains(&caught_up), "{caught_up}");
    }
}
