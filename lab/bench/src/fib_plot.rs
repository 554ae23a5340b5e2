//! The look-ups of `bench-fib` as plots.

use bora_fib_bench::report::split;
use bora_fib_bench::run::{BY_AS, LOOKUP};
use bora_tester::report::svg::{Axis, Plot, Point, Scale, Series, Style};

use crate::{Row, ends};

/// Look-ups of the tables by AS: a plot for each family and state of the caches, a series for each
/// subject.
pub fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = vec![];
    let wanted = |row: &&Row| {
        row.metric == LOOKUP.0 && row.case.contains(BY_AS) && row.subject != ends::ALONE
    };
    for row in rows.iter().filter(wanted) {
        let (case, vector) = split(row);
        let mut parts = case.splitn(4, ", ");
        let (Some(family), Some(_), Some(caches), Some(keys)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let title = format!("{family}, caches {caches}");
        let index = position(&mut plots, |plot| plot.title == title, || empty(&title));
        let Plot { x, series, .. } = &mut plots[index];
        let Scale::Names(names) = &mut x.scale else {
            continue;
        };
        let name = format!("{keys}\nvectors of {vector}");
        let place = position(names, |known| *known == name, || name.clone());
        let make = || Series {
            name: row.subject.clone(),
            style: Style::Bars,
            points: vec![],
        };
        let subject = position(series, |series| series.name == row.subject, make);
        let point = Point::new(place as f64, row.median, String::new());
        series[subject].points.push(point);
    }
    plots
}

fn empty(title: &str) -> Plot {
    Plot {
        id: String::new(),
        title: title.into(),
        x: Axis::new("", Scale::Names(vec![])),
        y: Axis::new("ns", Scale::Linear),
        series: vec![],
    }
}

/// The index of an element, which is added if it does not exist.
fn position<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    all.iter().position(is).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    })
}
