//! `/metrics`: counters and gauges for Prometheus, in the format that the client asks for.

use std::fmt::Write;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;

use super::Shared;
use super::access::text_of;
use crate::api::open_metrics::{Kind, Metric, collect};
use crate::process::fair::Place;
use crate::router::Router;

const OPEN_METRICS: &str = "application/openmetrics-text";
const TEXT: &str = "text/plain";

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl Format {
    /// What a client accepts; text, which everything can read, if it does not say.
    fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(text_of).collect();
        let [open, text] = [OPEN_METRICS, TEXT].map(|kind| quality(&accept.join(","), kind));
        match open > 0.0 && open >= text {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How much a media type is wanted (RFC 9110, 12.5.1), from 0 to 1; 0 if it is not named.
#[expect(
    clippy::disallowed_methods,
    reason = "a weight that cannot be read is no wish"
)]
fn quality(accept: &str, kind: &str) -> f32 {
    let of = |one: &str| {
        let mut parts = one.split(';').map(str::trim);
        let is_it = parts.next()?.eq_ignore_ascii_case(kind);
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_it.then(|| weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
    };
    accept.split(',').filter_map(of).fold(0.0, f32::max)
}

pub(super) async fn metrics(
    State(shared): State<Shared>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
) -> Response {
    let format = Format::accepted(&headers);
    let collect = |router: &mut Router| Ok(collect(router));
    match shared.ask(&place, "metrics", collect).await {
        Ok(metrics) => {
            let text = encoded(&metrics, format);
            shared.bodies.response(format.content_type(), text)
        }
        Err(response) => response,
    }
}

fn encoded(metrics: &[Metric], format: Format) -> String {
    let mut text = String::new();
    for metric in metrics {
        let (kind, ending) = match metric.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        let family = match format {
            Format::OpenMetrics => metric.name.to_owned(),
            Format::Text => format!("{}{ending}", metric.name),
        };
        let help = metric.help.replace('\\', "\\\\");
        line(&mut text, format_args!("# HELP {family} {help}"));
        line(&mut text, format_args!("# TYPE {family} {kind}"));
        for (labels, value) in &metric.samples {
            let name = metric.name;
            line(
                &mut text,
                format_args!("{name}{ending}{} {value}", Set(labels)),
            );
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.push_str(&what.to_string());
    text.push('\n');
}

/// Labels as both formats write them.
struct Set<'a>(&'a [(&'static str, std::borrow::Cow<'static, str>)]);

impl std::fmt::Display for Set<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            f.write_str(if place == 0 { "{" } else { "," })?;
            write!(f, "{name}=\"")?;
            for character in value.chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    other => f.write_char(other)?,
                }
            }
            f.write_str("\"")?;
        }
        if !self.0.is_empty() {
            f.write_str("}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Format::accepted(&headers)
    }

    #[test]
    fn a_client_gets_what_it_asks_for() {
        assert_eq!(Format::accepted(&HeaderMap::new()), Format::Text);
        for accept in [
            "*/*",
            "text/plain",
            "text/html, */*;q=0.1",
            "application/openmetrics-text;q=0",
        ] {
            assert_eq!(format(accept), Format::Text, "{accept}");
        }
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        assert_eq!(format(prometheus), Format::OpenMetrics);
        assert_eq!(
            format("text/plain;q=0.9, application/openmetrics-text;q=0.5"),
            Format::Text
        );
    }

    #[test]
    fn both_formats_are_written_as_they_are_read() {
        let metrics = [Metric {
            name: "bora_things",
            help: "Things.",
            kind: Kind::Counter,
            samples: vec![(vec![("port", "a\"\\\n".into())], 3.0), (Vec::new(), 0.5)],
        }];
        let samples = "bora_things_total{port=\"a\\\"\\\\\\n\"} 3\nbora_things_total 0.5\n";
        let open = "# HELP bora_things Things.\n# TYPE bora_things counter\n";
        assert_eq!(
            encoded(&metrics, Format::OpenMetrics),
            format!("{open}{samples}# EOF\n")
        );
        let text = open.replace("bora_things ", "bora_things_total ");
        assert_eq!(encoded(&metrics, Format::Text), format!("{text}{samples}"));
    }
}
