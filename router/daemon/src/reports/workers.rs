//! The workers.

use bora_worker::PortCounters;
use serde::Serialize;
use serde_json::Value;

use super::{Report, answer, table};
use crate::engine::{Engine, Running};
use crate::process::cpus;

pub(super) const REPORT: Report = Report::new(
    "workers",
    "Workers: CPU, mode, what they did",
    |router, _| {
        let engine = router.plane.engine().into_iter();
        let reports = engine.flat_map(|engine| {
            let workers = engine.workers.iter().enumerate();
            workers.map(|(index, worker)| report(engine, index, worker))
        });
        answer(reports.collect::<Vec<_>>())
    },
    |mut json, _| {
        let workers = json.as_array_mut().into_iter().flatten();
        workers.for_each(complete);
        let none = "no workers: every port takes the express path";
        Ok(table::of_rows_or(none, COLUMNS, &json))
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("WORKER", "index"),
    ("CPU", "core"),
    ("NODE", "node"),
    ("SHARES WITH", "shares_with"),
    ("MODE", "mode"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
    ("HELD", "held"),
    ("LOOPS", "loops"),
    ("SLEEPS", "sleeps"),
    ("POOL", "pool_size"),
    ("POOL HITS", HIT_RATE),
    ("EXHAUSTED", "pool_exhausted"),
];

/// A worker; its counts begin when it starts, also with other `workers.cores`.
#[derive(Debug, Serialize)]
struct WorkerReport {
    /// Number.
    index: usize,
    /// CPU, if pinned.
    core: Option<usize>,
    /// NUMA node of that CPU.
    node: Option<usize>,
    /// Other CPUs that share its physical core or its second-level cache.
    shares_with: Vec<usize>,
    /// When it looks at its queues: `poll`, `adaptive`, `moderated:PACKETS:MICROSECONDS` or
    /// `interrupt`.
    mode: String,
    /// Changes of its settings that it has not adopted yet.
    behind: u64,
    /// Times round the loop.
    loops: u64,
    /// Times asleep.
    sleeps: u64,
    /// Packets received.
    rx_packets: u64,
    /// Packets sent.
    tx_packets: u64,
    /// Packets in its transmit rings.
    held: u64,
    /// Frames from its own list.
    pool_hits: u64,
    /// Frames fetched from the reserve.
    pool_refilled: u64,
    /// Frames given back to the reserve.
    pool_spilled: u64,
    /// Requests that found no frame.
    pool_exhausted: u64,
    /// Frames on its own list now.
    pool_size: u64,
}

fn report(engine: &Engine, index: usize, worker: &Running) -> WorkerReport {
    let counters = &worker.counters;
    let sum = |of: fn(&PortCounters) -> u64| counters.ports.iter().map(of).sum();
    let cpu = worker.core.and_then(cpus::cpu);
    WorkerReport {
        index,
        core: worker.core,
        node: cpu.as_ref().map(|cpu| cpu.node),
        shares_with: cpu.map(|cpu| cpu.others()).unwrap_or_default(),
        mode: engine.tables().mode_of(index).to_string(),
        behind: engine.lag(worker),
        loops: counters.loops.get(),
        sleeps: counters.sleeps.get(),
        rx_packets: sum(|port| port.rx_packets.get()),
        tx_packets: sum(|port| port.tx_packets.get()),
        held: counters.held.get(),
        pool_hits: counters.pool_hits.get(),
        pool_refilled: counters.pool_refilled.get(),
        pool_spilled: counters.pool_spilled.get(),
        pool_exhausted: counters.pool_exhausted.get(),
        pool_size: counters.pool_size.get(),
    }
}

/// A column of the table that the report does not have.
const HIT_RATE: &str = "hit_rate";

/// Adds to a row what only the table shows.
fn complete(worker: &mut Value) {
    if worker["core"].is_null() {
        worker["core"] = "any".into();
    }
    let count = |key: &str| worker[key].as_f64().unwrap_or(0.0);
    // the share of frames that it took from its own list
    let all = count("pool_hits") + count("pool_refilled");
    let rate = format!("{:.1} %", 100.0 * count("pool_hits") / all);
    worker[HIT_RATE] = if all > 0.0 { rate } else { "-".into() }.into();
}
