//! Whether the XDP program may act, and which threads that depends on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Report, answer, table, typed};
use crate::process::lease::Sign;
use crate::process::turns::Turns;

pub(super) const REPORT: Report = Report::new(
    "lease",
    "The lease of the XDP program: who forwards, and whether a thread is stuck",
    |router, _| answer(report(router.vitals.signs(), &router.turns)),
    |json, _| {
        let text = typed(json.clone(), text)?;
        Ok(text + &table::of_rows(COLUMNS, &json["threads"]))
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("THREAD", "name"),
    ("SILENT FOR (MS)", "silent_ms"),
    ("STUCK AFTER (MS)", "patience_ms"),
];

/// Whether the program's lease is renewed.
#[derive(Debug, Serialize, Deserialize)]
struct LeaseReport {
    /// All threads go on; otherwise Linux forwards.
    renewed: bool,
    /// What must go on.
    threads: Vec<ThreadReport>,
    /// The longest turn of the control loop since the start: while it lasts, nothing of Linux is followed.
    longest_turn: Option<TurnReport>,
}

/// A turn of the control loop.
#[derive(Debug, Serialize, Deserialize)]
struct TurnReport {
    took_ms: f64,
    seconds_ago: u64,
    /// What took the most time.
    what: String,
}

/// A thread that must go on.
#[derive(Debug, Serialize, Deserialize)]
struct ThreadReport {
    /// Such as `worker 0`.
    name: String,
    /// Since its last sign of life.
    silent_ms: u64,
    /// It is stuck if it is silent for this long.
    patience_ms: u64,
}

fn report(signs: Vec<Sign>, turns: &Turns) -> LeaseReport {
    let milliseconds = |time: Duration| time.as_millis() as u64;
    let threads = signs.into_iter().map(|sign| ThreadReport {
        name: sign.name,
        silent_ms: milliseconds(sign.silent),
        patience_ms: milliseconds(sign.patience),
    });
    let threads: Vec<ThreadReport> = threads.collect();
    LeaseReport {
        renewed: threads.iter().all(|one| one.silent_ms < one.patience_ms),
        threads,
        longest_turn: turns.longest().map(|(turn, ended)| TurnReport {
            took_ms: (turn.took.as_secs_f64() * 1e4).round() / 10.0,
            seconds_ago: ended.elapsed().as_secs(),
            what: turn.text(),
        }),
    }
}

fn text(report: &LeaseReport) -> String {
    let mut text = String::from(match report.renewed {
        true => "renewed: Bora forwards\n",
        false => "not renewed: Linux forwards\n",
    });
    if let Some(turn) = &report.longest_turn {
        let TurnReport {
            took_ms,
            seconds_ago,
            what,
        } = turn;
        text += &format!(
            "longest turn of the control loop: {took_ms} ms, {seconds_ago} s ago ({what})\n"
        );
    }
    text
}
