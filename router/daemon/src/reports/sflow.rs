//! Samples for collectors.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Report, answer, table, typed};
use crate::config::SflowSection;
use crate::router::Router;
use crate::sampling::Exported;

pub(super) const REPORT: Report = Report::new(
    "sflow",
    "Samples for collectors of sFlow, and what could not be sent",
    |router, _| answer(report(router)),
    |json, _| {
        let rows = json["collectors"].as_array().cloned().unwrap_or_default();
        let text = typed(json, text)?;
        match rows.is_empty() {
            true => Ok(text),
            false => Ok(text + &table::of_rows(COLUMNS, &json!(rows))),
        }
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("COLLECTOR", "address"),
    ("SENT", "sent"),
    ("REFUSED", "refused"),
    ("FAILED", "failed"),
    ("LAST ERROR", "error"),
];

/// The agent, if there are collectors.
#[derive(Debug, Serialize, Deserialize)]
struct SflowReport {
    /// As configured; `None` without collectors.
    section: Option<SflowSection>,
    /// Why nothing is sampled though it should be.
    trouble: Option<String>,
    /// What became of samples.
    #[serde(flatten)]
    exported: Exported,
}

fn report(router: &Router) -> SflowReport {
    let section = &router.in_force.file().sflow;
    SflowReport {
        section: (!section.collector.is_empty()).then(|| section.clone()),
        trouble: router.sampling.trouble().map(Into::into),
        exported: router.sampling.exported().unwrap_or_default(),
    }
}

fn text(report: &SflowReport) -> String {
    let Some(section) = &report.section else {
        return "no collectors: see [sflow] in docs/configuration.md\n".into();
    };
    if let Some(trouble) = &report.trouble {
        return format!("nothing is sampled: {trouble}\n");
    }
    let exported = &report.exported;
    let agent = exported
        .agent
        .map_or_else(|| "not known yet".into(), |address| address.to_string());
    let polling = match section.polling {
        0 => "no counters".into(),
        seconds => format!("counters every {seconds} s"),
    };
    format!(
        "agent {agent}, 1 in {} packets, {} octets of each, {polling}\n\
         {} packets sampled, {} lost; {} samples of counters\n",
        section.sampling,
        section.header,
        exported.samples,
        exported.lost_samples,
        exported.counter_samples
    )
}
