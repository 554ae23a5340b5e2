//! Whether the XDP program may act, and which threads that depends on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Report, answer, table, typed};
use crate::lease::Sign;

pub(super) const REPORT: Report = Report::new(
    "lease",
    "The lease of the XDP program: who forwards, and whether a thread is stuck",
    |router, _| answer(report(router.vitals.signs())),
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

fn report(signs: Vec<Sign>) -> LeaseReport {
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
    }
}

fn text(report: &LeaseReport) -> String {
    match report.renewed {
        true => "renewed: Bora forwards\n".into(),
        false => "not renewed: Linux forwards\n".into(),
    }
}
