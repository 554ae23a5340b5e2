//! MLRsearch, the multiple loss ratio search (RFC 9971): short trials find out about where to look,
//! long ones are done only there, and several goals share them.
//!
//! The RFC leaves the order of trials to the implementation. Here each goal goes through phases: in
//! each the trials are longer and the bounds come closer, down to what the goal asks for. A phase
//! begins at the bounds of the one before, so that mostly two loads are tried again; what does not
//! hold with longer trials is searched outwards in growing steps.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;

use super::classify::{Done, Target, Verdict};
use super::{Bounds, Found, Measure, Request};

/// What is searched for (RFC 9971, section 4.6: search goal).
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Loss that is tolerated in a trial, 0 to 1.
    pub loss_ratio: f64,
    /// Part of the time in which more may be lost, 0 to 1 (without 1).
    pub exceed_ratio: f64,
    /// Length of the first trials; at most `final_time`.
    pub initial_time: Duration,
    /// Length of the trials that decide.
    pub final_time: Duration,
    /// Sum of trial lengths that decides a load; at least `final_time`.
    pub sum_time: Duration,
    /// How close the bounds must come, relative to the upper one.
    pub width: f64,
}

/// What stops a search that finds no end.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Most trials.
    pub trials: u32,
    /// Longest sum of trial lengths.
    pub time: Duration,
}

/// Phases before the last one; each has bounds twice as far apart as the next.
const PHASES: i32 = 2;
/// Loads that differ by less are one load: frames a second.
const GRAIN: f64 = 1e-3;

/// Searches for all goals; returns what was found in their order.
///
/// # Errors
/// Bounds that make no sense, or what `measure` says.
pub fn search(
    goals: &[Goal],
    bounds: Bounds,
    budget: Budget,
    measure: &mut Measure<'_>,
) -> anyhow::Result<Vec<Found>> {
    bounds.check()?;
    goals.iter().try_for_each(Goal::check)?;
    let mut search = Search {
        bounds,
        budget,
        trials: BTreeMap::new(),
        left: Duration::ZERO,
        measure,
    };
    search.left = goals.iter().map(about).sum();
    for goal in goals {
        search.reach(goal, PHASES)?;
    }
    // trials for later goals may have changed what is known of earlier ones
    for goal in goals {
        search.reach(goal, 0)?;
    }
    Ok(goals.iter().map(|goal| search.found(goal)).collect())
}

impl Goal {
    fn check(&self) -> anyhow::Result<()> {
        let share = |value: f64| (0.0..1.0).contains(&value);
        ensure!(
            share(self.loss_ratio) && share(self.exceed_ratio),
            "loss and exceed ratio are shares below 1, not {} and {}",
            self.loss_ratio,
            self.exceed_ratio
        );
        ensure!(
            self.width > 0.0 && self.width < 1.0,
            "the width of a search is a share between 0 and 1, not {}",
            self.width
        );
        ensure!(
            !self.initial_time.is_zero() && self.initial_time <= self.final_time,
            "trials begin with {:?} and end with {:?}; they cannot become shorter",
            self.initial_time,
            self.final_time
        );
        Ok(())
    }
}

/// About how long the search for a goal takes.
fn about(goal: &Goal) -> Duration {
    goal.initial_time * 8 + goal.final_time * 4 + goal.sum_time * 2
}

/// A goal as one phase has it.
struct Phase {
    target: Target,
    width: f64,
}

impl Goal {
    /// 0 is the last phase.
    fn phase(&self, left: i32) -> Phase {
        let ratio = self.final_time.as_secs_f64() / self.initial_time.as_secs_f64().max(1e-9);
        let part = f64::from(PHASES - left) / f64::from(PHASES);
        let time = self.initial_time.mul_f64(ratio.max(1.0).powf(part));
        let time = if left == 0 { self.final_time } else { time };
        let target = Target {
            loss_ratio: self.loss_ratio,
            trial_time: time,
            // only the last phase repeats trials
            sum_time: match left {
                0 => self.sum_time.max(time),
                _ => time,
            },
            exceed_ratio: self.exceed_ratio,
        };
        Phase {
            target,
            width: self.width * 2f64.powi(left),
        }
    }
}

/// The highest lower bound below the lowest upper bound, and that one.
type Relevant = (Option<f64>, Option<f64>);

struct Search<'a, 'b> {
    bounds: Bounds,
    budget: Budget,
    /// All trials by load, in units of [`GRAIN`].
    trials: BTreeMap<u64, Vec<Done>>,
    /// About how long the search goes on.
    left: Duration,
    measure: &'a mut Measure<'b>,
}

fn key(load: f64) -> u64 {
    (load / GRAIN).round() as u64
}

fn load(key: u64) -> f64 {
    key as f64 * GRAIN
}

