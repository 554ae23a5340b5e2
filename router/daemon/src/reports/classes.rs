//! Classes of the outputs.

use serde::Serialize;

use super::{Report, answer, table};
use crate::config::File;
use crate::data_plane::DataPlane;
use crate::live::class_counts::{QueueSample, queues};

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
    let engine = plane.engine().into_iter();
    let classes = engine.flat_map(|engine| queues(engine, plane, config));
    classes.map(ClassReport::from).collect()
}

impl From<QueueSample> for ClassReport {
    fn from(of: QueueSample) -> Self {
        Self {
            port: of.port,
            class: of.class,
            enqueued: of.enqueued,
            sent: of.sent,
            dropped: of.dropped,
            held: of.held,
        }
    }
}
