//! Results of any work as rows, and how an experiment names them.

use anyhow::{Context, ensure};
use bora_fib_bench::results::Row;
use bora_tester::result::Report;

/// The subject of a router between named ports. It takes the place of each router of the lab.
pub(crate) const DEVICE: &str = "device under test";

/// The findings and latencies of a tester's report on `subject`: `throughput | both directions, 64,
/// loss 0 % | kernel`.
///
/// Where the router can do more than the tester, or than the line, that limit is what was found; so it is with
/// what is less than the tester can see.
pub(crate) fn rows_of(report: &Report, subject: &str) -> Vec<Row> {
    let findings = report.tests.iter().flat_map(|test| {
        test.findings.iter().filter_map(move |finding| {
            let median = finding.value.or(finding.low).or(finding.high)?;
            let goal = finding.goal.replace("the tester's own limit", "throughput");
            Some(Row {
                case: format!("{}, {}, {goal}", test.name, test.frames),
                subject: subject.into(),
                metric: finding.metric.clone(),
                unit: finding.unit.clone(),
                median,
                low: finding.low.unwrap_or(median),
                high: finding.high.unwrap_or(median),
                ratio_to: String::new(),
                ratio: f64::NAN,
                ends: None,
            })
        })
    });
    findings.collect()
}

/// A name of rows in which one `*` may stand for a number, and `*` as the subject for all subjects.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    before: String,
    after: Option<String>,
    subject: Option<String>,
}

impl Pattern {
    /// Reads `metric | case | subject`; without a subject, or with `*`, it means all.
    ///
    /// # Errors
    /// It has no case, or two `*`.
    pub(crate) fn new(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.splitn(3, " | ");
        let metric = parts.next().unwrap_or_default();
        let case = parts
            .next()
            .with_context(|| format!("`{text}` names no case: `metric | case | subject`"))?;
        let subject = parts.next().filter(|subject| *subject != "*");
        let name = format!("{metric} | {case}");
        let (before, after) = match name.split_once('*') {
            Some((before, after)) => (before, Some(after)),
            None => (name.as_str(), None),
        };
        let twice = after.is_some_and(|after| after.contains('*'));
        ensure!(!twice, "`{text}` has more than one `*`");
        Ok(Self {
            before: before.into(),
            after: after.map(Into::into),
            subject: subject.map(Into::into),
        })
    }

    /// Whether the row has such a name; the number that `*` stands for, 0 if there is no `*`.
    pub(crate) fn matches(&self, row: &Row) -> Option<f64> {
        let wanted = self.subject.as_ref();
        if wanted.is_some_and(|it| *it != row.subject && row.subject != DEVICE) {
            return None;
        }
        let name = format!("{} | {}", row.metric, row.case);
        let rest = name.strip_prefix(&self.before)?;
        match &self.after {
            None => rest.is_empty().then_some(0.0),
            Some(after) => rest.strip_suffix(after.as_str())?.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bora_tester::result::{Finding, Test};

    use super::*;

    fn row(metric: &str, case: &str, subject: &str) -> Row {
        Row {
            case: case.into(),
            subject: subject.into(),
            metric: metric.into(),
            unit: String::new(),
            median: 1.0,
            low: 1.0,
            high: 1.0,
            ratio_to: String::new(),
            ratio: f64::NAN,
            ends: None,
        }
    }

    #[test]
    fn what_the_tester_can_do_is_found_where_it_is_the_limit() {
        let finding = |metric: &str, goal: &str, value, low| Finding {
            metric: metric.into(),
            goal: goal.into(),
            value,
            low,
            ..Finding::default()
        };
        let latency = "load 100 % of the tester's own limit";
        let report = Report {
            tests: vec![Test {
                name: "one direction".into(),
                frames: "64".into(),
                findings: vec![
                    finding("throughput", "loss 0 %", None, Some(148_809.0)),
                    finding("latency, 50 %", latency, Some(3.1), None),
                    finding("throughput", "loss 0.1 %", None, None),
                ],
                ..Test::default()
            }],
            ..Report::default()
        };
        let rows = rows_of(&report, DEVICE);
        let found = |row: &Row| (row.case.clone(), row.median);
        assert_eq!(
            rows.iter().map(found).collect::<Vec<_>>(),
            [
                ("one direction, 64, loss 0 %".to_string(), 148_809.0),
                (
                    "one direction, 64, load 100 % of throughput".to_string(),
                    3.1
                ),
            ]
        );
    }

    #[test]
    fn a_star_is_a_number_and_a_subject_may_be_left_out() {
        let of = |text: &str, row: &Row| Pattern::new(text).unwrap().matches(row);
        let poll = row("goodput", "load 2.5, 64 B", "poll");
        assert_eq!(of("goodput | load *, 64 B | poll", &poll), Some(2.5));
        assert_eq!(of("goodput | load *, 64 B", &poll), Some(2.5));
        assert_eq!(of("goodput | load *, 64 B | *", &poll), Some(2.5));
        assert_eq!(of("goodput | load 2.5, 64 B", &poll), Some(0.0));
        assert_eq!(of("goodput | load * B", &poll), None);
        assert_eq!(of("goodput | load *, 64 B | interrupt", &poll), None);
        assert_eq!(of("goodput | load 2.5", &poll), None);
        let device = row("goodput", "load 2.5, 64 B", DEVICE);
        assert_eq!(of("goodput | load *, 64 B | poll", &device), Some(2.5));
        assert!(Pattern::new("goodput").is_err());
        assert!(Pattern::new("goodput * | load * | poll").is_err());
    }
}
