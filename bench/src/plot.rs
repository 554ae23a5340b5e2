//! Grouped bars as SVG.

use std::fmt::Write;

/// A panel: groups of bars, one bar a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Above the bars.
    pub title: String,
    /// Names of the series, in order.
    pub series: Vec<String>,
    /// Two lines under the bars, and one value a series.
    pub groups: Vec<([String; 2], Vec<f64>)>,
}

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 56.0;
const BARS: f64 = 170.0;
const PANEL: f64 = BARS + 100.0;
/// Told apart also by people who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#e69f00", "#f0c87a", "#999999", "#009e73", "#cc79a7",
];

/// The panels below each other.
pub fn bars(title: &str, unit: &str, panels: &[Panel]) -> String {
    let height = 48.0 + PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(
        &mut svg,
        LEFT,
        28.0,
        "font-size=\"17\" font-weight=\"bold\"",
        title,
    );
    for (index, panel) in panels.iter().enumerate() {
        draw(&mut svg, 48.0 + PANEL * index as f64, unit, panel);
    }
    svg + "</svg>\n"
}

fn draw(svg: &mut String, top: f64, unit: &str, panel: &Panel) {
    text(
        svg,
        LEFT,
        top + 16.0,
        "font-size=\"14\" font-weight=\"bold\"",
        &panel.title,
    );
    let mut x = LEFT;
    for (series, name) in panel.series.iter().enumerate() {
        rect(svg, [x, top + 26.0, 11.0, 11.0], colour(series));
        text(svg, x + 16.0, top + 36.0, "", name);
        x += 40.0 + 7.0 * name.len() as f64;
    }
    let (base, width) = (top + 50.0 + BARS, WIDTH - LEFT - 10.0);
    let values = panel.groups.iter().flat_map(|(_, values)| values);
    let step = step(
        values
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max),
    );
    let scale = (BARS - 14.0) / (step * 4.0);
    for line in 0..=4 {
        let value = step * f64::from(line);
        let y = base - value * scale;
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}h{width}\" stroke=\"#ddd\" stroke-width=\"1\"/>"
        );
        let label = if line == 4 {
            format!("{value} {unit}")
        } else {
            value.to_string()
        };
        text(svg, LEFT - 6.0, y + 4.0, "text-anchor=\"end\"", &label);
    }
    let slot = width / panel.groups.len().max(1) as f64;
    let bar = slot * 0.84 / panel.series.len().max(1) as f64;
    for (group, (labels, values)) in panel.groups.iter().enumerate() {
        let left = LEFT + slot * (group as f64 + 0.08);
        for (series, &value) in values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_finite())
        {
            let x = left + bar * series as f64;
            rect(
                svg,
                [x, base - value * scale, bar - 1.5, value * scale],
                colour(series),
            );
            let y = base - value * scale - 3.0;
            let label = if value < 9.95 {
                format!("{value:.1}")
            } else {
                format!("{value:.0}")
            };
            text(
                svg,
                x + bar / 2.0,
                y,
                "text-anchor=\"middle\" font-size=\"9\"",
                &label,
            );
        }
        for (line, label) in labels.iter().enumerate() {
            let y = base + 15.0 + 14.0 * line as f64;
            text(svg, left + slot * 0.42, y, "text-anchor=\"middle\"", label);
        }
    }
}

/// A round number of which four are at least the highest value.
pub(crate) fn step(highest: f64) -> f64 {
    let least = (highest / 4.0).max(1e-9);
    let ten = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * ten)
        .find(|step| *step >= least)
        .unwrap_or(least)
}

pub(crate) fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

pub(crate) fn rect(svg: &mut String, [x, y, width, height]: [f64; 4], colour: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"{colour}\"/>"
    );
}

pub(crate) fn text(svg: &mut String, x: f64, y: f64, style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_steps_hold_the_highest() {
        assert_eq!(
            [step(4.0), step(7.9), step(11.0), step(0.3)],
            [1.0, 2.0, 5.0, 0.1]
        );
    }

    #[test]
    fn a_bar_for_each_value() {
        let panel = Panel {
            title: "a < b".into(),
            series: vec!["x".into(), "y".into()],
            groups: vec![(["g".into(), String::new()], vec![1.0, f64::NAN])],
        };
        let svg = bars("t", "ns", &[panel]);
        assert!(svg.contains("a &lt; b"));
        // the background, two keys, one bar
        assert_eq!(svg.matches("<rect").count(), 4);
    }
}
