//! Macvlans on the ports.

use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "macvlans",
    "macvlans on the ports, such as those of virtual routers: addresses, packets, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let text = table::of_rows_or("no macvlan on a port\n", COLUMNS, &json["macvlans"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("MACVLAN", "name"),
    ("ON", "on"),
    ("ADDRESS", "mac"),
    ("STATE", "state"),
    ("RECEIVED", "rx_packets"),
];

/// The macvlans on the ports.
#[derive(Debug, Serialize, Deserialize)]
struct MacvlansReport {
    /// Those whose packets Bora forwards.
    macvlans: Vec<MacvlanReport>,
    /// The others.
    left_to_linux: Vec<LeftToLinux>,
}

/// A macvlan. What Linux forwards of its packets is not counted here. None leaves by it without Linux.
#[derive(Debug, Serialize, Deserialize)]
struct MacvlanReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// The port, bond or VLAN device below.
    on: String,
    /// Ethernet address.
    mac: String,
    /// `up` or `down`.
    state: String,
    /// Received and taken from Linux.
    rx_packets: u64,
    /// Octets of these with tags.
    rx_bytes: u64,
}

fn report(plane: &DataPlane) -> MacvlansReport {
    let macvlans = plane.devices().of_kind(Kind::Macvlan);
    MacvlansReport {
        macvlans: macvlans.map(|it| one(plane, it)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Macvlan),
    }
}

fn one(plane: &DataPlane, macvlan: &Device) -> MacvlanReport {
    let counted = plane.totals_of_device(macvlan);
    MacvlanReport {
        index: macvlan.id.0,
        name: macvlan.name.clone(),
        on: macvlan.lower.name.clone(),
        mac: MacAddr(macvlan.settings.mac).to_string(),
        state: state(macvlan),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
    }
}
