//! The look-ups of `bench-fib` as panels of a plot.

use bora_fib_bench::run::{BY_AS, LOOKUP};

use crate::Row;
use crate::fib_report::split;
use crate::plot::Panel;

/// Look-ups of the tables by AS: a panel for each family and state of the caches.
pub fn panels(rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = vec![];
    let wanted = |row: &&Row| row.metric == LOOKUP.0 && row.case.contains(BY_AS);
    for row in rows.iter().filter(wanted) {
        let (case, vector) = split(row);
        let mut parts = case.splitn(4, ", ");
        let (Some(family), Some(_), Some(caches), Some(keys)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let title = format!("{family}, caches {caches}");
        let index = position(
            &mut panels,
            |panel| panel.title == title,
            || Panel {
                title: title.clone(),
                series: vec![],
                groups: vec![],
            },
        );
        let Panel { series, groups, .. } = &mut panels[index];
        let labels = [keys.to_string(), format!("vectors of {vector}")];
        let group = position(
            groups,
            |group| group.0 == labels,
            || (labels.clone(), vec![]),
        );
        let subject = position(series, |name| *name == row.subject, || row.subject.clone());
        let values = &mut groups[group].1;
        values.resize(values.len().max(subject + 1), f64::NAN);
        values[subject] = row.median;
    }
    panels
}

/// Where it is; at the end if it was not there.
fn position<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    all.iter().position(is).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    })
}
