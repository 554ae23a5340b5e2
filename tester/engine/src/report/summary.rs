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

/// What went wrong with the frames of some trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    /// Largest reordering extent.
    pub(super) extent: u64,
    /// Corrupted, or at a wrong port.
    pub(super) damaged: u64,
}

/// What they are called in tables.
pub(super) const FAULTS: &str = "lost/duplicated/reordered/damaged or misrouted";

impl Faults {
    /// Faults of a finding's trials; `None` if the report does not say which these are.
    pub(super) fn of(test: &Test, finding: &Finding) -> Option<Self> {
        let mut sum = Self::default();
        for &place in &finding.trials {
            let trial = test.trials.get(place)?;
            sum.sent += trial.sent;
            sum.lost += trial.lost;
            sum.duplicated += trial.duplicated;
            sum.reordered += trial.reordered;
            sum.extent = sum.extent.max(trial.extent.1);
            sum.damaged += trial.corrupted + trial.misrouted;
        }
        (!finding.trials.is_empty()).then_some(sum)
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        self.lost + self.duplicated + self.reordered + self.damaged > 0
    }

    /// The faults in the order of [`FAULTS`]: `0.48 %/2/5/1`; `none`.
    pub(super) fn short(&self) -> String {
        if !self.any() {
            return "none".into();
        }
        let count = |count: u64| numbers::si(count as f64).replace(' ', "");
        format!(
            "{}/{}/{}/{}",
            numbers::loss(self.lost, self.sent),
            count(self.duplicated),
            count(self.reordered),
            count(self.damaged)
        )
    }

    /// The faults as text: `0.48 % lost, 5 reordered (by 3 frames at most)`; `none`.
    pub(super) fn words(&self) -> String {
        let lost = format!("{} lost", numbers::loss(self.lost, self.sent));
        let count = |count: u64, what: &str| format!("{} {what}", numbers::grouped(count));
        let extent = numbers::grouped(self.extent);
        let all = [
            (self.lost, lost),
            (self.duplicated, count(self.duplicated, "duplicated")),
            (
                self.reordered,
                count(self.reordered, "reordered") + &format!(" (by {extent} frames at most)"),
            ),
            (self.damaged, count(self.damaged, "damaged or misrouted")),
        ];
        let words = all.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = words.map(|(_, words)| words).collect();
        match words.is_empty() {
            true => "none".into(),
            false => words.join(", "),
        }
    }
}

/// One finding as text.
pub(super) struct Cells {
    /// Metric and goal.
    pub(super) metric: String,
    /// The value with its unit; tells if it could not be found.
    pub(super) value: String,
    /// The bounds of the value; may be empty.
    pub(super) bounds: String,
    /// Mbit/s on the wire, for rates.
    pub(super) megabits: String,
    /// Per cent of the line rate, for rates on real links.
    pub(super) share: String,
    /// What went wrong with frames meanwhile, if it is known.
    pub(super) faults: Option<Faults>,
}

/// The texts of a finding.
pub(super) fn cells(test: &Test, finding: &Finding) -> Cells {
    let rate = finding.value.filter(|_| finding.unit == "frames/s");
    let bounds = bounds(finding);
    let (value, bounds) = match (
        finding.value,
        finding.low.is_some() != finding.high.is_some(),
    ) {
        (Some(value), _) => (numbers::quantity(value, &finding.unit), bounds),
        // all that is known
        (None, true) => (bounds, String::new()),
        (None, false) => ("not found".into(), bounds),
    };
    Cells {
        metric: label(finding),
        value,
        bounds,
        faults: Faults::of(test, finding),
        megabits: rate.map_or(String::new(), |rate| {
            numbers::digits(rate * wire_bits(test.frame_length) / 1e6, 4)
        }),
        share: rate
            .zip(line_rate(test))
            .map_or(String::new(), |(rate, line)| numbers::per_cent(rate / line)),
    }
}

fn bounds(finding: &Finding) -> String {
    match (finding.low, finding.high) {
        (Some(low), Some(high)) => format!(
            "{} to {}",
            bare(low, &finding.unit),
            numbers::quantity(high, &finding.unit)
        ),
        (Some(low), None) => format!("at least {}", numbers::quantity(low, &finding.unit)),
        (None, Some(high)) => format!("at most {}", numbers::quantity(high, &finding.unit)),
        (None, None) => String::new(),
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
pub(super) fn is_counted(trial: &TrialRecord) -> bool {
    trial.valid && !trial.interrupted && trial.missed == 0
}

/// Why a trial does not count; `None` if it does.
pub(super) fn invalid(trial: &TrialRecord) -> Option<String> {
    match trial {
        trial if is_counted(trial) => None,
        TrialRecord { missed: 1.., .. } => Some(format!(
            "not valid: the tester lost {}",
            numbers::grouped(trial.missed)
        )),
        TrialRecord {
            interrupted: true, ..
        } => Some("stopped before its end".into()),
        TrialRecord { reason, .. } if !reason.is_empty() => Some(format!("not valid: {reason}")),
        _ => Some("not valid: the tester did not keep the load up".into()),
    }
}

/// Whether the user stopped the run.
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
    let dead: Vec<&str> = without_frames(report)
        .map(|test| test.name.as_str())
        .collect();
    if !dead.is_empty() {
        notes.push(format!(
            "No frame came through in {} of {} tests ({}): look at the cables, at the router's addresses, \
             and whether it forwards and has routes to the tester's networks.",
            dead.len(),
            report.tests.len(),
            shown(&dead)
        ));
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
            "In {spoiled} of {} trials the tester itself was the limit, late or below the load: they do \
             not count.",
            trials(report).count()
        ));
    }
    notes.extend(limited(report));
    let empty = report.tests.iter().filter(|test| test.findings.is_empty());
    notes.extend(empty.flat_map(|test| &test.notes).cloned()); // they say why nothing was found
    notes.extend(report.notes.iter().cloned());
    notes
}

