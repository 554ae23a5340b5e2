//! Whether two reports differ, with confidence intervals.

#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use super::summary;
use crate::result::{Finding, Report, Test};

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
    /// [`Finding::metric`].
    pub metric: String,
    /// [`Finding::goal`].
    pub goal: String,
    /// [`Finding::unit`].
    pub unit: String,
    /// In the first report: the mean of the samples where these are compared, else the value.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
    /// By how much the second is above the first, per cent of the first.
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
}

/// What a comparison comes to, for the second report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is worse.
    Worse,
    /// It is another, and nobody said which is better.
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
    /// As of `diff`: 0 if no difference is shown, 1 if there is one, 2 if nothing can be compared.
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
            Some(other) => differences.push(difference((test, finding), other)),
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

fn key<'a>((test, finding): (&'a Test, &'a Finding)) -> [&'a str; 4] {
    [&test.name, &test.frames, &finding.metric, &finding.goal]
}

fn name(test: &Test, finding: &Finding) -> String {
    format!(
        "{}, frames of {}",
        summary::title(test, finding),
        test.frames
    )
}

fn difference(a: (&Test, &Finding), b: (&Test, &Finding)) -> Difference {
    let outcome = match obstacle(a, b) {
        Some(reason) => Err(reason),
        None => welch(&a.1.samples, &b.1.samples)
            .or_else(|| bounds(a.1, b.1))
            .ok_or_else(|| "neither repeated measurements nor bounds in both reports".into()),
    };
    let mut difference = Difference {
        test: a.0.name.clone(),
        frames: a.0.frames.clone(),
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
    };
    match outcome {
        Err(reason) => difference.how = reason,
        Ok(interval) => interval.judge(a.1.more_is_better, &mut difference),
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

/// Why two findings of one name do not measure the same.
fn obstacle(a: (&Test, &Finding), b: (&Test, &Finding)) -> Option<String> {
    let parts = [
        ("methods", a.0.method.clone(), b.0.method.clone()),
        ("units", a.1.unit.clone(), b.1.unit.clone()),
        ("IP versions", a.0.family.clone(), b.0.family.clone()),
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
    if let Some((what, a, b)) = parts.into_iter().find(|(_, a, b)| a != b) {
        return Some(format!("different {what}: {a} and {b}"));
    }
    match (a.1.value, b.1.value) {
        (None, None) => Some("found in neither report".into()),
        (None, _) => Some("not found in the first report".into()),
        (_, None) => Some("not found in the second report".into()),
        _ => None,
    }
}

/// The second less the first.
struct Interval {
    means: Option<(f64, f64)>,
    low: f64,
    high: f64,
    how: String,
}

impl Interval {
    fn judge(self, more_is_better: Option<bool>, difference: &mut Difference) {
        if let Some((a, b)) = self.means {
            (difference.a, difference.b) = (Some(a), Some(b));
        }
        (difference.low, difference.high) = (Some(self.low), Some(self.high));
        difference.verdict = match (more_is_better, self.low > 0.0, self.high < 0.0) {
            (_, false, false) => Verdict::NoDifferenceShown,
            (None, _, _) => Verdict::Different,
            (Some(more), greater, _) if more == greater => Verdict::Better,
            _ => Verdict::Worse,
        };
        difference.how = self.how;
    }
}

/// The 95 % confidence interval of the difference of two means by Welch's t, with the degrees of
/// freedom of Welch and Satterthwaite.
fn welch(a: &[f64], b: &[f64]) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let error = |samples: &[f64]| samples.variance() / samples.len() as f64;
    let (error_a, error_b) = (error(a), error(b));
    let spread = error_a + error_b;
    let difference = b.mean() - a.mean();
    let margin = if spread > 0.0 {
        let freedom = spread.powi(2)
            / (error_a.powi(2) / (a.len() - 1) as f64 + error_b.powi(2) / (b.len() - 1) as f64);
        StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975) * spread.sqrt()
    } else {
        0.0
    };
    Some(Interval {
        means: Some((a.mean(), b.mean())),
        low: difference - margin,
        high: difference + margin,
        how: format!("Welch's t, {} and {} samples", a.len(), b.len()),
    })
}

fn bounds(a: &Finding, b: &Finding) -> Option<Interval> {
    Some(Interval {
        means: None,
        low: b.low? - a.high?,
        high: b.high? - a.low?,
        how: "bounds of the search".into(),
    })
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
            notes.push(format!("the {which} was stopped before its end"));
        }
    }
    notes
}
