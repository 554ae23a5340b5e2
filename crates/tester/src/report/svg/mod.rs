//! Plots as SVG for the HTML report: its style sheet gives the colours, so that they suit light,
//! dark and paper alike.

mod axis;
mod mark;

use std::fmt::Write;

use serde::Serialize;

pub(super) use axis::{Axis, Scale};

/// What is drawn; as JSON, what tests and scripts read back.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Plot {
    /// Of the SVG element; its data are in the element `data-ID`.
    pub(super) id: String,
    /// Above the plot.
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// Points of one kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Style {
    /// Markers, joined.
    Joined,
    /// Markers alone.
    Marks,
    /// A dashed line: what theory or the result says.
    Reference,
}

/// One point, in the units of the axes.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Bounds of `y`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bounds: Option<(f64, f64)>,
    /// Size of the mark, 0 to 1.
    #[serde(skip)]
    pub(super) size: f64,
    /// What a reader sees who points at the mark.
    #[serde(skip)]
    pub(super) tip: String,
}

impl Point {
    /// A point without bounds.
    pub(super) fn new(x: f64, y: f64, tip: String) -> Self {
        Self {
            x,
            y,
            bounds: None,
            size: 1.0,
            tip,
        }
    }
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Width of a letter of the legend, about.
const LETTER: f64 = 6.6;

impl Plot {
    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// The SVG element.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs = points().map(|point| point.x);
        let ys = points().flat_map(|point| {
            let (low, high) = point.bounds.unwrap_or((point.y, point.y));
            [low, point.y, high]
        });
        let x = self.x.place(xs, (LEFT, RIGHT));
        let y = self.y.place(ys, (BOTTOM, TOP));
        let legend = self.legend();
        let height = HEIGHT + legend.1;
        let title = mark::escape(&self.title);
        let mut svg = format!(
            "<svg id=\"{}\" role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">",
            mark::escape(&self.id)
        );
        self.grid(&mut svg, &x, &y);
        for (index, series) in self.series.iter().enumerate() {
            let _ = write!(svg, "<g class=\"series s{}\">", index % mark::KINDS);
            let x = x.shifted(self.aside(index));
            series.draw(&mut svg, index, &x, &y);
            svg += "</g>";
        }
        svg + &legend.0 + "</svg>"
    }

    /// How far a series is drawn aside, so that equal values of several do not hide each other.
    fn aside(&self, index: usize) -> f64 {
        let joined = |series: &&Series| series.style == Style::Joined;
        let count = self.series.iter().filter(joined).count();
        match self.x.scale {
            Scale::Names(_) if index < count => (index as f64 - (count - 1) as f64 / 2.0) * 8.0,
            _ => 0.0,
        }
    }

    fn grid(&self, svg: &mut String, x: &axis::Placed, y: &axis::Placed) {
        for (at, label) in &y.ticks {
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                at + 4.0,
                mark::escape(label)
            );
        }
        for (at, label) in &x.ticks {
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\
                 <text class=\"tick middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                BOTTOM + 17.0,
                mark::escape(label)
            );
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\
             <text class=\"label middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"label middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 37.0,
            mark::escape(&self.x.label),
            (TOP + BOTTOM) / 2.0,
            mark::escape(&self.y.label)
        );
    }

    /// Names of the series under the plot, in as many lines as they need, and the height of these.
    fn legend(&self) -> (String, f64) {
        if self.series.len() < 2 {
            return (String::new(), 0.0);
        }
        let (mut svg, mut x, mut y) = (String::from("<g class=\"legend\">"), LEFT, HEIGHT + 8.0);
        for (index, series) in self.series.iter().enumerate() {
            let width = 42.0 + LETTER * series.name.chars().count() as f64;
            if x + width > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + 19.0);
            }
            let _ = write!(svg, "<g class=\"s{}\">", index % mark::KINDS);
            if series.style != Style::Marks {
                let class = mark::line_class(series.style);
                let _ = write!(svg, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}h20\"/>");
            }
            if matches!(series.style, Style::Marks | Style::Joined) {
                mark::draw(&mut svg, index, x + 10.0, y, 1.0);
            }
            let _ = write!(
                svg,
                "</g><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 25.0,
                y + 4.0,
                mark::escape(&series.name)
            );
            x += width;
        }
        (svg + "</g>", y - HEIGHT + 14.0)
    }
}

impl Series {
    fn draw(&self, svg: &mut String, index: usize, x: &axis::Placed, y: &axis::Placed) {
        if self.style != Style::Marks {
            let mut path = String::new();
            let mut last = None;
            for point in &self.points {
                // no line over what was not found
                let joined = last.is_some_and(|last| x.are_neighbours(last, point.x));
                let command = if joined { 'L' } else { 'M' };
                last = Some(point.x);
                let _ = write!(path, "{command}{:.1} {:.1}", x.at(point.x), y.at(point.y));
            }
            let class = mark::line_class(self.style);
            let _ = write!(
                svg,
                "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
                mark::escape(&self.name)
            );
        }
        // so many points make a curve: a mark here and there tells it from others
        let every = self.points.len() / 8;
        let dense = self.style == Style::Joined && self.points.len() > 16;
        for (n, point) in self.points.iter().enumerate() {
            let bare = dense && n % every != index % every;
            let (px, py) = (x.at(point.x), y.at(point.y));
            let tip = mark::escape(&point.tip);
            if bare || self.style == Style::Reference {
                // nothing to see, but something to point at
                let _ = write!(
                    svg,
                    "<circle class=\"spot\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"5\"><title>{tip}</title></circle>"
                );
                continue;
            }
            let _ = write!(svg, "<g class=\"mark\"><title>{tip}</title>");
            if let Some((low, high)) = point.bounds {
                let (low, high) = (y.at(low), y.at(high));
                let _ = write!(
                    svg,
                    "<path class=\"bounds\" d=\"M{px:.1} {low:.1}V{high:.1}m-4 0h8M{:.1} {low:.1}h8\"/>",
                    px - 4.0
                );
            }
            mark::draw(svg, index, px, py, point.size);
            *svg += "</g>";
        }
    }
}

pub(super) use mark::escape;

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        Plot {
            id: "p".into(),
            title: "a < b".into(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("y", Scale::LogTime),
            series: vec![
                Series {
                    name: "one & two".into(),
                    style: Style::Joined,
                    points: vec![
                        Point::new(0.0, 10.0, "first".into()),
                        Point::new(10.0, 1000.0, "last".into()),
                    ],
                },
                Series {
                    name: "limit".into(),
                    style: Style::Reference,
                    points: vec![Point::new(0.0, 500.0, String::new())],
                },
            ],
        }
    }

    #[test]
    fn marks_are_where_the_numbers_say() {
        let svg = plot().svg();
        assert_eq!(svg.matches("class=\"mark\"").count(), 2);
        assert!(svg.contains("M76.0 294.0L576.0 14.0"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"));
    }

    #[test]
    fn nothing_to_draw_is_no_trouble() {
        let mut plot = plot();
        plot.series.clear();
        assert!(plot.is_empty());
        assert!(!plot.svg().contains("NaN"));
        plot.series.push(Series {
            name: "one".into(),
            style: Style::Marks,
            points: vec![Point::new(f64::NAN, f64::INFINITY, String::new())],
        });
        assert!(!plot.svg().contains("NaN") && !plot.svg().contains("inf"));
    }
}
