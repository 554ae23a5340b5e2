//! The configurations that were in force.

use super::{Report, answer_later, table};

pub(super) const REPORT: Report = Report::new(
    "history",
    "Configurations that were in force, for `bora rollback`",
    |router, _| {
        let history = router.in_force.history().clone();
        answer_later(move || history.entries())
    },
    |json, _| {
        Ok(table::of_rows_or(
            "no configuration is kept",
            COLUMNS,
            &json,
        ))
    },
);

const COLUMNS: &[(&str, &str)] = &[("NUMBER", "number"), ("TIME", "time"), ("BY", "by")];
