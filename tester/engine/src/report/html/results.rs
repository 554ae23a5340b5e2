//! Tables of what was found.

use super::{Cell, escape, table};
use crate::report::numbers;
use crate::report::summary::{self, Group};
use crate::result::{Finding, Report, Test};

const RATE: &str = "frames/s";
/// Units that stand beside every value; others stand once a line.
const IN_CELLS: [&str; 5] = ["%", "s", "ms", "us", "ns"];

/// All rates, a line each: what a report is opened for.
pub(super) fn rates(report: &Report) -> String {
    let mut rows = Vec::new();
    for group in summary::groups(report) {
        for test in &group.tests {
            let mut class = "first";
            for finding in test.findings.iter().filter(|finding| finding.unit == RATE) {
                rows.push((class, rate(&group.heading, test, finding)));
                class = "";
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "test",
        "frame size",
        "result",
        RATE,
        "frames lost, duplicated, reordered, damaged",
        "bounds",
        "Mbit/s",
        "of line rate",
    ];
    format!(
        "<h2>Results</h2>\n<p class=\"under\">Rates are those of all sending ports together. Mbit/s \
         are counted on the wire, with preamble, start of frame and gap. Bounds are those of the \
         search, or of the 95 % confidence interval.</p>\n{}",
        table("summary", &head, &rows)
    )
}

fn rate(name: &str, test: &Test, finding: &Finding) -> Vec<Cell> {
    let cells = summary::cells(test, finding);
    let share = finding
        .value
        .zip(summary::line_rate(test))
        .map(|(rate, line)| rate / line);
    let bar = share.map_or(String::new(), |share| {
        let width = share.clamp(0.0, 1.0) * 100.0;
        format!(" class=\"bar\" style=\"--share:{width:.1}%\"")
    });
    let unit = format!(" {RATE}");
    let bounds = cells.bounds.trim_end_matches(&unit);
    vec![
        Cell::text(name),
        Cell::number(escape(&test.frames)),
        Cell::text(&cells.metric),
        Cell::number(value(finding, cells.value.trim_end_matches(&unit))),
        Cell::number(cells.faults.map_or(String::new(), |faults| faults.words())),
        Cell::number(escape(bounds)),
        Cell::number(cells.megabits),
        Cell {
            attributes: bar,
            html: cells.share,
        },
    ]
}

fn value(finding: &Finding, text: &str) -> String {
    match finding.value {
        Some(value) if finding.unit == RATE => {
            let exact = numbers::grouped(value.max(0.0) as u64);
            format!("<b title=\"{exact} {RATE}\">{}</b>", escape(text))
        }
        Some(_) => format!("<b>{}</b>", escape(text)),
        None => format!(
            "<span class=\"missing\" title=\"{}\">{}</span>",
            escape(&finding.reason),
            escape(text)
        ),
    }
}

/// All but rates: a line a metric and goal, a column a frame size.
pub(super) fn others(group: &Group<'_>) -> String {
    let mut labels: Vec<(String, &str)> = Vec::new();
    for finding in group.tests.iter().flat_map(|test| &test.findings) {
        let label = (summary::label(finding), finding.unit.as_str());
        if finding.unit != RATE && !labels.contains(&label) {
            labels.push(label);
        }
    }
    if labels.is_empty() {
        return String::new();
    }
    let sizes: Vec<String> = group
        .tests
        .iter()
        .map(|test| escape(&test.frames))
        .collect();
    let head: Vec<&str> = ["frame size"]
        .into_iter()
        .chain(sizes.iter().map(String::as_str))
        .collect();
    let rows: Vec<_> = labels
        .iter()
        .map(|(label, unit)| {
            let cells = group.tests.iter().map(|test| other(test, label, unit));
            let name = match IN_CELLS.contains(unit) {
                true => label.clone(),
                false => format!("{label} ({unit})"),
            };
            ("", [Cell::text(&name)].into_iter().chain(cells).collect())
        })
        .collect();
    let note = "<p class=\"under\">Beside a value stands what happened to frames in its trials: loss, \
                duplicates, reordering, damage. Where nothing stands, there was none.</p>\n";
    table("findings", &head, &rows) + note
}

fn other(test: &Test, label: &str, unit: &str) -> Cell {
    let mut findings = test.findings.iter();
    let found = findings.find(|finding| finding.unit == unit && summary::label(finding) == label);
    let Some(finding) = found else {
        return Cell::default();
    };
    let cells = summary::cells(test, finding);
    let attributes = match cells.bounds.as_str() {
        "" => String::new(),
        bounds => format!(" title=\"{}\"", escape(bounds)),
    };
    let text = match IN_CELLS.contains(&unit) {
        true => &cells.value,
        false => cells.value.trim_end_matches(unit).trim_end(),
    };
    let mut html = value(finding, text);
    if !finding.reason.is_empty() {
        html += &format!("<br><small>{}</small>", escape(&finding.reason));
    }
    html += &match cells.faults {
        Some(faults) if faults.any() => format!("<br><small>{}</small>", faults.words()),
        _ => String::new(),
    };
    Cell { attributes, html }
}
