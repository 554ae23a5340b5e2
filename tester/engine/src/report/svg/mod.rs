//! Plots as SVG: of the HTML report, whose style sheet gives colours that suit light, dark and paper
//! alike, and on sheets of their own.

mod axis;
mod mark;

use std::fmt::Write;

use serde::Serialize;

pub use axis::{Axis, Scale};

/// What is drawn; as JSON, what tests and scripts read back.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// Identifier of the SVG element; its data are in the element `data-ID`.
    pub id: String,
    /// Above the plot.
    pub title: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// Series in the order of the legend.
    pub series: Vec<Series>,
}

/// Points of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// How the points are drawn.
    pub style: Style,
    /// Points from left to right.
    pub points: Vec<Point>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Markers, joined.
    Joined,
    /// Markers alone.
    Marks,
    /// A dashed line: what theory or the result says.
    Reference,
    /// Bars side by side over names, each with its value; all series of such a plot are bars.
    Bars,
}

/// One point, in the units of the axes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Place on the axis from left to right.
    pub x: f64,
    /// Place on the axis from bottom to top.
    pub y: f64,
    /// Bounds of `y`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<(f64, f64)>,
    /// Size of the mark, 0 to 1.
    #[serde(skip)]
    pub size: f64,
    /// The text of a mark, when the pointer is on it.
    #[serde(skip)]
    pub tip: String,
}

impl Point {
    /// A point without bounds.
    pub fn new(x: f64, y: f64, tip: String) -> Self {
        Self {
            x,
            y,
            bounds: None,
            size: 1.0,
            tip,
        }
    }
}

/// Widths of plots, and of those with bars, which have a sheet of their own.
const WIDTH: f64 = 600.0;
const WIDE: f64 = 1120.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;
/// Room between a plot's right end and that of its x axis.
const MARGIN: f64 = 24.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Width of a letter of the legend, about.
const LETTER: f64 = 6.6;

impl Plot {
    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    fn has_bars(&self) -> bool {
        self.series.iter().any(|series| series.style == Style::Bars)
    }

    fn width(&self) -> f64 {
        if self.has_bars() { WIDE } else { WIDTH }
    }

    /// The SVG element.
    pub fn svg(&self) -> String {
        let (body, height) = self.body();
        let (id, title) = (mark::escape(&self.id), mark::escape(&self.title));
        let width = self.width();
        format!(
            "<svg id=\"{id}\" role=\"img\" aria-label=\"{title}\" \
             viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">{body}</svg>"
        )
    }

