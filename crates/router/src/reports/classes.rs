//! Classes of the outputs.

use bora_worker::ClassCounters;
use serde::Serialize;

use super::{Report, answer, table};
use crate::config::File;
use crate::data_plane::DataPlane;
use crate::engine::Engine;
use crate::ports::Port;

pub(super) const REPORT: Report = Report::new(
    "classes",
    "Classes of each port: packets queued, sent, dropped and held",
    |router, _| answer(report(&router.plane, router.in_force.file())),
    |json, _| {
        Ok(table::of_rows_or(
            "no classes: every port takes the express path",
            COLUMNS,
            &json,
        ))
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("PORT", "port"),
    ("CLASS", "class"),
    ("ENQUEUED", "enqueued"),
    ("SENT", "sent"),
    ("DROPPED", "dropped"),
    ("HELD", "held"),
];

/// One class of a port, packets, summed over workers: `enqueued = sent + held`.
#[derive(Debug, Serialize)]
struct ClassReport {
    /// Interface name.
    port: String,
    /// Number.
    class: usize,
    /// Taken into its queues.
    enqueued: u64,
    /// Taken out of them.
    sent: u64,
    /// Refused because they were full.
    dropped: u64,
    /// In them now.
    held: u64,
}

fn report(plane: &DataPlane, config: &File) -> Vec<ClassReport> {
    let Some(engine) = plane.engine() else {
        return Vec::new();
    };
    let of_port = |port: &Port| {
        let section = config.port(&port.name);
        let count = section.map_or(0, |section| section.queues.output().classes.len());
        let classes = (0..count).map(|class| of_class(engine, port, class));
        classes.collect::<Vec<_>>()
    };
    plane.ports().iter().flat_map(of_port).collect()
}

fn of_class(engine: &Engine, port: &Port, class: usize) -> ClassReport {
    let sum = |of: fn(&ClassCounters) -> u64| -> u64 {
        let ports = engine
            .counters()
            .map(|it| &it.ports[usize::from(port.id.0)]);
        ports.map(|port| of(&port.classes[class])).sum()
    };
    ClassReport {
        port: port.name.clone(),
        class,
        enqueued: sum(|it| it.enqueued.get()),
        sent: sum(|it| it.sent.get()),
        dropped: sum(|it| it.dropped.get()),
        held: sum(|it| it.held.get()),
    }
}
