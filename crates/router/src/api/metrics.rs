//! `/metrics`: counters and gauges for Prometheus, as OpenMetrics 1.0.

use std::fmt;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Shared;
use crate::fair::Place;
use crate::metrics::{Kind, Metric, collect};
use crate::router::Router;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(
    State(shared): State<Shared>,
    Extension(place): Extension<Place>,
) -> Response {
    let collect = |router: &mut Router| Ok(collect(router));
    let metrics = match shared.ask(&place, "metrics", collect).await {
        Ok(metrics) => metrics,
        Err(response) => return response,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(metrics)));
    let mut text = String::new();
    match text::encode(&mut text, &registry) {
        Ok(()) => shared.bodies.response(CONTENT_TYPE, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Debug)]
struct Collected(Vec<Metric>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in &self.0 {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for (labels, value) in &metric.samples {
                let one = family.encode_family(labels)?;
                match metric.kind {
                    Kind::Counter => ConstCounter::new(*value as u64).encode(one)?,
                    Kind::Gauge => ConstGauge::new(*value).encode(one)?,
                }
            }
        }
        Ok(())
    }
}
