//! Whether two reports differ, with confidence intervals.

mod faults;
mod interval;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;

use super::summary;
use crate::result::{Finding, Report, Test};
use interval::{Interval, bounds, welch};

/// What comparing two reports found.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Where the reports differ beside their results, so that a reader knows what a difference
    /// may come from, and findings that only one of them has.
    pub notes: Vec<String>,
    /// Every finding that both have, in the first report's order.
    pub differences: Vec<Difference>,
}

/// One finding in both reports.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// [`Test::name`].
    pub test: String,
    /// [`Test::frames`].
    pub frames: String,
    /// [`Test::family`].
    pub family: String,
    /// [`Finding::metric`].
    pub metric: String,
    /// [`Finding::goal`].
    pub goal: String,
    /// [`Finding::unit`].
    pub unit: String,
    /// The value in the first report: the mean of the samples where these are compared.
    pub a: Option<f64>,
    /// The value in the second report.
    pub b: Option<f64>,
    /// Difference of the second from the first, per cent of the first.
    pub change: Option<f64>,
    /// Least change that the measurements allow, per cent of the first: of the 95 % confidence
    /// interval, or by the bounds of the search.
    pub low: Option<f64>,
    /// Greatest; see `low`.
    pub high: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// How that was found, or why it could not be.
    pub how: String,
    /// What stands in tables for a value that is not there: `at least 362 k frames/s`.
    #[serde(skip)]
    bounds: [String; 2],
}

/// What a comparison comes to, for the second report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is worse.
    Worse,
    /// It is another, and the report does not say which is better.
    Different,
    /// It may be the same.
    NoDifferenceShown,
    /// Nothing can be said.
    NotComparable,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Different => "different",
            Self::NoDifferenceShown => "no difference shown",
            Self::NotComparable => "not comparable",
        }
    }
}

impl Comparison {
    /// The exit code, by the rules of `diff`: 0 if no difference is shown, 1 if there is one, 2 if nothing
    /// can be compared.
    pub fn exit_code(&self) -> u8 {
        let has = |verdicts: &[Verdict]| {
            let mut found = self.differences.iter();
            found.any(|difference| verdicts.contains(&difference.verdict))
        };
        match () {
            () if has(&[Verdict::Better, Verdict::Worse, Verdict::Different]) => 1,
            () if has(&[Verdict::NoDifferenceShown]) => 0,
            () => 2,
        }
    }
}

/// Compares the second report with the first.
///
/// Where both have at least two samples of a finding, their means are compared by Welch's t-test
/// (B. L. Welch, Biometrika 34, 1947) at 95 %; otherwise the bounds that the search found must not
/// overlap. The change is told in per cent of the first mean, which is taken as exact.
pub fn compare(a: &Report, b: &Report) -> Comparison {
    let mut notes = notes(a, b);
    let mut differences = Vec::new();
    for (test, finding) in findings(a) {
        match findings(b).find(|other| key(*other) == key((test, finding))) {
            Some(other) => {
                differences.push(difference((test, finding), other));
                faults::compare((test, finding), other, &mut differences);
            }
            None => notes.push(format!("only in the first: {}", name(test, finding))),
        }
    }
    for (test, finding) in findings(b) {
        if !findings(a).any(|other| key(other) == key((test, finding))) {
            notes.push(format!("only in the second: {}", name(test, finding)));
        }
    }
    Comparison { notes, differences }
}

fn findings(report: &Report) -> impl Iterator<Item = (&Test, &Finding)> {
    let tests = report.tests.iter();
    tests.flat_map(|test| test.findings.iter().map(move |finding| (test, finding)))
}

/// What makes two findings the same; plans with `family = "both"` do a test for each IP version.
fn key<'a>((test, finding): (&'a Test, &'a Finding)) -> [&'a str; 5] {
    [
        &test.name,
        &test.frames,
        &test.family,
        &finding.metric,
        &finding.goal,
    ]
}

fn name(test: &Test, finding: &Finding) -> String {
    format!(
        "{}, frames of {}",
        summary::title(test, finding),
        frames(&test.frames, &test.family)
    )
}

/// Frames, with their IP version where it is not the usual one.
fn frames(frames: &str, family: &str) -> String {
    match family {
        "ipv6" => format!("{frames}, IPv6"),
        _ => frames.into(),
    }
}

