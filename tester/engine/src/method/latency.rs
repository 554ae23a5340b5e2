//! Latency at certain loads: of the throughput, or given ones (RFC 2544, 26.2; percentiles and
//! delay variation as RFC 8219 has them).
//!
//! RFC 2544 tags one frame of a stream; here every frame is measured. A latency counts from the time when
//! a frame was due, so what the tester itself was late is in it. Where that is more than half of a
//! figure, the figure is the tester's.

use hdrhistogram::Histogram;

use super::context::Done;
use super::record::{HIGH, delay_variation, latency};
use super::statistics::Named;
use super::{Context, percent, throughput};
use crate::trial::{Trial, merged};

/// RFC 8219, 7.2: typical (median) and worst case (99.9 %); and what people ask for in between.
pub(super) const QUANTILES: [(&str, f64); 3] = [
    ("latency, 50 %", 0.5),
    ("latency, 99 %", 0.99),
    ("latency, 99.9 %", 0.999),
];
const MEAN: &str = "latency, mean";
/// Delay variations of RFC 3393, without their signs.
const IPDV: &str = "inter-packet delay variation, 99.9 %";
const LOADS: [f64; 3] = [0.1, 0.5, 0.9];
/// Share of a figure beyond which the figure is the tester's.
const OWN: f64 = 0.5;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for (goal, rate) in loads(context)? {
        let mut trials = Vec::new();
        let count = context.options.trials.max(1);
        for left in (1..=count).rev() {
            let spec = context.steady("latency", rate, context.options.time);
            trials.push(context.trial(&spec, context.options.time * left)?);
        }
        keep(context, &goal, rate, &trials);
        let late = |lateness: &Histogram<u64>| lateness.value_at_quantile(HIGH);
        let pdv = |trial: &Trial| some(&trial.latency(), delay_variation);
        find(context, ("delay variation", &goal), &trials, &pdv, &late);
        let ipdv = |trial: &Trial| some(&trial.variation, late);
        find(context, (IPDV, &goal), &trials, &ipdv, &late);
    }
    Ok(())
}

/// Names of loads, and frames a second of each port.
fn loads(context: &mut Context<'_>) -> anyhow::Result<Vec<(String, f64)>> {
    if !context.options.rates.is_empty() {
        let rates = context.options.rates.iter();
        let named = rates.map(|&rate| (format!("{rate:.0} frames/s a port"), rate));
        let mut named: Vec<_> = named.collect();
        named.retain(|(_, rate)| context.can_send(*rate));
        return Ok(named);
    }
    let mut shares = context.options.loads.clone();
    if shares.is_empty() {
        shares = LOADS.to_vec();
    }
    let Some(throughput) = throughput::reference(context)? else {
        return Ok(Vec::new());
    };
    let name = |share: f64| format!("load {} % of {}", percent(share), throughput.name);
    let loads = shares.into_iter();
    Ok(loads
        .map(|share| (name(share), share * throughput.rate))
        .collect())
}

/// Keeps the curve of valid trials, and a finding for their mean and for each of [`QUANTILES`].
pub(super) fn keep(context: &mut Context<'_>, goal: &str, rate: f64, trials: &[Done]) {
    let valid: Vec<&Done> = trials.iter().filter(|done| done.valid()).collect();
    let repeats: Vec<_> = valid.iter().map(|done| done.trial.latency()).collect();
    let variation = merged(valid.iter().map(|done| &done.trial.variation));
    match latency(goal.into(), rate, &merged(&repeats), &variation) {
        Some(curve) => context.test.latencies.push(curve),
        None if !valid.is_empty() => context.note(format!("{goal}: no frame came")),
        None => {}
    }
    let mean = |all: &Histogram<u64>| all.mean() as u64;
    let value = |trial: &Trial| some(&trial.latency(), mean);
    find(context, (MEAN, goal), trials, &value, &mean);
    for (metric, quantile) in QUANTILES {
        let at = |all: &Histogram<u64>| all.value_at_quantile(quantile);
        let value = |trial: &Trial| some(&trial.latency(), at);
        find(context, (metric, goal), trials, &value, &at);
    }
}

/// A figure of a distribution, if there is one.
fn some(all: &Histogram<u64>, figure: impl Fn(&Histogram<u64>) -> u64) -> Option<u64> {
    (!all.is_empty()).then(|| figure(all))
}

/// Keeps a figure in ns of valid trials as a finding in us; `own` is the tester's part of it by the
/// lateness of its frames.
fn find(
    context: &mut Context<'_>,
    (metric, goal): (&str, &str),
    trials: &[Done],
    value: &dyn Fn(&Trial) -> Option<u64>,
    own: &dyn Fn(&Histogram<u64>) -> u64,
) {
    let named = Named::new(metric, goal, "us", Some(false));
    let us = |ns: u64| ns as f64 / 1e3;
    let mut finding = context.measured(&named, trials, |trial| value(trial).map(us));
    let valid = trials.iter().filter(|done| done.valid());
    let lateness = merged(valid.map(|done| &done.trial.lateness));
    if let (Some(value), Some(own)) = (finding.value, some(&lateness, own).map(us))
        && own > value * OWN
    {
        (finding.value, finding.low, finding.high) = (None, None, Some(value));
        finding.samples.clear();
        finding.valid = false;
        finding.reason = format!("the tester's own frames left late: {own:.1} us of it");
    }
    context.find(finding);
}
