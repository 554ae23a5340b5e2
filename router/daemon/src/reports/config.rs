//! The configuration in force.

use super::{Report, answer};
use crate::config::File;

pub(super) const REPORT: Report = Report::new(
    "config",
    "The configuration in force, as bora.toml would say it",
    |router, request| {
        let file = router.in_force.file();
        answer(match request.secrets {
            true => file.clone(),
            false => file.without_secrets(),
        })
    },
    |json, _| serde_json::from_value::<File>(json)?.to_text(),
);
