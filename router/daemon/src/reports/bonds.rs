//! Bonds of the ports.

use bora_forward::XmitHash;
use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "bonds",
    "bonds of the ports: who sends, packets, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let text = table::of_rows_or("no bond of ports\n", COLUMNS, &json["bonds"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("BOND", "name"),
    ("PORTS", "ports"),
    ("SENDING", "sending"),
    ("HASH", "hash"),
    ("STATE", "state"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The bonds of the ports.
#[derive(Debug, Serialize, Deserialize)]
struct BondsReport {
    /// Those that Bora forwards by.
    bonds: Vec<BondReport>,
    /// The others.
    left_to_linux: Vec<LeftToLinux>,
}

/// A bond. What Linux forwards by it is not counted here, nor what its VLAN devices do.
#[derive(Debug, Serialize, Deserialize)]
struct BondReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// The ports that belong to it.
    ports: Vec<String>,
    /// Those that packets leave by now, in the order of the hash.
    sending: Vec<String>,
    /// `xmit_hash_policy`: `layer2`, `layer2+3` or `layer3+4`.
    hash: String,
    /// `up` or `down`.
    state: String,
    /// Ethernet address.
    mac: String,
    /// Received and taken from Linux.
    rx_packets: u64,
    /// Octets of these.
    rx_bytes: u64,
    /// Sent.
    tx_packets: u64,
    /// Octets of these.
    tx_bytes: u64,
}

fn report(plane: &DataPlane) -> BondsReport {
    let bonds = plane.devices().of_kind(Kind::Bond);
    BondsReport {
        bonds: bonds.map(|bond| one(plane, bond)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Bond),
    }
}

fn one(plane: &DataPlane, bond: &Device) -> BondReport {
    let counted = plane.totals_of_device(bond);
    let name = |id| {
        let port = plane.ports().iter().find(|port| port.id == id);
        port.map(|port| port.name.clone())
    };
    let hash = match bond.lower.hash {
        XmitHash::Layer2 => "layer2",
        XmitHash::Layer23 => "layer2+3",
        XmitHash::Layer34 => "layer3+4",
    };
    BondReport {
        index: bond.id.0,
        name: bond.name.clone(),
        ports: bond
            .lower
            .ports
            .iter()
            .filter_map(|port| name(port.id))
            .collect(),
        sending: bond.lower.usable.iter().copied().filter_map(name).collect(),
        hash: hash.into(),
        state: state(bond),
        mac: MacAddr(bond.settings.mac).to_string(),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
    }
}
