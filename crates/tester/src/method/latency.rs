//! Latency at certain loads: of the throughput, or given ones (RFC 2544, 26.2; percentiles and
//! delay variation as RFC 8219 has them).
//!
//! RFC 2544 tags one frame of a stream; here every frame is measured.

use hdrhistogram::Histogram;

use super::record::{delay_variation, latency};
use super::statistics::mean;
use super::{Context, percent, throughput};
use crate::trial::merged;

/// RFC 8219, 7.2: typical (median) and worst case (99.9 %); and what people ask for in between.
pub(super) const QUANTILES: [(&str, f64); 3] = [
    ("latency, 50 %", 0.5),
    ("latency, 99 %", 0.99),
    ("latency, 99.9 %", 0.999),
];
const LOADS: [f64; 3] = [0.1, 0.5, 0.9];

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for (goal, rate) in loads(context)? {
        let mut repeats = Vec::new();
        let count = context.options.trials.max(1);
        for left in (1..=count).rev() {
            let spec = context.steady("latency", rate, context.options.time);
            let done = context.trial(&spec, context.options.time * left)?;
            context.note_weakness(&goal, &done);
            repeats.push(done.trial.latency());
        }
        keep(context, &goal, rate, &repeats);
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

fn keep(context: &mut Context<'_>, goal: &str, rate: f64, repeats: &[Histogram<u64>]) {
    let Some(curve) = latency(goal.into(), rate, &merged(repeats)) else {
        context.note(format!("{goal}: no frame came"));
        return;
    };
    context.test.latencies.push(curve);
    find_quantiles(context, goal, repeats);
    let samples = microseconds(repeats, delay_variation);
    let variation = mean("delay variation", goal, "us", samples, Some(false));
    context.find(variation);
}

/// Keeps a finding for each of [`QUANTILES`].
pub(super) fn find_quantiles(context: &mut Context<'_>, goal: &str, repeats: &[Histogram<u64>]) {
    for (metric, quantile) in QUANTILES {
        let samples = microseconds(repeats, |repeat| repeat.value_at_quantile(quantile));
        context.find(mean(metric, goal, "us", samples, Some(false)));
    }
}

/// A value of each repeat in which frames came.
fn microseconds(
    repeats: &[Histogram<u64>],
    nanoseconds: impl Fn(&Histogram<u64>) -> u64,
) -> Vec<f64> {
    let there = repeats.iter().filter(|repeat| !repeat.is_empty());
    there
        .map(|repeat| nanoseconds(repeat) as f64 / 1e3)
        .collect()
}
