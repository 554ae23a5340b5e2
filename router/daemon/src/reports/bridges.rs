//! Bridges with ports of Bora's.

use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "bridges",
    "Bridges of the ports: packets of their own, stations, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let text = table::of_rows_or("no bridge with a port\n", COLUMNS, &json["bridges"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("BRIDGE", "name"),
    ("ADDRESS", "mac"),
    ("STATE", "state"),
    ("STATIONS", "stations"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The bridges.
#[derive(Debug, Serialize, Deserialize)]
struct BridgesReport {
    /// Those that Bora forwards by.
    bridges: Vec<BridgeReport>,
    /// The others.
    left_to_linux: Vec<LeftToLinux>,
}

/// A bridge. What its VLAN devices receive and send is in `bora show vlans`; what Linux bridges is counted nowhere here.
#[derive(Debug, Serialize, Deserialize)]
struct BridgeReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// Ethernet address.
    mac: String,
    /// `up` or `down`.
    state: String,
    /// Stations whose place Bora knows, in all VLANs.
    stations: usize,
    /// Received and taken from Linux.
    rx_packets: u64,
    /// Sent without Linux.
    tx_packets: u64,
}

fn report(plane: &DataPlane) -> BridgesReport {
    let bridges = plane.devices().of_kind(Kind::Bridge);
    BridgesReport {
        bridges: bridges.map(|it| one(plane, it)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Bridge),
    }
}

fn one(plane: &DataPlane, bridge: &Device) -> BridgeReport {
    let counted = plane.totals_of_device(bridge);
    let stations = plane.mirror().bridges().stations.keys();
    BridgeReport {
        index: bridge.id.0,
        name: bridge.name.clone(),
        mac: MacAddr(bridge.settings.mac).to_string(),
        state: state(bridge),
        stations: stations.filter(|(of, ..)| *of == bridge.ifindex).count(),
        rx_packets: counted.rx_packets,
        tx_packets: counted.tx_packets,
    }
}
