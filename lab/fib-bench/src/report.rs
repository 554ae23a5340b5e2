//! The results of a run as rows and as Markdown.

use std::fmt::Write;

use crate::ends;
use crate::results::{Results, Row};
use crate::run::{LOOKUP, Metric, Observer, VECTOR};

/// All results of one family.
#[derive(Debug, Default)]
pub struct Report {
    metrics: Vec<(Metric, Results)>,
}

impl Observer for Report {
    fn sample(&mut self, metric: Metric, case: &str, subject: &str, value: f64) {
        let known = self.metrics.iter().position(|(other, _)| *other == metric);
        let index = known.unwrap_or_else(|| {
            self.metrics.push((metric, Results::default()));
            self.metrics.len() - 1
        });
        self.metrics[index].1.add(case, subject, value);
    }

    fn progress(&mut self, what: &str) {
        eprintln!("{what}");
    }
}

impl Report {
    /// Medians of everything, and ratios to a subject.
    pub fn rows(&self, base: &str) -> Vec<Row> {
        let rows = |((metric, unit), results): &(Metric, Results)| results.rows(metric, unit, base);
        self.metrics.iter().flat_map(rows).collect()
    }
}

/// The rows as Markdown: first look-ups, with the vector sizes of a case side by side, then the
/// rest.
pub fn markdown(rows: &[Row]) -> String {
    let (lookups, mut others): (Vec<&Row>, Vec<&Row>) = rows
        .iter()
        .partition(|row| (row.metric.as_str(), row.unit.as_str()) == LOOKUP);
    let tables = distinct(others.iter().map(|row| table_of(row)));
    others.sort_by_key(|row| tables.iter().position(|table| *table == table_of(row)));
    let mut text = String::new();
    let vectors = distinct(lookups.iter().map(|row| split(row).1.into()));
    let title = format!("ns a look-up, vectors of {}", vectors.join(" / "));
    table(&mut text, &title, true, &lookups, |row| split(row).0.into());
    table(&mut text, "everything else", false, &others, |row| {
        format!("{}: {}, {}", row.case, row.metric, row.unit)
    });
    let explanation = ends::explanation(rows);
    if !explanation.is_empty() {
        let _ = writeln!(text, "\n{explanation}");
    }
    text
}

/// The case without the vector size, and the vector size.
pub fn split(row: &Row) -> (&str, &str) {
    row.case.split_once(VECTOR).unwrap_or((&row.case, ""))
}

/// One table for each family, with a line for each label, a column for each subject, and medians in
/// the cells. `rates` adds a column: how many times as fast the first subject is as the base of the
/// ratios.
fn table(
    text: &mut String,
    title: &str,
    rates: bool,
    rows: &[&Row],
    label: impl Fn(&Row) -> String,
) {
    let mut families: Vec<&str> = rows.iter().filter_map(|row| family(row)).collect();
    families.dedup();
    for chosen in families {
        let rows: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| family(row) == Some(chosen))
            .collect();
        let subjects = distinct(rows.iter().map(|row| row.subject.clone()));
        let mut columns = subjects.clone();
        if rates {
            columns.extend(
                rows.first()
                    .map(|row| format!("rate, {} : {}", row.subject, row.ratio_to)),
            );
        }
        let _ = writeln!(text, "\n| {chosen}: {title} | {} |", columns.join(" | "));
        let _ = writeln!(text, "| --- |{}", " ---: |".repeat(columns.len()));
        for line in distinct(rows.iter().map(|row| label(row))) {
            let cell = |subject: &String, value: fn(&Row) -> String| {
                let mine = rows
                    .iter()
                    .filter(|row| label(row) == line && row.subject == *subject);
                mine.map(|row| value(row)).collect::<Vec<_>>().join(" / ")
            };
            let marked = |row: &Row| match ends::limit(row) {
                true => format!("{} {}", number(row.median), ends::MARK),
                false => number(row.median),
            };
            let median = |subject| cell(subject, marked);
            let mut cells: Vec<String> = subjects.iter().map(median).collect();
            if rates {
                cells.push(cell(&subjects[0], |row| format!("{:.2}", 1.0 / row.ratio)));
            }
            let short = line
                .strip_prefix(chosen)
                .unwrap_or(&line)
                .trim_start_matches([',', ' ', ':']);
            let _ = writeln!(text, "| {short} | {} |", cells.join(" | "));
        }
    }
}

/// Family and next hops.
fn table_of(row: &Row) -> String {
    row.case
        .splitn(3, ", ")
        .take(2)
        .collect::<Vec<_>>()
        .join(", ")
}

fn family(row: &Row) -> Option<&str> {
    row.case.get(..4)
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = vec![];
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Formats with three significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e4 => format!("{:.0} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_share_a_line() {
        let mut report = Report::default();
        for (subject, factor) in [("bora", 1.0), ("rte_fib", 2.0)] {
            for (vector, value) in [("32", 1.5), ("64", 1.25)] {
                let case = format!("IPv4, uniform{VECTOR}{vector}");
                report.sample(LOOKUP, &case, subject, value * factor);
            }
            report.sample(("load", "s"), "IPv4", subject, factor);
        }
        let rows = report.rows("rte_fib");
        assert_eq!(rows[0].ratio, 0.5);
        let text = markdown(&rows);
        assert!(
            text.contains("| uniform | 1.50 / 1.25 | 3.00 / 2.50 | 2.00 / 2.00 |"),
            "{text}"
        );
        assert!(text.contains("| load, s | 1.00 | 2.00 |"), "{text}");
    }
}
