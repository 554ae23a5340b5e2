//! Loss and latency while routes change, beside those of an equal trial while they rest.

use std::time::Duration;

use anyhow::Context as _;

use super::record::latency;
use super::statistics::mean;
use super::{Context, throughput};
use crate::result::Finding;
use crate::trial::{Action, Trial, TrialSpec};

/// Load where none is given: of the throughput.
const LOAD: f64 = 0.5;
const QUANTILES: [(&str, f64); 3] = [
    ("latency, 50 %", 0.5),
    ("latency, 99 %", 0.99),
    ("latency, 99.9 %", 0.999),
];
const STATES: [&str; 2] = ["routes at rest", "routes changing"];

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let hook = context.options.hook.clone();
    let hook = hook.context("the plan does not say how routes change")?;
    let rate = match context.options.rate {
        Some(rate) => rate,
        None => match throughput::reference(context)? {
            Some(throughput) => throughput.rate * LOAD,
            None => return Ok(()),
        },
    };
    if !context.can_send(rate) {
        return Ok(());
    }
    let time = context.options.time;
    let mut trials: [Vec<Trial>; 2] = Default::default();
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
            let done = context.trial(&spec, time * 2 * left)?;
            if !done.valid {
                context.note("churn: the tester could not keep the load up");
            }
            trials.push(done.trial);
        }
    }
    for (state, trials) in STATES.into_iter().zip(&trials) {
        keep(context, state, rate, trials);
    }
    ratios(context);
    Ok(())
}

fn keep(context: &mut Context<'_>, state: &str, rate: f64, trials: &[Trial]) {
    let lost = trials.iter().map(|trial| trial.counts().lost() as f64);
    let mut finding = mean("lost", state, "frames", lost.collect());
    finding.more_is_better = Some(false);
    context.find(finding);
    let mut all = crate::trial::new_histogram();
    for trial in trials {
        // both have the same bounds
        let _ = all.add(trial.latency());
    }
    context
        .test
        .latencies
        .extend(latency(state.into(), rate, &all));
    for (metric, quantile) in QUANTILES {
        let there = trials
            .iter()
            .map(Trial::latency)
            .filter(|all| !all.is_empty());
        let samples = there.map(|all| all.value_at_quantile(quantile) as f64 / 1e3);
        let mut finding = mean(metric, state, "us", samples.collect());
        finding.more_is_better = Some(false);
        context.find(finding);
    }
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