fn difference(a: (&Test, &Finding), b: (&Test, &Finding)) -> Difference {
    let mut difference = Difference {
        test: a.0.name.clone(),
        frames: a.0.frames.clone(),
        family: a.0.family.clone(),
        metric: a.1.metric.clone(),
        goal: a.1.goal.clone(),
        unit: a.1.unit.clone(),
        a: a.1.value,
        b: b.1.value,
        change: None,
        low: None,
        high: None,
        verdict: Verdict::NotComparable,
        how: String::new(),
        bounds: [a, b].map(|(test, finding)| summary::cells(test, finding).value),
    };
    match outcome(a, b) {
        Err(reason) => difference.how = reason,
        Ok(None) => {
            difference.verdict = Verdict::NoDifferenceShown;
            difference.how = "the tester or the line was the limit of both".into();
        }
        Ok(Some(interval)) => interval.judge(a.1.more_is_better, &mut difference),
    }
    let relative = |value: f64| {
        difference
            .a
            .filter(|a| *a != 0.0)
            .map(|a| value / a.abs() * 100.0)
    };
    difference.low = difference.low.and_then(relative);
    difference.high = difference.high.and_then(relative);
    let change = difference.a.zip(difference.b).map(|(a, b)| b - a);
    difference.change = change.and_then(relative);
    difference
}

/// The interval that holds the difference; `None` where both reports only tell that it is more than could be
/// offered, or less than the tester can see; an error tells why nothing can be said.
fn outcome(a: (&Test, &Finding), b: (&Test, &Finding)) -> Result<Option<Interval>, String> {
    if let Some(reason) = unlike(a, b) {
        return Err(reason);
    }
    let (a, b) = (a.1, b.1);
    let interval = match missing(a, b) {
        Some(reason) => Err(reason),
        None => welch(&a.samples, &b.samples)
            .or_else(|| bounds(a, b))
            .ok_or("neither repeated measurements nor bounds in both reports"),
    };
    let sides = |finding: &Finding| (finding.low.is_some(), finding.high.is_some());
    let is_open = matches!(sides(a), (true, false) | (false, true)) && sides(a) == sides(b);
    match interval {
        Err(_) if is_open => Ok(None),
        interval => interval.map(Some).map_err(String::from),
    }
}

/// Why two findings of one name do not measure the same.
fn unlike(a: (&Test, &Finding), b: (&Test, &Finding)) -> Option<String> {
    let parts = [
        ("methods", a.0.method.clone(), b.0.method.clone()),
        ("units", a.1.unit.clone(), b.1.unit.clone()),
        ("patterns", a.0.pattern.clone(), b.0.pattern.clone()),
        (
            "numbers of senders",
            a.0.senders.to_string(),
            b.0.senders.to_string(),
        ),
        (
            "frame lengths",
            a.0.frame_length.to_string(),
            b.0.frame_length.to_string(),
        ),
    ];
    let different = parts.into_iter().find(|(_, a, b)| a != b);
    different.map(|(what, a, b)| format!("different {what}: {a} and {b}"))
}

fn missing(a: &Finding, b: &Finding) -> Option<&'static str> {
    match (a.valid, b.valid) {
        (false, false) => return Some("the tester was the limit of both"),
        (false, true) => return Some("the tester was the limit of the first report"),
        (true, false) => return Some("the tester was the limit of the second report"),
        (true, true) => {}
    }
    match (a.value, b.value) {
        (None, None) => Some("found in neither report"),
        (None, _) => Some("not found in the first report"),
        (_, None) => Some("not found in the second report"),
        _ => None,
    }
}

/// What else differs between the reports.
fn notes(a: &Report, b: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let mut check = |what: &str, a: String, b: String| {
        if a != b {
            notes.push(format!("different {what}: {a}; {b}"));
        }
    };
    let (one, two) = (&a.environment, &b.environment);
    check("machines", one.host.clone(), two.host.clone());
    check("processors", one.processor.clone(), two.processor.clone());
    check(
        "numbers of CPUs",
        one.cpus.to_string(),
        two.cpus.to_string(),
    );
    check("kernels", one.kernel.clone(), two.kernel.clone());
    let none = || "none".to_string();
    let hypervisor = |report: &Report| report.environment.hypervisor.clone().unwrap_or_else(none);
    check("hypervisors", hypervisor(a), hypervisor(b));
    let ports = |report: &Report| {
        let kinds = report.ports.iter().map(|port| port.kind.as_str());
        kinds.collect::<Vec<_>>().join(", ")
    };
    check("ports", ports(a), ports(b));
    check("versions of the tester", a.bora.clone(), b.bora.clone());
    if a.plan != b.plan {
        notes.push("different plans: their durations, goals or streams may not be the same".into());
    }
    for (report, which) in [(a, "first"), (b, "second")] {
        if !summary::virtual_ports(report).is_empty() {
            notes.push(format!(
                "virtual links in the {which}: its figures depend on what else ran on the machine"
            ));
        }
        if !report.complete {
            let what = match summary::is_stopped(report) {
                true => "was stopped before its end",
                false => "lacks tests that could not be carried out",
            };
            notes.push(format!("the {which} {what}"));
        }
    }
    notes
}
