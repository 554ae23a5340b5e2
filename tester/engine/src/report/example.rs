//! A report made up for tests: plausible, but measured nowhere.

use crate::result::Report;

/// The example; the integration tests read the same file.
pub(super) fn report() -> Report {
    let json = include_str!("../../../../tests/integration/data/report.json");
    super::parse(json).expect("a report")
}

/// The example as of a plan with `family = "both"`.
pub(super) fn both_versions() -> Report {
    let mut report = report();
    for mut test in report.tests.clone() {
        test.family = "ipv6".into();
        report.tests.push(test);
    }
    for mut found in report.calibration.clone() {
        found.family = "ipv6".into();
        report.calibration.push(found);
    }
    report
}
