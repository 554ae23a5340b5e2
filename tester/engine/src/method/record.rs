//! Trials and latencies as reports keep them.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::result::{Latency, StreamRecord, TrialRecord};
use crate::trial::{Trial, TrialSpec};

/// Points of a latency curve for each factor of ten that is left above.
const POINTS: u32 = 10;
/// High percentile of delay variations (RFC 8219, 7.3).
pub(super) const HIGH: f64 = 0.999;

/// A trial as reports keep it; `reason`: see [`TrialRecord::reason`].
pub(super) fn record(
    spec: &TrialSpec,
    trial: &Trial,
    ports: &[String],
    reason: String,
) -> TrialRecord {
    let counts = trial.counts();
    let latency = trial.latency();
    let rate = spec.steps.first().map(|step| step.rate);
    let name = |port: usize| ports.get(port).cloned().unwrap_or_default();
    let streams = spec.traffic.streams.iter().zip(&trial.streams);
    TrialRecord {
        purpose: spec.purpose.into(),
        rate: rate.filter(|rate| rate.is_finite()),
        time: spec.time().as_secs_f64(),
        sent_rate: trial.sent_rate(),
        received_rate: trial.received_rate(),
        sent: counts.sent,
        received: counts.received,
        lost: counts.lost(),
        duplicated: counts.duplicated,
        reordered: counts.reordered,
        extent: (
            counts.extent_sum as f64 / counts.reordered.max(1) as f64,
            counts.extent_max,
        ),
        corrupted: counts.corrupted + trial.unknown_damaged,
        misrouted: counts.misrouted,
        missed: trial.missed,
        valid: reason.is_empty(),
        reason,
        interrupted: trial.interrupted,
        latency: (!latency.is_empty()).then(|| {
            (
                latency.value_at_quantile(0.5),
                latency.value_at_quantile(0.99),
            )
        }),
        lateness: trial.lateness.value_at_quantile(0.99),
        lateness_max: trial.lateness.max(),
        steal: trial.steal,
        streams: streams
            .map(|(stream, outcome)| StreamRecord {
                from: name(stream.from),
                to: name(stream.to),
                sent: outcome.counts.sent,
                received: outcome.counts.received,
                reordered: outcome.counts.reordered,
                duplicated: outcome.counts.duplicated,
                corrupted: outcome.counts.corrupted,
                misrouted: outcome.counts.misrouted,
                extent: outcome.counts.extent_max,
            })
            .collect(),
    }
}

/// A distribution as reports keep it; `None` if nothing was measured.
pub(super) fn latency(
    load: String,
    rate: f64,
    all: &Histogram<u64>,
    variation: &Histogram<u64>,
) -> Option<Latency> {
    if all.is_empty() {
        return None;
    }
    let ipdv = |quantile| variation.value_at_quantile(quantile);
    Some(Latency {
        load,
        rate,
        count: all.len(),
        min: all.min(),
        mean: all.mean(),
        max: all.max(),
        pdv: delay_variation(all),
        ipdv: (!variation.is_empty()).then(|| (ipdv(0.5), ipdv(HIGH), variation.max())),
        quantiles: quantiles(all),
    })
}

/// D99.9 − Dmin, ns (RFC 5481; RFC 8219, 7.3.1).
pub(super) fn delay_variation(all: &Histogram<u64>) -> u64 {
    all.value_at_quantile(HIGH).saturating_sub(all.min())
}

/// Quantiles of a distribution, as far up as there are frames to tell of.
fn quantiles(all: &Histogram<u64>) -> Vec<(f64, u64)> {
    let most = (all.len() as f64).log10().ceil().max(1.0) as u32 * POINTS;
    let curve = (0..=most).map(|n| 1.0 - 10f64.powf(-f64::from(n) / f64::from(POINTS)));
    let mut at: Vec<f64> = curve.chain([0.5, 0.9, 0.99, 0.999, 0.9999, 1.0]).collect();
    at.sort_by(f64::total_cmp);
    at.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    at.into_iter()
        .map(|quantile| (quantile, all.value_at_quantile(quantile)))
        .collect()
}

/// Milliseconds, for findings.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
