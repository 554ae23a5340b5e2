//! What each stage of the workers' loop takes.

use bora_forward::Stage;
use serde::Serialize;

use super::{Report, answer, table};
use crate::engine::Running;

pub(super) const REPORT: Report = Report::new(
    "profile",
    "Where the workers' time goes, as `bora profile` has measured it last",
    |router, _| {
        let workers = router.plane.engine().map(|engine| &engine.workers);
        let workers = workers.into_iter().flatten().enumerate();
        answer(workers.flat_map(report).collect::<Vec<_>>())
    },
    |json, _| {
        let none = "nothing is measured: `bora profile` measures, if there are workers and packets";
        Ok(table::of_rows_or(none, COLUMNS, &json))
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("WORKER", "worker"),
    ("STAGE", "stage"),
    ("NS A PACKET", "ns_per_packet"),
    ("PART, %", "percent"),
    ("PACKETS", "packets"),
    ("A BATCH", "packets_per_batch"),
];

/// One stage of a worker's loop.
#[derive(Debug, Serialize)]
struct StageReport {
    /// The worker's number.
    worker: usize,
    /// What it does: `receive`, `parse`, … `transmit`.
    stage: &'static str,
    /// Its time, nanoseconds a packet.
    ns_per_packet: f64,
    /// Its part of the time of all stages.
    percent: f64,
    /// Packets that were measured.
    packets: u64,
    /// How many came at once.
    packets_per_batch: f64,
}

fn report((worker, running): (usize, &Running)) -> Vec<StageReport> {
    let profile = &running.counters.profile;
    let (packets, batches) = (profile.packets.get(), profile.batches.get());
    if packets == 0 {
        return Vec::new();
    }
    let times: Vec<u64> = profile.stages.iter().map(|stage| stage.get()).collect();
    let all: u64 = times.iter().sum();
    // tenths are all that such a clock can tell
    let rounded = |value: f64| (value * 10.0).round() / 10.0;
    let stages = Stage::ALL.iter().zip(times);
    let stages = stages.map(|(stage, time)| StageReport {
        worker,
        stage: stage.name(),
        ns_per_packet: rounded(time as f64 / packets as f64),
        percent: rounded(100.0 * time as f64 / all.max(1) as f64),
        packets,
        packets_per_batch: rounded(packets as f64 / batches as f64),
    });
    stages.collect()
}
