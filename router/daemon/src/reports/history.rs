//! The configurations that were in force.

use serde::ser::Error;

use super::{Answer, Report, table};

pub(super) const REPORT: Report = Report::new(
    "history",
    "Configurations that were in force, for `bora rollback`",
    |router, _| {
        let history = router.in_force.history().clone();
        Ok(Answer::Whole(Box::new(move || {
            let entries = history.entries();
            let entries = entries.map_err(|error| Error::custom(format!("{error:#}")))?;
            serde_json::to_string(&entries)
        })))
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
