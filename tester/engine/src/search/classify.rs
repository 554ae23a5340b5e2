//! Whether a load meets a goal, from all trials at that load (RFC 9971, appendix A and B).

use std::time::Duration;

/// One trial at a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) time: Duration,
    pub(super) loss_ratio: f64,
    pub(super) beyond_tester: bool,
}

/// What sums of trial times are wrong by, s.
const ROUNDING: f64 = 1e-9;

/// What trials at a load say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It meets the goal: a lower bound.
    Lower,
    /// It does not: an upper bound.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// What a load must show, in one phase of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Loss that is tolerated in a trial.
    pub(super) loss_ratio: f64,
    /// Trials at least this long count in full.
    pub(super) trial_time: Duration,
    /// Together this long they decide.
    pub(super) sum_time: Duration,
    /// Part of that time in which more may be lost.
    pub(super) exceed_ratio: f64,
}

/// Sums of trial times by what they showed, s.
#[derive(Default)]
struct Sums {
    full_good: f64,
    full_bad: f64,
    short_good: f64,
    short_bad: f64,
}

impl Target {
    fn sums(&self, trials: &[Done]) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let good = trial.loss_ratio <= self.loss_ratio && !trial.beyond_tester;
            let sum = match (trial.time >= self.trial_time, good) {
                (true, true) => &mut sums.full_good,
                (true, false) => &mut sums.full_bad,
                (false, true) => &mut sums.short_good,
                (false, false) => &mut sums.short_bad,
            };
            *sum += trial.time.as_secs_f64();
        }
        sums
    }

    /// RFC 9971, appendix A: short trials only count against a load, and only as far as good short
    /// ones do not outweigh them.
    pub(super) fn classify(&self, trials: &[Done]) -> Verdict {
        if trials.iter().any(|trial| trial.beyond_tester) {
            return Verdict::Upper;
        }
        let sums = self.sums(trials);
        let balance = match self.exceed_ratio < 1.0 {
            true => sums.short_good * self.exceed_ratio / (1.0 - self.exceed_ratio),
            false => f64::INFINITY,
        };
        let bad = sums.full_bad + (sums.short_bad - balance).max(0.0);
        let done = sums.full_good + bad;
        let whole = done.max(self.sum_time.as_secs_f64());
        let allowed = whole * self.exceed_ratio;
        let optimistic = bad <= allowed;
        let pessimistic = bad + (whole - done) <= allowed;
        match (optimistic, pessimistic) {
            (_, true) => Verdict::Lower,
            (false, false) => Verdict::Upper,
            (true, false) => Verdict::Undecided,
        }
    }

    /// RFC 9971, appendix B: what of a load is forwarded in all but the worst trials.
    pub(super) fn throughput(&self, load: f64, trials: &[Done]) -> f64 {
        let sums = self.sums(trials);
        let bad = sums.full_bad;
        let whole = (sums.full_good + bad).max(self.sum_time.as_secs_f64());
        let mut rest = whole * (1.0 - self.exceed_ratio);
        let full = trials.iter().filter(|trial| trial.time >= self.trial_time);
        let mut full: Vec<&Done> = full.collect();
        full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let mut loss = None;
        for trial in full {
            if loss.is_some() && rest <= ROUNDING {
                break;
            }
            loss = Some(trial.loss_ratio);
            rest -= trial.time.as_secs_f64();
        }
        // time that no trial covers counts as lost
        let loss = loss.filter(|_| rest <= ROUNDING).unwrap_or(1.0);
        load * (1.0 - loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(loss_ratio: f64, trial: u64, sum: u64, exceed_ratio: f64) -> Target {
        Target {
            loss_ratio,
            trial_time: Duration::from_secs(trial),
            sum_time: Duration::from_secs(sum),
            exceed_ratio,
        }
    }

    fn trials(all: &[(u64, f64)]) -> Vec<Done> {
        let done = |&(seconds, loss_ratio)| Done {
            time: Duration::from_secs(seconds),
            loss_ratio,
            beyond_tester: false,
        };
        all.iter().map(done).collect()
    }

    #[test]
    fn one_full_trial_decides_an_rfc_2544_goal() {
        let goal = target(0.0, 60, 60, 0.0);
        assert_eq!(goal.classify(&trials(&[(60, 0.0)])), Verdict::Lower);
        assert_eq!(goal.classify(&trials(&[(60, 1e-6)])), Verdict::Upper);
        assert_eq!(goal.classify(&trials(&[(1, 0.0)])), Verdict::Undecided);
        assert_eq!(goal.classify(&trials(&[(1, 1e-6)])), Verdict::Upper);
        assert_eq!(goal.classify(&[]), Verdict::Undecided);
    }

    #[test]
    fn half_of_the_time_may_exceed() {
        let goal = target(0.005, 1, 21, 0.5);
        let good = |count| vec![(1, 0.0); count];
        let bad = |count| vec![(1, 0.1); count];
        assert_eq!(goal.classify(&trials(&good(10))), Verdict::Undecided);
        assert_eq!(goal.classify(&trials(&good(11))), Verdict::Lower);
        assert_eq!(goal.classify(&trials(&bad(11))), Verdict::Upper);
        let mixed = |goods, bads| trials(&[good(goods), bad(bads)].concat());
        assert_eq!(goal.classify(&mixed(10, 10)), Verdict::Undecided);
        assert_eq!(goal.classify(&mixed(11, 10)), Verdict::Lower);
        assert_eq!(goal.classify(&mixed(10, 11)), Verdict::Upper);
        // the median trial of those that count
        assert_eq!(goal.throughput(1000.0, &mixed(11, 10)), 1000.0);
        assert_eq!(goal.throughput(1000.0, &mixed(10, 11)), 900.0);
    }

    /// The example of RFC 9971, appendix C: trials that are added, and the verdicts then.
    #[test]
    fn the_rfcs_example() {
        use Verdict::{Lower as L, Undecided as U, Upper as X};
        let goals = [
            target(0.0, 60, 60, 0.0),
            target(0.0, 60, 120, 0.5),
            target(0.005, 1, 120, 0.5),
            target(0.005, 60, 60, 0.2),
        ];
        let points: [(Vec<(u64, f64)>, _); 6] = [
            (vec![(1, 0.0); 59], [U, U, U, U]),
            (vec![(1, 0.01)], [X, U, U, U]),
            (vec![(1, 0.01); 59], [X, U, U, X]),
            (vec![(1, 0.0)], [X, U, L, X]),
            (vec![(60, 0.001)], [X, U, L, X]),
            (vec![(60, 0.0)], [X, L, L, X]),
        ];
        let mut all = Vec::new();
        for (more, expected) in points {
            all.extend(more);
            let verdicts = goals.map(|goal| goal.classify(&trials(&all)));
            assert_eq!(verdicts, expected, "after {} trials", all.len());
        }
        let throughput = goals.map(|goal| goal.throughput(1e6, &trials(&all)).round());
        assert_eq!(throughput[1..3], [1e6, 1e6]);
    }

    #[test]
    fn good_short_trials_outweigh_bad_ones() {
        let goal = target(0.0, 10, 10, 0.5);
        let short = [(1, 0.0), (1, 0.0), (1, 0.2), (1, 0.2)];
        assert_eq!(goal.classify(&trials(&short)), Verdict::Undecided);
        let mut more = short.to_vec();
        more.extend([(1, 0.2); 3]);
        assert_eq!(goal.classify(&trials(&more)), Verdict::Undecided);
        more.push((10, 0.2));
        assert_eq!(goal.classify(&trials(&more)), Verdict::Upper);
    }
}
