//! Why packets do not simply leave, and what to do about it: docs/reasons.md, for programs.

use bora_contract::Reason;
use serde::Serialize;

use super::{Report, answer, table};

pub(super) const REPORT: Report = Report::new(
    "reasons",
    "Reasons why packets go to Linux or are dropped: what they mean, what to do",
    |_, _| answer(Vec::from(Reason::ALL.map(ReasonReport::of))),
    |json, _| Ok(table::of_rows(COLUMNS, &json)),
);

const COLUMNS: &[(&str, &str)] = &[
    ("REASON", "name"),
    ("MEANING", "meaning"),
    ("WHAT TO DO", "cure"),
];

/// A reason.
#[derive(Debug, Serialize)]
struct ReasonReport {
    /// Its name in counters.
    name: &'static str,
    /// What it means.
    meaning: &'static str,
    /// What an operator does about it.
    cure: &'static str,
}

impl ReasonReport {
    fn of(reason: Reason) -> Self {
        Self {
            name: reason.name(),
            meaning: reason.meaning(),
            cure: reason.cure(),
        }
    }
}
