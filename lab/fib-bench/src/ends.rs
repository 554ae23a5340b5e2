//! What the ends of a case take alone: sources, sinks and generators without the router between them.
//!
//! A case whose ends take most of its time compares them and not the routers. So each bench measures
//! its ends as one more subject, [`ALONE`], and every table and JSON row shows where they are the limit.

use std::fmt::Write;

use crate::results::Row;

/// The subject that is the ends without a router.
pub const ALONE: &str = "ends alone";
/// Above this share of a case's time they are its limit.
const LIMIT: f64 = 0.8;
/// What a table shows there.
pub const MARK: &str = "ends";

/// Gives each row the share that the ends take of it, where its case has them: of a time what they take,
/// of a rate what the router reaches of theirs.
pub fn compare(rows: &mut [Row]) {
    let alone: Vec<Row> = rows.iter().filter(|row| is_alone(row)).cloned().collect();
    for row in rows.iter_mut().filter(|row| !is_alone(row)) {
        let same = |ends: &&Row| {
            (&ends.case, &ends.metric, &ends.unit) == (&row.case, &row.metric, &row.unit)
        };
        let ends = alone.iter().find(same).map(|ends| ends.median);
        row.ends = ends.and_then(|ends| match row.unit.as_str() {
            "ns" | "us" => Some(ends / row.median),
            unit if unit.ends_with("/s") => Some(row.median / ends),
            _ => None,
        });
    }
}

/// Whether the ends are the limit of this row, so that it says little of the router.
pub fn limit(row: &Row) -> bool {
    row.ends.is_some_and(|share| share > LIMIT)
}

/// Takes out the rows of subjects that their own ends are slower than, which cannot be, and those ends; returns
/// their names.
pub fn refuse(rows: &mut Vec<Row>) -> Vec<String> {
    let impossible = |row: &&Row| row.ends.is_some_and(|share| share > 1.0);
    let refused: Vec<Row> = rows.iter().filter(impossible).cloned().collect();
    rows.retain(|row| {
        let same = |other: &Row| {
            (&other.case, &other.metric, &other.unit) == (&row.case, &row.metric, &row.unit)
                && (is_alone(row) || other.subject == row.subject)
        };
        !refused.iter().any(same)
    });
    for row in rows.iter_mut() {
        let is_base = |other: &Row| other.case == row.case && other.subject == row.ratio_to;
        if refused.iter().any(is_base) {
            row.ratio = f64::NAN;
        }
    }
    let name = |row: &Row| format!("{}: {}", row.case, row.subject);
    refused.iter().map(name).collect()
}

/// The line that explains the mark, if a row has it.
pub fn explanation<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut text = String::new();
    if rows.into_iter().any(limit) {
        let _ = write!(
            text,
            "`{MARK}`: source, sink or generator alone take more than {:.0} % of the time; the router may \
             be faster than this.",
            LIMIT * 100.0
        );
    }
    text
}

fn is_alone(row: &Row) -> bool {
    row.subject == ALONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;

    fn rows(unit: &str, values: [f64; 3]) -> Vec<Row> {
        let mut results = Results::default();
        for (subject, value) in ["fast", "slow", ALONE].into_iter().zip(values) {
            results.add("a case", subject, value);
        }
        results.add("without", "fast", values[0]);
        let mut rows = results.rows("cost", unit, "fast");
        compare(&mut rows);
        rows
    }

    #[test]
    fn a_share_has_no_ends() {
        assert!(
            rows("%", [1.0, 1.0, 0.0])
                .iter()
                .all(|row| row.ends.is_none())
        );
    }

    #[test]
    fn what_is_faster_than_its_ends_is_refused() {
        let mut rows = rows("packets/s", [11e6, 1e6, 10e6]);
        assert_eq!(refuse(&mut rows), ["a case: fast"]);
        let left: Vec<_> = rows.iter().map(|row| (&*row.case, &*row.subject)).collect();
        assert_eq!(left, [("a case", "slow"), ("without", "fast")]);
        assert!(rows[0].ratio.is_nan() && rows[1].ratio == 1.0);
        assert!(refuse(&mut rows).is_empty());
    }

    #[test]
    fn ends_limit_what_is_hardly_slower() {
        let times = rows("ns", [10.0, 100.0, 9.0]);
        let rates = rows("packets/s", [9e6, 1e6, 10e6]);
        for rows in [times, rates] {
            let limits: Vec<bool> = rows.iter().map(limit).collect();
            assert_eq!(limits, [true, false, false, false]);
            assert!((rows[0].ends.unwrap() - 0.9).abs() < 1e-9);
            assert!(rows[2].ends.is_none() && rows[3].ends.is_none());
            assert!(explanation(&rows).contains("80 %"));
            assert_eq!(explanation(&rows[1..]), "");
        }
    }
}
