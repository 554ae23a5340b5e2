//! Every trial of a test as a table.

use super::{Cell, escape, table as rows_in_table};
use crate::report::{numbers, summary};
use crate::result::{Test, TrialRecord};

const HEAD: [&str; 15] = [
    "trial",
    "purpose",
    "offered, frames/s",
    "time",
    "sent",
    "received",
    "lost",
    "loss",
    "duplicated",
    "reordered",
    "extent, mean / most",
    "damaged, misrouted",
    "latency, median / 99 %",
    "sent late by, 99 % / most",
    "CPU steal",
];

/// The trials and what each stream had of them, folded.
pub(super) fn table(test: &Test) -> String {
    let rows: Vec<_> = test
        .trials
        .iter()
        .enumerate()
        .map(|(n, trial)| row(test, n, trial))
        .collect();
    let streams = streams(test);
    format!(
        "<details><summary>frames of {} ({})</summary>\n{}{streams}</details>\n",
        escape(&test.frames),
        test.trials.len(),
        rows_in_table("trials", &HEAD, &rows)
    )
}

fn row(test: &Test, n: usize, trial: &TrialRecord) -> (&'static str, Vec<Cell>) {
    let number = Cell::number;
    let count = |value: u64| number(numbers::grouped(value));
    let latency = trial.latency.map_or(String::new(), |(median, high)| {
        format!(
            "{} / {}",
            numbers::time(median as f64),
            numbers::time(high as f64)
        )
    });
    let mut purpose = trial.purpose.clone();
    if let Some(reason) = summary::invalid(trial) {
        purpose += &format!(" ({reason})");
    }
    let loss = if trial.lost > 0 {
        " class=\"loss\""
    } else {
        ""
    };
    let cells = vec![
        number((n + 1).to_string()),
        Cell::text(&purpose),
        number(numbers::si(summary::offered(test, trial))),
        number(numbers::time(trial.time * 1e9)),
        count(trial.sent),
        count(trial.received),
        count(trial.lost),
        Cell {
            attributes: loss.into(),
            html: numbers::loss(trial.lost, trial.sent),
        },
        count(trial.duplicated),
        count(trial.reordered),
        number(match trial.reordered {
            0 => String::new(),
            _ => format!(
                "{} / {}",
                numbers::digits(trial.extent.0, 3),
                trial.extent.1
            ),
        }),
        count(trial.corrupted + trial.misrouted),
        number(latency),
        number(format!(
            "{} / {}",
            numbers::time(trial.lateness as f64),
            numbers::time(trial.lateness_max as f64)
        )),
        number(trial.steal.map_or(String::new(), |steal| {
            numbers::digits(steal * 100.0, 2) + " %"
        })),
    ];
    ("", cells)
}

/// The streams of all trials, where there are several.
fn streams(test: &Test) -> String {
    let trials = test.trials.iter().enumerate();
    let several = trials.filter(|(_, trial)| trial.streams.len() > 1);
    let rows: Vec<_> = several
        .flat_map(|(n, trial)| trial.streams.iter().map(move |stream| (n, stream)))
        .map(|(n, stream)| {
            let count = |value: u64| Cell::number(numbers::grouped(value));
            let cells = vec![
                Cell::number((n + 1).to_string()),
                Cell::text(&format!("{} → {}", stream.from, stream.to)),
                count(stream.sent),
                count(stream.received),
                count(stream.sent.saturating_sub(stream.received)),
                count(stream.duplicated),
                count(stream.reordered),
                count(stream.extent),
                count(stream.corrupted + stream.misrouted),
            ];
            ("", cells)
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "trial",
        "stream",
        "sent",
        "received",
        "lost",
        "duplicated",
        "reordered",
        "extent, most",
        "damaged, misrouted",
    ];
    let table = rows_in_table("trials", &head, &rows);
    format!("<details><summary>Each stream of each trial</summary>\n{table}</details>\n")
}
