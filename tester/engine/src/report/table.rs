//! The short table in the terminal.

use super::{numbers, summary};
use crate::result::{Finding, Report, Test};

const HEAD: [&str; 7] = [
    "test", "frames", "result", "faults", "bounds", "Mbit/s", "of line",
];
/// Columns with numbers, aligned to the right.
const NUMBERS: [bool; 7] = [false, false, true, true, true, true, true];
/// Columns to give up, in this order, where the terminal is narrow.
const SPARE: [usize; 3] = [4, 5, 6];

/// Findings of one metric beyond this many have one line together.
const MANY: usize = 6;

/// One line a finding, then what the reader must know; at most `width` letters a line, if the
/// narrowest form allows it.
pub fn table(report: &Report, width: usize) -> String {
    let mut rows = Vec::new();
    for test in summary::groups(report)
        .iter()
        .flat_map(|group| &group.tests)
    {
        let frames = summary::with_version(report, &test.frames, &test.family);
        let metrics = test
            .findings
            .chunk_by(|a, b| a.metric == b.metric && a.unit == b.unit);
        for findings in metrics {
            match findings.len() {
                0..=MANY => rows.extend(findings.iter().map(|finding| row(test, &frames, finding))),
                _ => rows.push(range(test, &frames, findings)),
            }
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        text += &columns(&rows, width);
    }
    if rows.iter().any(|row| row[3].contains('/')) {
        text += &wrapped(&format!("faults are frames {}", summary::FAULTS), width);
    }
    for note in summary::notes(report) {
        text += &wrapped(&note, width);
    }
    text
}

fn row(test: &Test, frames: &str, finding: &Finding) -> [String; HEAD.len()] {
    let cells = summary::cells(test, finding);
    let name = summary::title(test, finding);
    [
        name,
        frames.into(),
        cells.value,
        cells.faults.map_or(String::new(), |faults| faults.short()),
        cells.bounds,
        cells.megabits,
        cells.share,
    ]
}

/// One line for a metric with many goals, as the points of a loss curve.
fn range(test: &Test, frames: &str, findings: &[Finding]) -> [String; HEAD.len()] {
    let unit = &findings[0].unit;
    let values = || findings.iter().filter_map(|finding| finding.value);
    let (low, high) = (
        values().fold(f64::MAX, f64::min),
        values().fold(f64::MIN, f64::max),
    );
    let value = match low <= high {
        true => format!(
            "{} to {}",
            numbers::quantity(low, unit),
            numbers::quantity(high, unit)
        ),
        false => "not found".into(),
    };
    let name = format!(
        "{}: {} ({} values)",
        test.name,
        findings[0].metric,
        findings.len()
    );
    [
        name,
        frames.into(),
        value,
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ]
}

/// Plain aligned columns; those that are empty everywhere are left out, and the spare ones too
/// until the lines are short enough.
fn columns(rows: &[[String; HEAD.len()]], width: usize) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .max()
            .filter(|cell| *cell > 0)
            .map(|cell| cell.max(HEAD[column].len()))
    };
    let mut widths: Vec<Option<usize>> = (0..HEAD.len()).map(widest).collect();
    for spare in SPARE {
        let total: usize = widths.iter().flatten().map(|width| width + 2).sum();
        if total > width + 2 {
            widths[spare] = None;
        }
    }
    let line = |cells: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for (column, width) in widths.iter().enumerate() {
            let Some(width) = *width else { continue };
            text += &match NUMBERS[column] {
                true => format!("{:>width$}  ", cells(column)),
                false => format!("{:<width$}  ", cells(column)),
            };
        }
        text.trim_end().to_string() + "\n"
    };
    let mut text = line(&|column| HEAD[column].into());
    for row in rows {
        text += &line(&|column| row[column].clone());
    }
    text
}

/// A note in lines of at most `width` letters, unless a word is longer.
fn wrapped(note: &str, width: usize) -> String {
    let mut text = String::from("note:");
    let mut used = text.len();
    for word in note.split_whitespace() {
        let length = word.chars().count();
        if used + 1 + length > width {
            text += "\n     ";
            used = 5;
        }
        text.push(' ');
        text += word;
        used += 1 + length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn one_line_a_finding_and_no_line_too_long() {
        let report = example::report();
        let findings = |test: &Test| match test.findings.len() {
            lines @ 0..=MANY => lines,
            _ => 1,
        };
        let findings: usize = report.tests.iter().map(findings).sum();
        for width in [80, 100, 200] {
            let text = table(&report, width);
            let long = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(long, None, "{text}");
            let rows = text.lines().take_while(|line| !line.starts_with("note"));
            assert_eq!(rows.count(), findings + 1, "{text}");
        }
        let text = table(&report, 200);
        assert!(
            text.contains("Mbit/s") && text.contains("of line"),
            "{text}"
        );
    }

    #[test]
    fn faults_stand_beside_each_result() {
        let mut report = example::report();
        let test = &mut report.tests[0];
        test.findings[0].trials = vec![1];
        test.findings[1].trials = vec![2];
        (test.trials[1].sent, test.trials[1].lost) = (1000, 0);
        let worst = &mut test.trials[2];
        (worst.sent, worst.lost, worst.duplicated, worst.reordered) = (1000, 4, 20, 3000);
        (worst.corrupted, worst.misrouted) = (1, 1);
        for width in [80, 200] {
            let text = table(&report, width);
            assert!(text.contains("  none"), "{text}");
            assert!(text.contains("0.4 %/20/3k/2"), "{text}");
            assert!(
                text.contains("note: faults are frames lost/duplicated/reordered/"),
                "{text}"
            );
        }
    }

    #[test]
    fn ip_versions_are_told_apart() {
        let report = example::both_versions();
        let narrow = table(&report, 80);
        let long = narrow.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{narrow}");
        let text = table(&report, 200);
        for frames in ["64, IPv4  ", "64, IPv6  "] {
            assert!(text.contains(frames), "{text}");
        }
        let text = table(&example::report(), 200);
        assert!(!text.contains("IPv4"), "it goes without saying: {text}");
    }

    #[test]
    fn an_empty_report_has_only_notes() {
        let text = table(&Report::default(), 80);
        assert!(text.starts_with("note: Not all tests"), "{text}");
    }
}
