//! Which plots a report has, and their points.

mod curves;

use super::numbers::{self, quantity, si};
use super::summary::{self, Group, is_counted, offered};
use super::svg::{Axis, Plot, Point, Scale, Series, Style};
use crate::result::{Finding, Latency, Test, TrialRecord};

/// The plots that show a group's results; `number` tells the groups of a report apart.
pub(super) fn of_group(group: &Group<'_>, number: usize) -> Vec<Plot> {
    let mut plots = Vec::new();
    let curves = group.tests.iter().any(|test| loads(test) > 2);
    match group.method {
        "latency" => {}
        "frame-loss" => plots.push(curves::loss(group)),
        _ => plots.extend(findings(group)),
    }
    if curves && matches!(group.method, "saturation" | "mesh" | "overload") {
        plots.push(curves::forwarded(group));
    }
    plots.extend(group.tests.iter().filter_map(|test| latency(test)));
    plots.retain(|plot| !plot.is_empty());
    for (n, plot) in plots.iter_mut().enumerate() {
        plot.id = format!("plot-{number}-{}", n + 1);
    }
    plots
}

/// How many finite loads a test offered.
fn loads(test: &Test) -> usize {
    let mut rates: Vec<u64> = test
        .trials
        .iter()
        .filter_map(|trial| trial.rate)
        .map(f64::to_bits)
        .collect();
    rates.sort_unstable();
    rates.dedup();
    rates.len()
}

/// Every metric against the frame size, a series a goal.
fn findings(group: &Group<'_>) -> Vec<Plot> {
    let mut metrics: Vec<&Finding> = Vec::new();
    for finding in group.tests.iter().flat_map(|test| &test.findings) {
        if !metrics.iter().any(|known| known.metric == finding.metric) {
            metrics.push(finding);
        }
    }
    // without a line rate beside it, one frame size says no more than the table
    let worthwhile = |metric: &&Finding| group.tests.len() > 1 || metric.unit == "frames/s";
    let metrics = metrics.into_iter().filter(worthwhile);
    metrics.map(|metric| against_size(group, metric)).collect()
}

fn against_size(group: &Group<'_>, metric: &Finding) -> Plot {
    let mut goals: Vec<&str> = Vec::new();
    for test in &group.tests {
        for finding in test
            .findings
            .iter()
            .filter(|finding| finding.metric == metric.metric)
        {
            if !goals.contains(&finding.goal.as_str()) {
                goals.push(&finding.goal);
            }
        }
    }
    let mut series: Vec<Series> = goals
        .into_iter()
        .map(|goal| goal_series(group, metric, goal))
        .collect();
    if metric.unit == "frames/s" {
        series.push(line_rates(group));
    }
    series.retain(|series| !series.points.is_empty());
    let unit = match metric.unit.as_str() {
        "frames/s" => "frames/s, all ports",
        "us" => "µs",
        unit => unit,
    };
    let names = group.tests.iter().map(|test| test.frames.clone()).collect();
    Plot {
        id: String::new(),
        title: capital(&format!("{} against frame size", metric.metric)),
        x: Axis::new("frame size, octets", Scale::Names(names)),
        y: Axis::new(unit, Scale::Linear),
        series,
    }
}

fn goal_series(group: &Group<'_>, metric: &Finding, goal: &str) -> Series {
    let points = group.tests.iter().enumerate().flat_map(|(x, test)| {
        let wanted =
            move |finding: &&Finding| finding.metric == metric.metric && finding.goal == goal;
        test.findings
            .iter()
            .filter(wanted)
            .filter_map(move |finding| {
                let cells = summary::cells(test, finding);
                let bounds = Some(cells.bounds).filter(|bounds| !bounds.is_empty());
                let share = Some(cells.share).filter(|share| !share.is_empty());
                let mut tip = format!("{} octets, {}: {}", test.frames, cells.metric, cells.value);
                tip += &bounds.map_or(String::new(), |bounds| format!("\n{bounds}"));
                tip += &share.map_or(String::new(), |share| format!("\n{share} of the line rate"));
                let mut point = Point::new(x as f64, finding.value?, tip);
                point.bounds = finding.low.zip(finding.high);
                Some(point)
            })
    });
    Series {
        name: if goal.is_empty() {
            metric.metric.clone()
        } else {
            goal.into()
        },
        style: Style::Joined,
        points: points.collect(),
    }
}

