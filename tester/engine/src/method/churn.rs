//! Loss and latency while routes change, beside those of an equal trial while they rest.

use std::time::Duration;

use anyhow::Context as _;

use super::context::Done;
use super::latency::{self, QUANTILES};
use super::statistics::Named;
use super::{Context, throughput};
use crate::result::Finding;
use crate::trial::{Action, TrialSpec};

const STATES: [&str; 2] = ["routes at rest", "routes changing"];

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let hook = context.options.hook.clone();
    let hook = hook.context("the plan does not say how routes change")?;
    let Some(rate) = throughput::load(context)? else {
        return Ok(());
    };
    let time = context.options.time;
    let mut trials: [Vec<Done>; 2] = Default::default();
    for left in (1..=context.options.trials.max(1)).rev() {
        for (changing, trials) in trials.iter_mut().enumerate() {
            let action = (changing == 1).then(|| Action {
                after: Duration::ZERO,
                run: hook.clone(),
            });
            let spec = TrialSpec {
                action,
                ..context.steady(STATES[changing], rate, time)
            };
            trials.push(context.trial(&spec, time * 2 * left)?);
        }
    }
    for (state, trials) in STATES.into_iter().zip(&trials) {
        let lost = Named::new("lost", state, "frames", Some(false));
        let lost = context.measured(&lost, trials, |trial| Some(trial.counts().lost() as f64));
        context.find(lost);
        latency::keep(context, state, rate, trials);
    }
    ratios(context);
    Ok(())
}

/// Latency while routes change, of that while they rest.
fn ratios(context: &mut Context<'_>) {
    for (metric, _) in QUANTILES {
        let of = |state: &str| {
            let mut all = context.test.findings.iter();
            all.find(|finding| finding.metric == metric && finding.goal == state)
                .and_then(|finding| finding.value)
        };
        let ratio = of(STATES[1]).zip(of(STATES[0]));
        let ratio = ratio.map(|(changing, rest)| 100.0 * changing / rest);
        context.find(Finding {
            metric: format!("{metric}, changing to rest"),
            unit: "%".into(),
            value: ratio,
            more_is_better: Some(false),
            ..Finding::default()
        });
    }
}
