//! Markers, line styles and escaping.

use super::Style;

/// Kinds of markers, and colours in the style sheet.
pub(super) const KINDS: usize = 8;

/// The class of a series' line.
pub(super) fn line_class(style: Style) -> &'static str {
    match style {
        Style::Reference => "line reference",
        _ => "line",
    }
}

/// The outline of a series' marker; each of the [`KINDS`] has another.
pub(super) fn shape(index: usize, x: f64, y: f64, size: f64) -> String {
    // the smallest must be seen, and its shape told
    let r = 2.6 + 2.2 * size.clamp(0.0, 1.0).sqrt();
    match index % KINDS {
        0 => format!(
            "M{:.1} {y:.1}a{r:.1} {r:.1} 0 1 0 {w:.1} 0a{r:.1} {r:.1} 0 1 0 -{w:.1} 0z",
            x - r,
            w = 2.0 * r
        ),
        1 => format!(
            "M{:.1} {:.1}h{w:.1}v{w:.1}h-{w:.1}z",
            x - r * 0.85,
            y - r * 0.85,
            w = r * 1.7
        ),
        2 => polygon(x, y, r * 1.25, &[-90, 30, 150]),
        3 => polygon(x, y, r * 1.2, &[0, 90, 180, 270]),
        4 => polygon(x, y, r * 1.25, &[90, 210, 330]),
        5 => polygon(x, y, r * 1.1, &[-90, -18, 54, 126, 198]),
        6 => polygon(x, y, r * 1.1, &[0, 60, 120, 180, 240, 300]),
        _ => polygon(x, y, r * 1.5, &[45, 90, 135, 225, 270, 315]),
    }
}

fn polygon(x: f64, y: f64, r: f64, angles: &[i32]) -> String {
    let corners: Vec<String> = angles
        .iter()
        .map(|angle| {
            let angle = f64::from(*angle).to_radians();
            format!("{:.1} {:.1}", x + r * angle.cos(), y + r * angle.sin())
        })
        .collect();
    format!("M{}z", corners.join("L"))
}

/// Text for HTML and SVG, in elements and in attributes with double quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_into_the_page() {
        assert_eq!(
            escape("<b a=\"x\" c='y'>&\u{1b}[0m"),
            "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;\u{fffd}[0m"
        );
    }

    #[test]
    fn markers_differ() {
        let shapes: std::collections::HashSet<String> = (0..KINDS)
            .map(|index| shape(index, 10.0, 10.0, 1.0))
            .collect();
        assert_eq!(shapes.len(), KINDS);
    }
}