fn line_rates(group: &Group<'_>) -> Series {
    let points = group.tests.iter().enumerate().filter_map(|(x, test)| {
        let rate = summary::line_rate(test)?;
        let tip = format!("{} octets, line rate: {} frames/s", test.frames, si(rate));
        Some(Point::new(x as f64, rate, tip))
    });
    Series {
        name: "line rate".into(),
        style: Style::Reference,
        points: points.collect(),
    }
}

/// The latency distribution, a line a load.
fn latency(test: &Test) -> Option<Plot> {
    let series = test.latencies.iter().map(|latency| Series {
        name: latency.load.clone(),
        style: Style::Joined,
        points: quantiles(latency).collect(),
    });
    (!test.latencies.is_empty()).then(|| Plot {
        id: String::new(),
        title: format!("Latency, frames of {}", test.frames),
        x: Axis::new("share of frames that were quicker", Scale::Nines),
        y: Axis::new("latency", Scale::LogTime),
        series: series.collect(),
    })
}

/// The maximum is left out: it has no place where every nine takes as much room.
fn quantiles(latency: &Latency) -> impl Iterator<Item = Point> {
    let drawn = latency
        .quantiles
        .iter()
        .filter(|(quantile, ns)| *quantile < 1.0 && *ns > 0);
    drawn.map(|&(quantile, ns)| {
        let share = numbers::digits(quantile * 100.0, 9);
        let tip = format!(
            "{}\n{share} % within {}",
            latency.load,
            numbers::time(ns as f64)
        );
        Point::new(quantile, ns as f64, tip)
    })
}

/// All trials of a test by number and offered load; the longer, the larger.
pub(super) fn trials(test: &Test, id: String) -> Option<Plot> {
    let longest = test
        .trials
        .iter()
        .map(|trial| trial.time)
        .fold(0.0, f64::max);
    let is_lossless = |trial: &TrialRecord| trial.lost == 0;
    let select = |name: &str, wanted: &dyn Fn(&TrialRecord) -> bool| Series {
        name: name.into(),
        style: Style::Marks,
        points: test
            .trials
            .iter()
            .enumerate()
            .filter(|(_, trial)| wanted(trial))
            .map(|(n, trial)| trial_point(test, n, trial, longest))
            .collect(),
    };
    let series = vec![
        select("no frame lost", &|trial| {
            is_counted(trial) && is_lossless(trial)
        }),
        select("frames lost", &|trial| {
            is_counted(trial) && !is_lossless(trial)
        }),
        select("not valid, by the tester", &|trial| !is_counted(trial)),
    ];
    (test.trials.len() > 1).then(|| Plot {
        id,
        title: format!("Trials, frames of {}", test.frames),
        x: Axis::new(
            "number of the trial (large marks: long trials)",
            Scale::Counts,
        ),
        y: Axis::new("offered (frames/s, all ports)", Scale::Fitted),
        series,
    })
}

fn trial_point(test: &Test, n: usize, trial: &TrialRecord, longest: f64) -> Point {
    let rate = offered(test, trial);
    let tip = format!(
        "trial {}, {}: {} for {}\nloss {} ({} of {} frames)",
        n + 1,
        trial.purpose,
        quantity(rate, "frames/s"),
        quantity(trial.time, "s"),
        numbers::loss(trial.lost, trial.sent),
        numbers::grouped(trial.lost),
        numbers::grouped(trial.sent)
    );
    let mut point = Point::new((n + 1) as f64, rate, tip);
    point.size = if longest > 0.0 {
        trial.time / longest
    } else {
        1.0
    };
    point
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
