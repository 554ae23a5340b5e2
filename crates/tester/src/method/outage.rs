//! How long no frame comes through when something is done to the router: a reset (RFC 2544, 26.6;
//! RFC 6201), a restart of its software.

use std::time::Duration;

use anyhow::Context as _;

use super::record::milliseconds;
use super::statistics::mean;
use super::{Context, throughput};
use crate::trial::{Action, TrialSpec};

/// When in the trial it is done.
const AFTER: f64 = 0.25;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let hook = context.options.hook.clone();
    let hook = hook.context("the plan does not say how to restart or reset the router")?;
    let Some(rate) = throughput::load(context)? else {
        return Ok(());
    };
    let time = context.options.time;
    let (mut gaps, mut losses, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for left in (1..=context.options.trials.max(1)).rev() {
        let spec = TrialSpec {
            action: Some(Action {
                after: time.mul_f64(AFTER),
                run: hook.clone(),
            }),
            ..context.steady("outage", rate, time)
        };
        let done = context.trial(&spec, time * left)?;
        context.note_weakness("outage", &done);
        let outcomes = done.trial.streams.iter();
        let gap = outcomes
            .map(|outcome| outcome.longest_gap)
            .max()
            .unwrap_or(0);
        gaps.push(milliseconds(Duration::from_nanos(gap)));
        if done.trial.streams.iter().any(|outcome| outcome.tail_lost) {
            context.note(format!(
                "outage: at least {:.0} ms; frames did not come through again before the trial's end: \
                 give it more time",
                gaps.last().copied().unwrap_or_default()
            ));
            return Ok(());
        }
        let counts = done.trial.counts();
        lost.push(counts.lost() as f64);
        let seconds = counts.loss_ratio() * done.trial.elapsed.as_secs_f64();
        losses.push(seconds * 1e3);
    }
    for (metric, goal, unit, samples) in [
        ("outage", "longest gap", "ms", gaps),
        ("outage", "frames lost", "ms", losses),
        ("lost", "all ports", "frames", lost),
    ] {
        context.find(mean(metric, goal, unit, samples, Some(false)));
    }
    Ok(())
}