    /// What is drawn, and how high it is.
    fn body(&self) -> (String, f64) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs = points().map(|point| point.x);
        let ys = points().flat_map(|point| {
            let (low, high) = point.bounds.unwrap_or((point.y, point.y));
            [low, point.y, high]
        });
        let x = self.x.place(xs, (LEFT, self.width() - MARGIN));
        let y = self.y.place(ys, (BOTTOM, TOP));
        let mut svg = String::new();
        self.grid(&mut svg, &x, &y);
        for (index, series) in self.series.iter().enumerate() {
            let _ = write!(svg, "<g class=\"series s{}\">", index % mark::KINDS);
            match series.style {
                Style::Bars => series.bars(&mut svg, (index, self.series.len()), &x, &y),
                _ => series.draw(&mut svg, index, &x.shifted(self.aside(index)), &y),
            }
            svg += "</g>";
        }
        let (legend, height) = self.legend();
        (svg + &legend, HEIGHT + height)
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
        let right = self.width() - MARGIN;
        for (at, label) in &y.ticks {
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                at + 4.0,
                mark::escape(label)
            );
        }
        for (at, label) in &x.ticks {
            if !self.has_bars() {
                let _ = write!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>");
            }
            for (line, label) in label.lines().enumerate() {
                let _ = write!(
                    svg,
                    "<text class=\"tick middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                    BOTTOM + 17.0 + 14.0 * line as f64,
                    mark::escape(label)
                );
            }
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{right}\"/>\
             <text class=\"label middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"label middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
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
            if x + width > self.width() - MARGIN && x > LEFT {
                (x, y) = (LEFT, y + 19.0);
            }
            let _ = write!(svg, "<g class=\"s{}\">", index % mark::KINDS);
            if matches!(series.style, Style::Joined | Style::Reference) {
                let class = mark::line_class(series.style);
                let _ = write!(svg, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}h20\"/>");
            }
            if series.style == Style::Bars {
                let top = y - 5.5;
                let _ = write!(
                    svg,
                    "<path class=\"key\" d=\"M{:.1} {top:.1}h11v11h-11z\"/>",
                    x + 7.0
                );
            }
            if matches!(series.style, Style::Marks | Style::Joined) {
                let shape = mark::shape(index, x + 10.0, y, 1.0);
                let _ = write!(svg, "<path class=\"key\" d=\"{shape}\"/>");
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
    /// Draws the bars of a series, of which there are `count`.
    fn bars(
        &self,
        svg: &mut String,
        (index, count): (usize, usize),
        x: &axis::Placed,
        y: &axis::Placed,
    ) {
        let slot = x.at(1.0) - x.at(0.0);
        let width = slot * 0.84 / count as f64;
        for point in self.points.iter().filter(|point| point.y.is_finite()) {
            let left = x.at(point.x) - slot * 0.42 + width * index as f64;
            let top = y.at(point.y);
            let value = match point.y {
                value if value < 9.95 => format!("{value:.1}"),
                value => format!("{value:.0}"),
            };
            let _ = write!(
                svg,
                "<path class=\"mark\" d=\"M{left:.1} {BOTTOM}V{top:.1}h{:.1}V{BOTTOM}z\"/>\
                 <text class=\"value middle\" x=\"{:.1}\" y=\"{:.1}\">{value}</text>",
                width - 1.5,
                left + width / 2.0,
                top - 3.0
            );
        }
    }

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
        // that many points make a curve: a mark here and there tells it from others
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
            if let Some((low, high)) = point.bounds {
                let (low, high) = (y.at(low), y.at(high));
                let _ = write!(
                    svg,
                    "<path class=\"bounds\" d=\"M{px:.1} {low:.1}V{high:.1}m-4 0h8M{:.1} {low:.1}h8\"/>",
                    px - 4.0
                );
            }
            let shape = mark::shape(index, px, py, point.size);
            let _ = write!(
                svg,
                "<path class=\"mark\" d=\"{shape}\"><title>{tip}</title></path>"
            );
        }
    }
}

pub use mark::escape;

/// What the style sheet of a plot has, wherever the plot is.
pub(super) const STYLE: &str = include_str!("style.css");

/// Plots below each other as a file of their own, on white.
pub fn sheet(title: &str, plots: &[Plot]) -> String {
    /// Height of the sheet's title, and of a plot's.
    const TITLE: f64 = 44.0;
    const HEADING: f64 = 26.0;
    let (mut body, mut y) = (String::new(), TITLE);
    for plot in plots {
        let (drawn, height) = plot.body();
        let _ = writeln!(
            body,
            "<text class=\"heading\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>\n\
             <g transform=\"translate(0 {:.1})\">{drawn}</g>",
            y + 16.0,
            mark::escape(&plot.title),
            y + HEADING
        );
        y += HEADING + height + 16.0;
    }
    let width = plots.iter().map(Plot::width).fold(WIDTH, f64::max);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\">\n<style>\n{}{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{}</text>\n{body}</svg>\n",
        include_str!("sheet.css"),
        mark::escape(title)
    )
}

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
    fn a_sheet_has_all_plots_and_a_bar_for_each_value() {
        let bars = |name: &str, values: [f64; 2]| Series {
            name: name.into(),
            style: Style::Bars,
            points: (0..2)
                .map(|n| Point::new(n as f64, values[n], String::new()))
                .collect(),
        };
        let names = ["one\ntwo lines", "other"].map(String::from).to_vec();
        let with_bars = Plot {
            x: Axis::new("", Scale::Names(names)),
            y: Axis::new("ns", Scale::Linear),
            series: vec![bars("x", [1.0, f64::NAN]), bars("y", [10.0, 4.0])],
            ..plot()
        };
        let sheet = sheet("a & b", &[plot(), with_bars]);
        assert!(sheet.contains("a &amp; b") && sheet.contains("viewBox=\"0 0 1120 "));
        assert_eq!(sheet.matches("class=\"mark\"").count(), 2 + 3);
        assert_eq!(sheet.matches("class=\"heading\"").count(), 2);
        assert!(sheet.contains(">two lines</text>") && !sheet.contains("NaN"));
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