/// The figures that the tester itself limited, if there are any.
fn limited(report: &Report) -> Option<String> {
    let findings = || report.tests.iter().flat_map(|test| &test.findings);
    let mut reasons: Vec<&str> = Vec::new();
    let limited = findings().filter(|finding| !finding.valid);
    let count = limited
        .inspect(|finding| {
            if !reasons.contains(&finding.reason.as_str()) {
                reasons.push(&finding.reason);
            }
        })
        .count();
    let late = trials(report).map(|trial| trial.lateness_max).max()?;
    let steal = trials(report).filter_map(|trial| trial.steal);
    let steal = steal.reduce(f64::max).map_or("not known".into(), |steal| {
        format!("up to {}", numbers::digits(steal * 100.0, 3) + " %")
    });
    (count > 0).then(|| {
        format!(
            "{count} of {} figures are no results, because the tester itself was their limit: {}. In all \
             trials frames left up to {} late; CPU steal: {steal}.",
            findings().count(),
            shown(&reasons),
            numbers::time(late as f64)
        )
    })
}

/// The first ones of some texts.
fn shown(texts: &[&str]) -> String {
    const MOST: usize = 4;
    let more = if texts.len() > MOST { "; …" } else { "" };
    texts[..texts.len().min(MOST)].join("; ") + more
}

/// Tests that sent, and got nothing back.
pub(super) fn without_frames(report: &Report) -> impl Iterator<Item = &Test> {
    report.tests.iter().filter(|test| {
        let sum = |count: fn(&TrialRecord) -> u64| test.trials.iter().map(count).sum::<u64>();
        sum(|trial| trial.sent) > 0 && sum(|trial| trial.received) == 0
    })
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
        report.tests[0].findings.clear();
        let late = &mut report.tests[8];
        (late.findings[0].valid, late.findings[0].reason) = (false, "it was late".into());
        (late.trials[0].lateness_max, late.trials[0].steal) = (1_000_000_000, Some(0.125));
        for trial in &mut report.tests[1].trials {
            trial.received = 0;
        }
        report.tests[0].notes = vec!["no frame came through again".into()];
        let notes = notes(&report).join("\n");
        for part in [
            "Not all tests could be carried out",
            "are virtual",
            "lost frames: 17",
            "In 1 of ",
            "No frame came through in 1 of",
            "1 of 120 figures are no results, because the tester itself was their limit: it was late.",
            "left up to 1 s late; CPU steal: up to 12.5 %",
            "no frame came through again",
        ] {
            assert!(notes.contains(part), "{part} is missing in {notes}");
        }
        report.tests[0].trials[2].interrupted = true;
        let notes = super::notes(&report).join("\n");
        assert!(notes.contains("stopped before its end"), "{notes}");
    }

    #[test]
    fn faults_are_those_of_the_findings_trials() {
        let mut test = example::report().tests.remove(0);
        let finding = Finding {
            trials: vec![0, 2],
            ..Finding::default()
        };
        for trial in &mut test.trials {
            (trial.sent, trial.lost, trial.reordered) = (10_000, 0, 0);
        }
        assert_eq!(Faults::of(&test, &Finding::default()), None);
        let none = Faults::of(&test, &finding).unwrap();
        assert_eq!((none.short(), none.words()), ("none".into(), "none".into()));
        (test.trials[0].lost, test.trials[2].lost) = (30, 10);
        test.trials[1].duplicated = 7; // not one of them
        (test.trials[2].reordered, test.trials[2].extent) = (5, (2.0, 3));
        test.trials[0].misrouted = 1;
        let some = Faults::of(&test, &finding).unwrap();
        assert_eq!(some.short(), "0.2 %/0/5/1");
        assert_eq!(
            some.words(),
            "0.2 % lost, 5 reordered (by 3 frames at most), 1 damaged or misrouted"
        );
    }

    #[test]
    fn what_the_tester_limited_is_told_as_a_bound() {
        let test = Test::default();
        let finding = |low, high| Finding {
            unit: "frames/s".into(),
            low,
            high,
            ..Finding::default()
        };
        let cells = |low, high| {
            let cells = cells(&test, &finding(low, high));
            (cells.value, cells.bounds)
        };
        assert_eq!(
            cells(Some(362e3), None),
            ("at least 362 k frames/s".into(), String::new())
        );
        assert_eq!(
            cells(None, Some(5e3)),
            ("at most 5 k frames/s".into(), String::new())
        );
        let both = cells(Some(1e3), Some(2e3));
        assert_eq!(both, ("not found".into(), "1 k to 2 k frames/s".into()));
    }
}
