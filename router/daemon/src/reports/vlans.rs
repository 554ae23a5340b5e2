//! VLAN devices on the ports.

use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "vlans",
    "VLAN devices on the ports: tags, packets, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let none = "no VLAN device on a port\n";
        let text = table::of_rows_or(none, COLUMNS, &json["devices"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("VLAN DEVICE", "name"),
    ("ON", "port"),
    ("TAGS", "tags"),
    ("STATE", "state"),
    ("MTU", "mtu"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The VLAN devices on the ports.
#[derive(Debug, Serialize, Deserialize)]
struct VlansReport {
    /// Those that Bora forwards by.
    devices: Vec<VlanReport>,
    /// The others.
    left_to_linux: Vec<LeftToLinux>,
}

/// A VLAN device. What Linux forwards by it is not counted here.
#[derive(Debug, Serialize, Deserialize)]
struct VlanReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// The port or bond below.
    port: String,
    /// EtherType and VLAN of each tag, the outer one first, such as `0x88a8 300`.
    tags: Vec<String>,
    /// `up` or `down`.
    state: String,
    /// MTU in octets.
    mtu: u32,
    /// Ethernet address.
    mac: String,
    /// Received and taken from Linux.
    rx_packets: u64,
    /// Octets of these with tags.
    rx_bytes: u64,
    /// Sent.
    tx_packets: u64,
    /// Octets of these with tags.
    tx_bytes: u64,
}

fn report(plane: &DataPlane) -> VlansReport {
    let vlans = plane.devices().of_kind(Kind::Vlan);
    VlansReport {
        devices: vlans.map(|it| device(plane, it)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Vlan),
    }
}

fn device(plane: &DataPlane, device: &Device) -> VlanReport {
    let counted = plane.totals_of_device(device);
    let tags = device.settings.tags.chunks(4).map(|tag| {
        let [protocol, id] = [0, 2].map(|at| u16::from_be_bytes([tag[at], tag[at + 1]]));
        (protocol != 0).then(|| format!("{protocol:#06x} {id}"))
    });
    VlanReport {
        index: device.id.0,
        name: device.name.clone(),
        port: device.lower.name.clone(),
        tags: tags.flatten().collect(),
        state: state(device),
        mtu: device.mtu,
        mac: MacAddr(device.settings.mac).to_string(),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
    }
}
