//! Neighbours.

use bora_kernel::message::Neighbour;
use bora_wire::MacAddr;
use serde::Serialize;

use super::routes::device;
use super::{Report, answer, table};

pub(super) const REPORT: Report = Report::new(
    "neighbours",
    "Neighbours",
    |router, _| {
        let mirror = router.plane.mirror();
        let report = |neighbour: &Neighbour| {
            Some(NeighbourReport {
                address: neighbour.address.to_string(),
                device: device(mirror, neighbour.device),
                mac: MacAddr(neighbour.usable()?).to_string(),
            })
        };
        answer(mirror.neighbours().filter_map(report).collect::<Vec<_>>())
    },
    |json, _| Ok(table::of_rows(COLUMNS, &json)),
);

const COLUMNS: &[(&str, &str)] = &[
    ("ADDRESS", "address"),
    ("INTERFACE", "device"),
    ("MAC", "mac"),
];

/// A neighbour.
#[derive(Debug, Serialize)]
struct NeighbourReport {
    /// Address.
    address: String,
    /// Interface name.
    device: String,
    /// Ethernet address.
    mac: String,
}
