//! Line charts.

use bora_tester::report::svg::{Axis, Plot, Point, Scale, Series, Style};

/// One line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// Names of the x axis and the y axis.
    pub axes: [&'static str; 2],
    /// Names, and points from left to right.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// An axis is logarithmic if its ends differ by more than this factor.
const WIDE: f64 = 20.0;

impl Panel {
    /// Converts it to a plot.
    pub fn plot(&self) -> Plot {
        let xs = || {
            let points = self.lines.iter().flat_map(|(_, points)| points);
            points.map(|(x, _)| *x)
        };
        let (first, last) = (xs().fold(f64::MAX, f64::min), xs().fold(0.0, f64::max));
        let scale = match first > 0.0 && last / first > WIDE {
            true => Scale::Log,
            false => Scale::Linear,
        };
        let point =
            |name: &str, &(x, y): &(f64, f64)| Point::new(x, y, format!("{name}: {y:.3} at {x}"));
        let series = self.lines.iter().map(|(name, points)| Series {
            name: name.clone(),
            style: Style::Joined,
            points: points.iter().map(|at| point(name, at)).collect(),
        });
        Plot {
            id: String::new(),
            title: self.title.clone(),
            x: Axis::new(self.axes[0], scale),
            y: Axis::new(self.axes[1], Scale::Linear),
            series: series.collect(),
        }
    }
}
