//! What happened to frames, beside the findings of two reports.

use super::{Difference, difference};
use crate::report::summary::is_counted;
use crate::result::{Finding, Test, TrialRecord};

/// A kind of fault and how many frames of a trial had it.
type Kind = (&'static str, fn(&TrialRecord) -> u64);

const KINDS: [Kind; 4] = [
    ("frames duplicated", |trial| trial.duplicated),
    ("frames reordered", |trial| trial.reordered),
    ("frames corrupted", |trial| trial.corrupted),
    ("frames misrouted", |trial| trial.misrouted),
];
/// Where a load is not chosen for its loss.
const LOST: Kind = ("frames lost", |trial| trial.lost);

/// Adds a difference for each kind of fault that the trials of two findings had; once for all findings of
/// the same trials.
pub(super) fn compare(a: (&Test, &Finding), b: (&Test, &Finding), all: &mut Vec<Difference>) {
    let mut same = a.0.findings.iter().filter(|it| it.trials == a.1.trials);
    if !same.next().is_some_and(|first| std::ptr::eq(first, a.1)) {
        return;
    }
    let lost = (a.0.method == "latency").then_some(LOST);
    for kind in lost.into_iter().chain(KINDS) {
        let (Some(one), Some(two)) = (share(a, kind), share(b, kind)) else {
            continue;
        };
        if one.value != Some(0.0) || two.value != Some(0.0) {
            all.push(difference((a.0, &one), (b.0, &two)));
        }
    }
}

/// The share of frames with a fault as a finding: a sample for each trial, and the 95 % bounds of the count
/// if faults come independently (F. J. Anscombe, Biometrika 35, 1948: its root varies by 1/2).
fn share((test, finding): (&Test, &Finding), (metric, count): Kind) -> Option<Finding> {
    const HALF_WIDTH: f64 = 1.96 / 2.0;
    let trials: Option<Vec<&TrialRecord>> = finding
        .trials
        .iter()
        .map(|&place| test.trials.get(place).filter(|trial| is_counted(trial)))
        .collect();
    let trials = trials.filter(|trials| !trials.is_empty())?;
    let sent: u64 = trials.iter().map(|trial| trial.sent).sum();
    let faults = trials.iter().map(|trial| count(trial)).sum::<u64>() as f64;
    let per_cent = |count: f64, sent: u64| count / sent.max(1) as f64 * 100.0;
    let bound = |root: f64| Some(per_cent(root.max(0.0).powi(2), sent));
    Some(Finding {
        metric: metric.into(),
        goal: finding.goal.clone(),
        unit: "%".into(),
        value: Some(per_cent(faults, sent)),
        low: bound(faults.sqrt() - HALF_WIDTH),
        high: bound(faults.sqrt() + HALF_WIDTH),
        samples: trials
            .iter()
            .map(|trial| per_cent(count(trial) as f64, trial.sent))
            .collect(),
        more_is_better: Some(false),
        ..Finding::default()
    })
}
