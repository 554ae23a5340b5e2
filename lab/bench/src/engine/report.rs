//! Results of a benchmark as Markdown.

use std::fmt::Write;
use std::path::Path;

use super::Plan;
use crate::Row;
use crate::chart::Panel;
use crate::{ends, trip};
use bora_fib_bench::report::number;

/// An aim, and whether it was met.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The aim, with the measured numbers.
    pub text: String,
    /// Whether it was met.
    pub met: bool,
}

/// One benchmark's results.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Conditions of this run.
    pub notes: Vec<String>,
    /// Aims, and whether they were met.
    pub aims: Vec<Aim>,
    /// The numbers.
    pub rows: Vec<Row>,
    /// Charts.
    pub panels: Vec<Panel>,
}

impl Section {
    /// A section without results.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Adds an aim.
    pub fn aim(&mut self, met: bool, text: String) {
        self.aims.push(Aim { text, met });
    }
}

/// Prints the sections, writes them into the part `bench-NAME` of a document, and writes their
/// numbers to `target/bench/NAME.json`.
///
/// # Errors
/// If these cannot be written.
pub fn publish(
    name: &str,
    plan: Plan,
    mut sections: Vec<Section>,
    document: Option<&Path>,
) -> anyhow::Result<()> {
    let trip = trip::row()?;
    let mut text = format!(
        "{}; medians of {} rounds of {} ms (lowest to highest). {}.\n",
        crate::machine_text(),
        plan.rounds,
        plan.time.as_millis(),
        trip::text(trip.as_ref())
    );
    for section in &mut sections {
        ends::compare(&mut section.rows);
        text.push_str(&markdown(section));
    }
    println!("{text}");
    if let Some(path) = document {
        crate::document::update(path, &format!("bench-{name}"), &text)?;
    }
    let rows = sections.into_iter().flat_map(|section| section.rows);
    crate::write(name, &rows.chain(trip).collect::<Vec<_>>())
}

/// The section, with a table for each metric: a line for each case, a column for each subject, and
/// in the cells the median, the lowest and the highest round, and the ratio to the base subject.
fn markdown(section: &Section) -> String {
    let mut text = format!("\n### {}\n", section.title);
    for note in &section.notes {
        let _ = writeln!(text, "\n{note}");
    }
    if !section.aims.is_empty() {
        text.push('\n');
    }
    for aim in &section.aims {
        let verdict = if aim.met { "met" } else { "**missed**" };
        let _ = writeln!(text, "- {}: {verdict}", aim.text);
    }
    for metric in distinct(section.rows.iter().map(|row| (&row.metric, &row.unit))) {
        let rows: Vec<&Row> = section
            .rows
            .iter()
            .filter(|row| (&row.metric, &row.unit) == metric)
            .collect();
        table(&mut text, metric, &rows);
    }
    let explanation = ends::explanation(&section.rows);
    if !explanation.is_empty() {
        let _ = writeln!(text, "\n{explanation}");
    }
    text
}

fn table(text: &mut String, (metric, unit): (&String, &String), rows: &[&Row]) {
    let subjects = distinct(rows.iter().map(|row| &row.subject));
    let names: Vec<&str> = subjects.iter().map(|name| name.as_str()).collect();
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(", {unit}")
    };
    let _ = writeln!(text, "\n| {metric}{unit} | {} |", names.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(names.len()));
    for case in distinct(rows.iter().map(|row| &row.case)) {
        let cells = subjects.iter().map(|subject| {
            let of = |row: &&&Row| row.case == *case && row.subject == **subject;
            rows.iter().find(of).map_or(String::new(), |row| cell(row))
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| {case} | {} |", cells.join(" | "));
    }
}

fn cell(row: &Row) -> String {
    let (median, low, high) = (number(row.median), number(row.low), number(row.high));
    let mut cell = median.clone();
    if (&low, &high) != (&median, &median) {
        let _ = write!(cell, " ({low} to {high})");
    }
    if row.subject != row.ratio_to && row.ratio.is_finite() {
        let _ = write!(cell, ", {:.2} x", row.ratio);
    }
    if ends::limit(row) {
        let _ = write!(cell, ", {}", ends::MARK);
    }
    cell
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = vec![];
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Results;

    #[test]
    fn a_line_for_each_case_with_spread_and_ratio() {
        let mut results = Results::default();
        for value in [1.0, 2.0, 4.0] {
            results.add("a", "x", value);
            results.add("a", "y", 2.0 * value);
        }
        let mut section = Section::new("T");
        section.rows = results.rows("rate", "1/s", "x");
        section.aim(false, "y as x".into());
        let text = markdown(&section);
        assert!(text.contains("| rate, 1/s | x | y |"), "{text}");
        let line = "| a | 2.00 (1.00 to 4.00) | 4.00 (2.00 to 8.00), 2.00 x |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("- y as x: **missed**"), "{text}");
    }
}
