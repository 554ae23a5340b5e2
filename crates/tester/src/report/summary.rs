//! What tables in the terminal and in HTML both show.

use super::numbers;
use crate::rate::wire_bits;
use crate::result::{Finding, Report, Test, TrialRecord};

/// Tests of one name, method and IP version, on several frame mixes.
pub(super) struct Group<'a> {
    /// The tests' name, and their IP version where the report has both.
    pub(super) heading: String,
    pub(super) method: &'a str,
    pub(super) tests: Vec<&'a Test>,
}

/// The tests in groups, in the order of their first tests.
pub(super) fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for test in &report.tests {
        let same = |group: &&mut Group<'_>| key(group.tests[0]) == key(test);
        match groups.iter_mut().find(same) {
            Some(group) => group.tests.push(test),
            None => groups.push(Group {
                heading: with_version(report, &test.name, &test.family),
                method: &test.method,
                tests: vec![test],
            }),
        }
    }
    groups
}

fn key(test: &Test) -> [&str; 3] {
    [&test.name, &test.method, &test.family]
}

/// `IPv4` or `IPv6`, as people write it.
pub(super) fn version(family: &str) -> &str {
    match family {
        "ipv4" => "IPv4",
        "ipv6" => "IPv6",
        other => other,
    }
}

/// A test's name or frames, followed by the IP version where the report has both.
pub(super) fn with_version(report: &Report, text: &str, family: &str) -> String {
    let tests = report.tests.iter().map(|test| &test.family);
    let calibrated = report.calibration.iter().map(|found| &found.family);
    let mut families = tests.chain(calibrated).filter(|other| !other.is_empty());
    match families.any(|other| other != family) {
        true if !family.is_empty() => format!("{text}, {}", version(family)),
        _ => text.into(),
    }
}

/// Frames a second that all sending ports together can put on their links.
pub(super) fn line_rate(test: &Test) -> Option<f64> {
    test.line_rate
        .map(|rate| rate * f64::from(test.senders.max(1)))
        .filter(|rate| *rate > 0.0)
}

/// Offered load of a trial, frames a second of all sending ports.
pub(super) fn offered(test: &Test, trial: &TrialRecord) -> f64 {
    match trial.rate.filter(|rate| rate.is_finite()) {
        Some(rate) => rate * f64::from(test.senders.max(1)),
        None => trial.sent_rate,
    }
}

/// One finding as text.
pub(super) struct Cells {
    /// Metric and goal.
    pub(super) metric: String,
    /// With its unit; tells if it could not be found.
    pub(super) value: String,
    /// Between which bounds; may be empty.
    pub(super) bounds: String,
    /// Mbit/s on the wire, for rates.
    pub(super) megabits: String,
    /// Per cent of the line rate, for rates on real links.
    pub(super) share: String,
}

/// The texts of a finding.
pub(super) fn cells(test: &Test, finding: &Finding) -> Cells {
    let rate = finding.value.filter(|_| finding.unit == "frames/s");
    let bounds = match (finding.low, finding.high) {
        (Some(low), Some(high)) => format!(
            "{} to {}",
            bare(low, &finding.unit),
            numbers::quantity(high, &finding.unit)
        ),
        (Some(low), None) => format!("at least {}", numbers::quantity(low, &finding.unit)),
        (None, Some(high)) => format!("at most {}", numbers::quantity(high, &finding.unit)),
        (None, None) => String::new(),
    };
    Cells {
        metric: label(finding),
        value: match finding.value {
            Some(value) => numbers::quantity(value, &finding.unit),
            None => "not found".into(),
        },
        bounds,
        megabits: rate.map_or(String::new(), |rate| {
            numbers::digits(rate * wire_bits(test.frame_length) / 1e6, 4)
        }),
        share: rate
            .zip(line_rate(test))
            .map_or(String::new(), |(rate, line)| numbers::per_cent(rate / line)),
    }
}

/// A bound whose unit follows with the other bound, where both are sure to have the same.
fn bare(value: f64, unit: &str) -> String {
    match unit {
        "ms" | "us" | "ns" | "s" => numbers::quantity(value, unit),
        "%" => numbers::digits(value, 4),
        _ => numbers::si(value),
    }
}

/// Metric and goal: `throughput, loss 0 %`.
pub(super) fn label(finding: &Finding) -> String {
    match finding.goal.is_empty() {
        true => finding.metric.clone(),
        false => format!("{}, {}", finding.metric, finding.goal),
    }
}

