//! Where all packets went.

use std::collections::BTreeMap;

use bora_contract::Counts;
use serde::{Deserialize, Serialize};

use super::table::table;
use super::{Report, answer, by_name, typed};
use crate::data_plane::DataPlane;
use crate::engine::Engine;

pub(super) const REPORT: Report = Report::new(
    "drops",
    "Where every packet went, by reason",
    |router, _| answer(report(&router.plane)),
    |json, _| typed(json, text),
);

/// Where all packets went: `received = sent + passed + sum(drops) + held`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct DropsReport {
    /// Packets that came in by the ports, or from Linux by their twins.
    received: u64,
    /// Sent by either tier.
    sent: u64,
    /// Packets of these that flows of Linux's flowtables forwarded.
    #[serde(default)]
    flows: u64,
    /// Handed to Linux.
    passed: u64,
    /// In Bora's rings. Below zero would be a defect of Bora.
    held: i64,
    /// Dropped, by reason.
    drops: BTreeMap<String, u64>,
    /// Handed to Linux, by reason.
    punts: BTreeMap<String, u64>,
    /// What the reason `guard` stands for now.
    guard: Vec<String>,
}

/// Sums up all ports, removed ones too: what they received, others have sent.
fn report(plane: &DataPlane) -> DropsReport {
    let mut total = DropsReport::default();
    let (mut passed, mut dropped) = (Counts::default(), Counts::default());
    let (mut to_engine, mut from_engine) = (0, 0);
    for number in plane.ports().numbers() {
        let counted = plane.totals(number);
        total.received += counted.rx_packets + counted.from_linux;
        total.sent += counted.tx_packets;
        total.flows += counted.flows;
        passed += counted.passed;
        dropped += counted.dropped;
        to_engine += counted.to_engine;
        from_engine += counted.from_engine;
    }
    total.passed = passed.sum();
    let held = plane.engine().map_or(0, Engine::held);
    total.punts = by_name(&passed);
    total.drops = by_name(&dropped);
    let guard = plane.mirror().guard();
    total.guard = plane.express().holding(guard, &plane.names());
    // what was taken out is read before what was put in: see Totals::of
    total.held = (to_engine + held) as i64 - from_engine as i64;
    total
}

fn text(report: &DropsReport) -> String {
    let mut text = format!(
        "received {} = sent {} + to Linux {} + dropped {} + held {}\n",
        report.received,
        report.sent,
        report.passed,
        report.drops.values().sum::<u64>(),
        report.held
    );
    if report.flows > 0 {
        text += &format!("sent by flows of Linux's flowtables: {}\n", report.flows);
    }
    for (title, reasons) in [("TO LINUX", &report.punts), ("DROPPED", &report.drops)] {
        if !reasons.is_empty() {
            let row = |(name, count): (&String, &u64)| vec![name.clone(), count.to_string()];
            let rows: Vec<_> = reasons.iter().map(row).collect();
            text += &format!("\n{}", table(&[title, "PACKETS"], &rows));
        }
    }
    if report.punts.contains_key("guard") {
        for reason in &report.guard {
            text += &format!("guard: {reason}\n");
        }
    }
    text
}
