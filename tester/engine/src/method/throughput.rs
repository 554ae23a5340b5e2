//! The highest load with no more than a certain loss (RFC 2544, 26.1), searched as RFC 9971 has it
//! or by halving.

use std::time::Duration;

use super::context::TESTER_LIMIT;
use super::{Context, Search};
use crate::result::Finding;
use crate::search::mlr::Budget;
use crate::search::{Bounds, Found, Request, Sample, binary, mlr};

/// The least load that is tried: of the highest one.
const LEAST: f64 = 1e-4;
/// Enough for several goals; more only a router needs that never does the same twice.
const MOST_TRIALS: u32 = 500;
/// Longest sum of trials, in those that decide a load.
const MOST_TIME: u32 = 50;
/// Load where a method needs one and none is given: of the throughput.
const LOAD: f64 = 0.5;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let first = context.test.trials.len();
    for (loss, found) in search(context)? {
        let mut finding = finding(context, loss, &found);
        let trials = context.test.trials.iter().enumerate().skip(first);
        let at_lower = trials.filter(|(_, trial)| trial.valid && trial.rate == found.lower);
        finding.trials = at_lower.map(|(place, _)| place).collect();
        context.find(finding);
    }
    Ok(())
}

/// What was found for each loss that is tolerated, in the options' order.
pub(super) fn search(context: &mut Context<'_>) -> anyhow::Result<Vec<(f64, Found)>> {
    let options = context.options.clone();
    let bounds = Bounds {
        // at least a frame in the shortest trial (RFC 9971, 4.6.8.2)
        least: (context.limit.rate * LEAST).max(1.0 / options.initial_time.as_secs_f64()),
        most: context.limit.rate,
    };
    let mut measure = |request: Request| sample(context, request);
    let found = match options.search {
        Search::Mlr => {
            let goal = |&loss_ratio| mlr::Goal {
                loss_ratio,
                exceed_ratio: options.exceed,
                initial_time: options.initial_time.min(options.time),
                final_time: options.time,
                sum_time: options.sum_time.max(options.time),
                width: options.width,
            };
            let goals: Vec<mlr::Goal> = options.losses.iter().map(goal).collect();
            let budget = Budget {
                trials: MOST_TRIALS,
                time: options.sum_time.max(options.time) * MOST_TIME * goals.len().max(1) as u32
                    + Duration::from_secs(60),
            };
            mlr::search(&goals, bounds, budget, &mut measure)?
        }
        Search::Binary => {
            let mut all = Vec::new();
            for &loss_ratio in &options.losses {
                let goal = binary::Goal {
                    loss_ratio,
                    time: options.time,
                    width: options.width,
                };
                all.push(binary::search(&goal, bounds, &mut measure)?);
            }
            all
        }
    };
    Ok(options.losses.iter().copied().zip(found).collect())
}

fn sample(context: &mut Context<'_>, request: Request) -> anyhow::Result<Sample> {
    let spec = context.steady("search", request.load, request.time);
    let done = context.trial(&spec, request.remaining)?;
    Ok(Sample {
        loss_ratio: done.trial.counts().loss_ratio(),
        beyond_tester: !done.valid(),
    })
}

/// Frames a second of all ports, unless it is the tester that cannot do more.
fn finding(context: &mut Context<'_>, loss: f64, found: &Found) -> Finding {
    let goal = goal(loss);
    let all = context.senders();
    let mut value = found.throughput.filter(|_| found.complete);
    let mut upper = found.upper;
    let at_limit = found.lower.is_some() && upper.is_none() && context.limit.by_tester;
    let limited = at_limit || found.tester_bound;
    if limited {
        // what is above is what the tester could not send
        (value, upper) = (None, None);
        context.note(match found.lower {
            Some(lower) => format!(
                "throughput, {goal}: at least {:.0} frames/s; {TESTER_LIMIT}",
                lower * all
            ),
            None => format!("throughput, {goal}: the tester could not keep up any load"),
        });
    } else if found.lower.is_none() {
        context.note(format!(
            "throughput, {goal}: not even the least load that was tried came through"
        ));
    } else if found.upper.is_none() {
        let whole = context.whole();
        context.note(format!(
            "throughput, {goal}: {whole} came through, so the router may do more (RFC 9971: irregular)"
        ));
    } else if value.is_none() {
        context.note(format!(
            "throughput, {goal}: the search was given up, because equal trials had too different results"
        ));
    }
    // bounds are of what is offered; of that, as much is forwarded
    let forwarded = found.throughput.zip(found.lower);
    let part = forwarded.map_or(1.0, |(throughput, lower)| throughput / lower);
    Finding {
        metric: "throughput".into(),
        goal,
        unit: "frames/s".into(),
        value: value.map(|rate| rate * all),
        low: found.lower.map(|rate| rate * part * all),
        high: upper.map(|rate| rate * part * all),
        more_is_better: Some(true),
        valid: !limited,
        reason: if limited {
            TESTER_LIMIT.into()
        } else {
            String::new()
        },
        ..Finding::default()
    }
}

/// `loss 0 %`.
fn goal(loss: f64) -> String {
    format!("loss {} %", crate::method::percent(loss))
}

/// A load that other methods refer to.
pub(super) struct Reference {
    /// Frames a second of each sending port.
    pub(super) rate: f64,
    /// `throughput`, or what it is if the router's is not known.
    pub(super) name: &'static str,
}

/// The throughput of the first goal; `None` if no load came through.
pub(super) fn reference(context: &mut Context<'_>) -> anyhow::Result<Option<Reference>> {
    context.options.losses.truncate(1);
    let found = search(context)?;
    let found = found.first().map(|(_, found)| *found).unwrap_or_default();
    let Some(rate) = found.lower else {
        context.note("no load came through, so there is no throughput to refer to");
        return Ok(None);
    };
    let tester = found.tester_bound || found.upper.is_none() && context.limit.by_tester;
    let name = match (tester, found.complete) {
        (true, _) => "the tester's own limit",
        (false, true) => "throughput",
        (false, false) => "a load that came through",
    };
    Ok(Some(Reference { rate, name }))
}

/// The load that is given, or half the throughput, frames a second of each sending port; `None`, and
/// a note, if there is none that can be sent.
pub(super) fn load(context: &mut Context<'_>) -> anyhow::Result<Option<f64>> {
    let rate = match context.options.rate {
        Some(rate) => Some(rate),
        None => reference(context)?.map(|throughput| throughput.rate * LOAD),
    };
    Ok(rate.filter(|&rate| context.can_send(rate)))
}
