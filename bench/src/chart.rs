//! Lines over a number, as SVG.

use std::fmt::Write;

use crate::plot::{colour, rect, step, text};

/// Lines in one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Above the lines.
    pub title: String,
    /// Names, and points from left to right.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 56.0;
const HEIGHT: f64 = 240.0;
const PANEL: f64 = HEIGHT + 100.0;
/// Beyond this ratio between the ends the axis is logarithmic.
const WIDE: f64 = 20.0;

/// The panels below each other.
pub fn lines(title: &str, panels: &[Panel]) -> String {
    let height = 48.0 + PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let style = "font-size=\"17\" font-weight=\"bold\"";
    text(&mut svg, LEFT, 28.0, style, title);
    for (index, panel) in panels.iter().enumerate() {
        draw(&mut svg, 48.0 + PANEL * index as f64, panel);
    }
    svg + "</svg>\n"
}

/// Where a number is on the horizontal axis.
struct Axis {
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    fn of(points: impl Iterator<Item = f64> + Clone) -> Self {
        let from = points.clone().fold(f64::INFINITY, f64::min);
        let to = points.fold(from, f64::max);
        Self {
            from,
            to,
            log: from > 0.0 && to / from > WIDE,
        }
    }

    fn at(&self, x: f64) -> f64 {
        let place = |x: f64| if self.log { x.log10() } else { x };
        let length = (place(self.to) - place(self.from)).max(1e-9);
        LEFT + (place(x) - place(self.from)) / length * (WIDTH - LEFT - 30.0)
    }
}

fn draw(svg: &mut String, top: f64, panel: &Panel) {
    let style = "font-size=\"14\" font-weight=\"bold\"";
    text(svg, LEFT, top + 16.0, style, &panel.title);
    let mut x = LEFT;
    for (series, (name, _)) in panel.lines.iter().enumerate() {
        rect(svg, [x, top + 26.0, 11.0, 11.0], colour(series));
        text(svg, x + 16.0, top + 36.0, "", name);
        x += 40.0 + 7.0 * name.len() as f64;
    }
    let base = top + 54.0 + HEIGHT;
    let points = || panel.lines.iter().flat_map(|(_, points)| points);
    let axis = Axis::of(points().map(|point| point.0));
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let step = step(highest);
    // a line may stand out a little above the last one
    let steps = (highest / step - 0.2).ceil().max(1.0);
    let y_of = |y: f64| base - y * (HEIGHT - 24.0) / (step * steps);
    for line in 0..=steps as u32 {
        let (value, y) = (step * f64::from(line), y_of(step * f64::from(line)));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"#ddd\"/>",
            WIDTH - 30.0
        );
        let end = "text-anchor=\"end\"";
        text(svg, LEFT - 6.0, y + 4.0, end, &value.to_string());
    }
    let mut free = f64::NEG_INFINITY;
    for (x, _) in panel.lines.first().map_or(&[][..], |(_, points)| points) {
        let at = axis.at(*x);
        if at > free {
            let middle = "text-anchor=\"middle\"";
            let label = (x * 1e3).round() / 1e3;
            text(svg, at, base + 16.0, middle, &label.to_string());
            free = at + 24.0;
        }
    }
    for (series, (_, points)) in panel.lines.iter().enumerate() {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", axis.at(*x), y_of(*y));
        }
        let colour = colour(series);
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_for_each_line() {
        let line = |name: &str| (name.to_string(), vec![(0.1, 0.1), (1.0, 1.0), (10.0, 1.0)]);
        let panel = Panel {
            title: "t".into(),
            lines: vec![line("a"), line("b")],
        };
        let svg = lines("x", &[panel]);
        assert_eq!(svg.matches("fill=\"none\"").count(), 2);
        // a logarithmic axis has 1 in the middle of 0.1 and 10
        let middle = (LEFT + WIDTH - 30.0) / 2.0;
        assert!(svg.contains(&format!("L{middle:.1} ")), "{svg}");
    }
}
