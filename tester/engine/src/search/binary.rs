//! Halving (RFC 2544, 26.1, as RFC 9971 section 2.1 describes what testers make of it).

use std::time::Duration;

use super::{Bounds, Found, Measure, Request};

/// What a binary search looks for.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Loss that is tolerated, 0 to 1.
    pub loss_ratio: f64,
    /// Length of every trial.
    pub time: Duration,
    /// How close the bounds must come, relative to the upper one.
    pub width: f64,
}

/// More halvings than a search of any width takes.
const MOST_TRIALS: u32 = 64;

/// Searches; the highest load is tried first.
///
/// # Errors
/// Bounds that make no sense, or what `measure` says.
pub fn search(goal: &Goal, bounds: Bounds, measure: &mut Measure<'_>) -> anyhow::Result<Found> {
    bounds.check()?;
    let mut found = Found::default();
    let mut load = bounds.most;
    for _ in 0..MOST_TRIALS {
        let sample = measure(Request {
            load,
            time: goal.time,
            remaining: goal.time * trials_left(goal, bounds, &found),
        })?;
        if sample.loss_ratio <= goal.loss_ratio && !sample.beyond_tester {
            found.lower = Some(load);
            found.throughput = Some(load * (1.0 - sample.loss_ratio));
        } else {
            found.upper = Some(load);
            found.tester_bound = sample.beyond_tester;
        }
        load = match (found.lower, found.upper) {
            (Some(lower), Some(upper)) if upper - lower > goal.width * upper => {
                (lower + upper) / 2.0
            }
            // a dead router needs no halving
            (None, Some(upper)) if upper > bounds.least && sample.loss_ratio >= 1.0 => bounds.least,
            (None, Some(upper)) if upper > bounds.least => {
                // the least load itself once nothing else is left
                let half = (bounds.least + upper) / 2.0;
                match upper - half > goal.width * upper {
                    true => half,
                    false => bounds.least,
                }
            }
            _ => {
                found.complete = found.lower.is_some();
                break;
            }
        };
    }
    Ok(found)
}

fn trials_left(goal: &Goal, bounds: Bounds, found: &Found) -> u32 {
    let upper = found.upper.unwrap_or(bounds.most);
    let lower = found.lower.unwrap_or(bounds.least);
    let halvings = ((upper - lower) / (goal.width * upper).max(f64::MIN_POSITIVE)).log2();
    halvings.clamp(0.0, f64::from(MOST_TRIALS)).ceil() as u32 + 1
}
