//! PPPoE sessions on the ports.

use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "pppoe",
    "PPPoE sessions on the ports: numbers, packets, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let none = "no PPPoE session on a port\n";
        let text = table::of_rows_or(none, COLUMNS, &json["sessions"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("PPP INTERFACE", "name"),
    ("ON", "on"),
    ("SESSION", "session"),
    ("OTHER END", "peer"),
    ("STATE", "state"),
    ("MTU", "mtu"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The PPPoE sessions on the ports.
#[derive(Debug, Serialize, Deserialize)]
struct PppoeReport {
    /// Those that Bora forwards by.
    sessions: Vec<SessionReport>,
    /// The other PPP interfaces.
    left_to_linux: Vec<LeftToLinux>,
}

/// A PPPoE session. What Linux forwards by it is not counted here, nor are Bora's packets by Linux.
#[derive(Debug, Serialize, Deserialize)]
struct SessionReport {
    /// Number.
    index: u16,
    /// Name of the PPP interface.
    name: String,
    /// The port or VLAN device below.
    on: String,
    /// Number of the session.
    session: u16,
    /// Ethernet address of the other end.
    peer: String,
    /// `up` or `down`.
    state: String,
    /// MTU in octets.
    mtu: u32,
    /// Received and taken from Linux.
    rx_packets: u64,
    /// Octets of these with headers and tags.
    rx_bytes: u64,
    /// Sent.
    tx_packets: u64,
    /// Octets of these with headers and tags.
    tx_bytes: u64,
}

fn report(plane: &DataPlane) -> PppoeReport {
    let sessions = plane.devices().of_kind(Kind::Pppoe);
    PppoeReport {
        sessions: sessions.map(|it| one(plane, it)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Pppoe),
    }
}

fn one(plane: &DataPlane, device: &Device) -> SessionReport {
    let counted = plane.totals_of_device(device);
    SessionReport {
        index: device.id.0,
        name: device.name.clone(),
        on: device.lower.name.clone(),
        session: device.settings.session,
        peer: MacAddr(device.settings.peer).to_string(),
        state: state(device),
        mtu: device.mtu,
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
    }
}
