//! Neighbours.

use std::net::IpAddr;

use bora_mirror::Mirror;
use bora_wire::MacAddr;
use serde::Serialize;

use super::routes::device;
use super::{Report, answer_in_steps, table};

pub(super) const REPORT: Report = Report::new(
    "neighbours",
    "Neighbours",
    |_, _| {
        let mut last = None;
        answer_in_steps(
            move |mirror, rows| part(mirror, &mut last, rows),
            |rows: Vec<NeighbourReport>| serde_json::to_string(&rows),
        )
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
    address: IpAddr,
    /// Interface name.
    device: String,
    /// Ethernet address.
    mac: String,
}

/// Neighbours of one part.
const PART: usize = 1024;

/// Adds those after the last one.
fn part(
    mirror: &Mirror,
    last: &mut Option<(IpAddr, u32)>,
    rows: &mut Vec<NeighbourReport>,
) -> bool {
    let mut count = 0;
    for neighbour in mirror.neighbours_after(*last).take(PART) {
        count += 1;
        *last = Some((neighbour.address, neighbour.device));
        rows.extend(neighbour.usable().map(|mac| NeighbourReport {
            address: neighbour.address,
            device: device(mirror, neighbour.device),
            mac: MacAddr(mac).to_string(),
        }));
    }
    count == PART
}
