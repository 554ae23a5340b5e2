//! The configuration in force.

use super::{Report, answer, typed};
use crate::config::File;

pub(super) const REPORT: Report = Report::new(
    "config",
    "The configuration in force, as bora.toml would say it",
    |router, _| answer(router.in_force.file().clone()),
    |json, _| typed(json, |file: &File| file.to_text().unwrap_or_default()),
);
