//! How long no frame comes through when something is done to the router: a reset (RFC 2544, 26.6;
//! RFC 6201), a restart of its software.

use std::time::Duration;

use anyhow::Context as _;

use super::record::milliseconds;
use super::statistics::Named;
use super::{Context, throughput};
use crate::trial::{Action, Trial, TrialSpec};

/// When in the trial it is done.
const AFTER: f64 = 0.25;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let hook = context.options.hook.clone();
    let hook = hook.context("the plan does not say how to restart or reset the router")?;
    let Some(rate) = throughput::load(context)? else {
        return Ok(());
    };
    let time = context.options.time;
    let mut trials = Vec::new();
    for left in (1..=context.options.trials.max(1)).rev() {
        let spec = TrialSpec {
            action: Some(Action {
                after: time.mul_f64(AFTER),
                run: hook.clone(),
            }),
            ..context.steady("outage", rate, time)
        };
        let done = context.trial(&spec, time * left)?;
        if done.trial.streams.iter().any(|outcome| outcome.tail_lost) {
            context.note(format!(
                "outage: at least {:.0} ms; frames did not come through again before the trial's end: \
                 give it more time",
                gap(&done.trial)
            ));
            return Ok(());
        }
        trials.push(done);
    }
    let silence = |trial: &Trial| trial.counts().loss_ratio() * milliseconds(trial.elapsed);
    let lost = |trial: &Trial| trial.counts().lost() as f64;
    type Value<'a> = &'a dyn Fn(&Trial) -> f64;
    let findings: [(_, _, _, Value<'_>); 3] = [
        ("outage", "longest gap", "ms", &gap),
        ("outage", "frames lost", "ms", &silence),
        ("lost", "all ports", "frames", &lost),
    ];
    for (metric, goal, unit, value) in findings {
        let named = Named::new(metric, goal, unit, Some(false));
        let finding = context.measured(&named, &trials, |trial| Some(value(trial)));
        context.find(finding);
    }
    Ok(())
}

/// The longest gap of all streams, ms.
fn gap(trial: &Trial) -> f64 {
    let gaps = trial.streams.iter().map(|outcome| outcome.longest_gap);
    milliseconds(Duration::from_nanos(gaps.max().unwrap_or(0)))
}
