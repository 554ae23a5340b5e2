//! What HERO cards forward by themselves.

use super::{Report, answer, table};

pub(super) const REPORT: Report = Report::new(
    "offload",
    "What HERO cards forward by themselves, and why they do not forward the rest",
    |router, _| answer(router.plane.offload_report(router.in_force.file())),
    |json, _| {
        Ok(table::of_rows_or(
            "nothing comes in by a HERO card",
            COLUMNS,
            &json,
        ))
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("IN BY", "port"),
    ("DESTINATION", "destination"),
    ("PATH", "path"),
    ("OUT BY", "out"),
    ("PACKETS/S", "packets_per_second"),
    ("PACKETS", "packets"),
    ("WHY NOT FAST", "why"),
];
