//! A comparison as a table for people.

use super::{Comparison, Difference, Verdict};
use crate::report::numbers;

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = [
            "finding",
            "frames",
            "first",
            "second",
            "change",
            "95 % or bounds",
            "verdict",
        ];
        let mut rows = vec![head.map(String::from)];
        let (without, with): (Vec<&Difference>, Vec<&Difference>) = self
            .differences
            .iter()
            .partition(|found| found.verdict == Verdict::NotComparable);
        rows.extend(with.iter().map(|found| found.cells()));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
        for row in rows.iter().filter(|_| rows.len() > 1) {
            let mut line = format!("{:<w$}", row[0], w = widths[0]);
            for column in 1..6 {
                line += &format!("  {:>w$}", row[column], w = widths[column]);
            }
            writeln!(f, "{line}  {}", row[6])?;
        }
        for alike in without.chunk_by(|a, b| (&a.test, &a.how) == (&b.test, &b.how)) {
            let (count, first) = (alike.len(), alike[0]);
            let [one, two] = &first.bounds;
            let values = match count {
                1 => format!(" ({}: {one}; {two})", first.metric),
                _ => String::new(),
            };
            writeln!(
                f,
                "not comparable: {}, {count} findings: {}{values}",
                first.test, first.how
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let tested = self
            .differences
            .iter()
            .filter(|found| found.how.starts_with("Welch"));
        match tested.count() {
            0..5 => Ok(()),
            count => writeln!(
                f,
                "note: of {count} tests at 95 %, about {} find a difference by chance",
                (count as f64 / 20.0).ceil()
            ),
        }
    }
}

impl Difference {
    fn cells(&self) -> [String; 7] {
        let value = |value: Option<f64>, bound: &str| {
            value.map_or(bound.into(), |value| numbers::quantity(value, &self.unit))
        };
        let change = |value: f64| format!("{value:+.2} %");
        let interval = self.low.zip(self.high);
        let goal = if self.goal.is_empty() { "" } else { ", " };
        let test = match self.test == self.metric {
            true => String::new(),
            false => format!("{}: ", self.test),
        };
        [
            format!("{test}{}{goal}{}", self.metric, self.goal),
            super::frames(&self.frames, &self.family),
            value(self.a, &self.bounds[0]),
            value(self.b, &self.bounds[1]),
            self.change.map_or("–".into(), change),
            interval.map_or("–".into(), |(low, high)| {
                format!("{low:+.2} … {high:+.2} %")
            }),
            self.verdict.text().into(),
        ]
    }
}