impl Search<'_, '_> {
    /// Brings the bounds of a goal as close as it wants, in `phases` phases before the last one.
    fn reach(&mut self, goal: &Goal, phases: i32) -> anyhow::Result<()> {
        let mut hint = None;
        for left in (0..=phases).rev() {
            let phase = goal.phase(left);
            if !self.narrow(&phase, hint)? {
                break;
            }
            hint = Some(self.relevant(&phase.target));
        }
        Ok(())
    }

    /// Tries loads until the bounds are as close as the phase wants; whether they are, or nothing
    /// is left to try.
    fn narrow(&mut self, phase: &Phase, hint: Option<Relevant>) -> anyhow::Result<bool> {
        // what is tried beside the hints grows with every failure
        let mut stride = 1.0;
        while let Some(load) = self.next(phase, hint, stride) {
            if self.verdict(load, &phase.target) != Verdict::Undecided {
                // the loads in between are closer than can be told apart
                break;
            }
            match self.decide(load, &phase.target)? {
                Some(_) => stride *= 2.0,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Repeats trials at a load until they decide; `None`: the budget is used up.
    fn decide(&mut self, load: f64, target: &Target) -> anyhow::Result<Option<Verdict>> {
        loop {
            let verdict = self.verdict(load, target);
            if verdict != Verdict::Undecided {
                return Ok(Some(verdict));
            }
            let time = target.trial_time;
            if self.budget.trials == 0 || self.budget.time < time {
                return Ok(None);
            }
            self.budget.trials -= 1;
            self.budget.time -= time;
            let remaining = self.left.max(time);
            self.left = self.left.saturating_sub(time);
            let sample = (self.measure)(Request {
                load,
                time,
                remaining,
            })?;
            self.trials.entry(key(load)).or_default().push(Done {
                time,
                loss_ratio: sample.loss_ratio,
                beyond_tester: sample.beyond_tester,
            });
        }
    }

    fn verdict(&self, load: f64, target: &Target) -> Verdict {
        target.classify(self.at(load))
    }

    /// All trials at a load.
    fn at(&self, load: f64) -> &[Done] {
        self.trials.get(&key(load)).map_or(&[], Vec::as_slice)
    }

    fn relevant(&self, target: &Target) -> Relevant {
        let is = |wanted| move |trials: &Vec<Done>| target.classify(trials) == wanted;
        let upper = self.trials.iter();
        let upper = upper.filter(|(_, trials)| is(Verdict::Upper)(trials));
        let upper = upper.map(|(&key, _)| key).next();
        let lower = self.trials.range(..upper.unwrap_or(u64::MAX)).rev();
        let lower = lower.filter(|(_, trials)| is(Verdict::Lower)(trials));
        let lower = lower.map(|(&key, _)| key).next();
        (lower.map(load), upper.map(load))
    }

    /// The load to try next, if any.
    fn next(&self, phase: &Phase, hint: Option<Relevant>, stride: f64) -> Option<f64> {
        let (lower, upper) = self.relevant(&phase.target);
        let (low_hint, high_hint) = hint.unwrap_or_default();
        let Bounds { least, most } = self.bounds;
        let step = phase.width * stride;
        let next = match (lower, upper) {
            (Some(lower), Some(upper)) => {
                if upper - lower <= phase.width * upper + GRAIN {
                    return None;
                }
                // halves the logarithm: equal parts of the load on either side
                (lower * upper).sqrt()
            }
            (None, None) => low_hint.or(high_hint).unwrap_or(most),
            (Some(lower), None) if lower >= most - GRAIN => return None,
            (Some(lower), None) => match high_hint.filter(|&hint| hint > lower) {
                Some(hint) => hint,
                None => (lower * (1.0 + step)).min(most),
            },
            (None, Some(upper)) if upper <= least + GRAIN => return None,
            (None, Some(upper)) => match low_hint.filter(|&hint| hint < upper) {
                Some(hint) => hint,
                None => self.below(upper, step).max(least),
            },
        };
        Some(load(key(next.clamp(least, most))))
    }

    /// A load below an upper bound: about what was forwarded there, if that is further down.
    fn below(&self, upper: f64, step: f64) -> f64 {
        let usable = self.at(upper).iter().filter(|trial| !trial.beyond_tester);
        let best = usable.map(|trial| trial.loss_ratio).reduce(f64::min);
        let forwarded = upper * (1.0 - best.unwrap_or(0.0));
        forwarded
            .min(upper * (1.0 - step.min(0.5)))
            .max(upper / 16.0)
    }

    fn found(&self, goal: &Goal) -> Found {
        let last = goal.phase(0);
        let (lower, upper) = self.relevant(&last.target);
        let close = match (lower, upper) {
            (Some(lower), Some(upper)) => upper - lower <= last.width * upper + GRAIN,
            (Some(lower), None) => lower >= self.bounds.most - GRAIN,
            _ => false,
        };
        Found {
            lower,
            upper,
            throughput: lower.map(|load| last.target.throughput(load, self.at(load))),
            tester_bound: upper
                .is_some_and(|load| self.at(load).iter().any(|trial| trial.beyond_tester)),
            complete: close,
        }
    }
}

#[cfg(test)]
mod tests;
