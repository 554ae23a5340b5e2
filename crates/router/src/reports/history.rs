//! The configurations that were in force.

use super::{Report, answer, table};

pub(super) const REPORT: Report = Report::new(
    "history",
    "Configurations that were in force, for `bora rollback`",
    |router, _| answer(router.in_force.history().entries()),
    |json, _| {
        Ok(table::of_rows_or(
            "no configuration is kept",
            COLUMNS,
            &json,
        ))
    },
);

const COLUMNS: &[(&str, &str)] = &[("NUMBER", "number"), ("TIME", "time"), ("BY", "by")];