/// The test's name, metric and goal, each said once: `throughput, loss 0 %`.
pub(super) fn title(test: &Test, finding: &Finding) -> String {
    let label = label(finding);
    match finding.metric == test.name {
        true => label,
        false => format!("{}: {label}", test.name),
    }
}

/// Names of the ports whose links exist only in memory.
pub(super) fn virtual_ports(report: &Report) -> Vec<&str> {
    let ports = report.ports.iter().filter(|port| port.is_virtual);
    ports.map(|port| port.name.as_str()).collect()
}

/// Whether a trial's result is the router's: the tester did its part until the end.
pub(super) fn counts(trial: &TrialRecord) -> bool {
    trial.valid && !trial.interrupted && trial.missed == 0
}

/// Why a trial does not count; `None` if it does.
pub(super) fn invalid(trial: &TrialRecord) -> Option<String> {
    match trial {
        trial if counts(trial) => None,
        TrialRecord { missed: 1.., .. } => Some(format!(
            "not valid: the tester lost {}",
            numbers::grouped(trial.missed)
        )),
        TrialRecord {
            interrupted: true, ..
        } => Some("stopped before its end".into()),
        _ => Some("not valid: the tester did not keep the load up".into()),
    }
}

/// Whether somebody stopped the run.
pub(super) fn is_stopped(report: &Report) -> bool {
    report.stopped || trials(report).any(|trial| trial.interrupted)
}

/// What the reader must know first.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.complete {
        let why = match is_stopped(report) {
            true => "The run was stopped before its end: the tests below are those done.",
            false => "Not all tests could be carried out: the tests below are those done.",
        };
        notes.push(why.into());
    }
    let ports = virtual_ports(report);
    if !ports.is_empty() {
        notes.push(format!(
            "The links of {} are virtual: they have no line rate, and tester and router share \
             the machine's processors. The figures say nothing about real links.",
            ports.join(", ")
        ));
    }
    let missed: u64 = trials(report).map(|trial| trial.missed).sum();
    if missed > 0 {
        notes.push(format!(
            "The tester's own ports lost frames: {missed}, in trials: {}.",
            trials(report).filter(|trial| trial.missed > 0).count()
        ));
    }
    let spoiled = |trial: &&TrialRecord| !trial.valid && trial.missed == 0;
    let spoiled = trials(report).filter(spoiled).count();
    if spoiled > 0 {
        notes.push(format!(
            "In {spoiled} of {} trials the tester did not keep the load up: they do not count.",
            trials(report).count()
        ));
    }
    let late = trials(report).filter(|trial| is_late(trial)).count();
    if late > 0 {
        notes.push(format!(
            "In {late} of {} trials the tester sent 1 % of the frames later than half the median \
             latency: the latencies found there are also its own.",
            trials(report).count()
        ));
    }
    let empty = report.tests.iter().filter(|test| test.findings.is_empty());
    notes.extend(empty.flat_map(|test| &test.notes).cloned()); // they say why nothing was found
    notes.extend(report.notes.iter().cloned());
    notes
}

/// Whether the sender's lateness is a good part of the latency.
fn is_late(trial: &TrialRecord) -> bool {
    let median = trial.latency.map(|(median, _)| median);
    trial.rate.is_some() && median.is_some_and(|median| trial.lateness > median / 2)
}

fn trials(report: &Report) -> impl Iterator<Item = &TrialRecord> {
    report.tests.iter().flat_map(|test| &test.trials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn the_reader_is_told_what_makes_figures_doubtful() {
        let mut report = example::report();
        report.complete = false;
        report.tests[0].trials[2].valid = false;
        report.tests[0].trials[0].lateness = 1_000_000;
        report.tests[0].findings.clear();
        report.tests[0].notes = vec!["no frame came through again".into()];
        let notes = notes(&report).join("\n");
        for part in [
            "Not all tests could be carried out",
            "are virtual",
            "lost frames: 17",
            "In 1 of ",
            "no frame came through again",
        ] {
            assert!(notes.contains(part), "{part} is missing in {notes}");
        }
        report.tests[0].trials[2].interrupted = true;
        let notes = super::notes(&report).join("\n");
        assert!(notes.contains("stopped before its end"), "{notes}");
    }
}
