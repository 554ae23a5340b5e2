//! How long after an overload frames are still lost (RFC 2544, 26.5).

use std::time::Duration;

use super::record::milliseconds;
use super::statistics::Named;
use super::{Context, throughput};
use crate::trial::{Step, Trial, TrialSpec};

/// Overload, and what follows it, of the throughput.
const OVERLOAD: f64 = 1.1;
const AFTER: f64 = 0.5;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let Some(throughput) = throughput::reference(context)? else {
        return Ok(());
    };
    let throughput = throughput.rate;
    let overload = (throughput * OVERLOAD).min(context.limit.rate);
    if overload < throughput * OVERLOAD {
        let percent = 100.0 * overload / throughput;
        context.note(format!(
            "recovery: the overload is {percent:.1} % of the throughput, as more cannot be sent"
        ));
    }
    let time = context.options.time;
    let mut trials = Vec::new();
    for left in (1..=context.options.trials.max(1)).rev() {
        let step = |rate| Step { rate, time };
        let spec = TrialSpec {
            steps: vec![step(overload), step(throughput * AFTER)],
            ..context.steady("recovery", overload, time)
        };
        let done = context.trial(&spec, time * 2 * left)?;
        if done.trial.counts().lost() == 0 {
            context
                .note("recovery: the overload lost no frame, so there was nothing to recover from");
            continue;
        }
        trials.push(done);
    }
    if !trials.is_empty() {
        let after = |trial: &Trial| {
            let outcomes = trial.streams.iter();
            let last = outcomes.filter_map(|outcome| outcome.last_loss).max()?;
            Some(milliseconds(
                Duration::from_nanos(last).saturating_sub(time),
            ))
        };
        let named = Named::new("recovery time", "", "ms", Some(false));
        let finding = context.measured(&named, &trials, after);
        context.find(finding);
    }
    Ok(())
}
