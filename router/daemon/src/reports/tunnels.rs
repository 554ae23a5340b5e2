//! Tunnels that the engine puts packets into and takes packets out of.

use serde::{Deserialize, Serialize};

use super::on_ports::{LeftToLinux, state, with_left};
use super::{Report, answer, table};
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

pub(super) const REPORT: Report = Report::new(
    "tunnels",
    "tunnels over IPv4: ends, packets, and which are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let text = table::of_rows_or("no tunnel\n", COLUMNS, &json["tunnels"]);
        with_left(text, json)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("TUNNEL", "name"),
    ("LOCAL", "local"),
    ("REMOTE", "remote"),
    ("STATE", "state"),
    ("MTU", "mtu"),
    ("PATH", "path_mtu"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The tunnels.
#[derive(Debug, Serialize, Deserialize)]
struct TunnelsReport {
    /// Those that the engine forwards by.
    tunnels: Vec<TunnelReport>,
    /// The others.
    left_to_linux: Vec<LeftToLinux>,
}

/// A tunnel. What Linux forwards by it is not counted here.
#[derive(Debug, Serialize, Deserialize)]
struct TunnelReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// The near end.
    local: String,
    /// The far end.
    remote: String,
    /// `up` or `down`.
    state: String,
    /// MTU in octets.
    mtu: u32,
    /// Longest outer packet that reaches the far end, if Linux has learned that or a route says it.
    path_mtu: Option<u32>,
    /// Packets taken out of it.
    rx_packets: u64,
    /// Octets of these, without the headers of the tunnel and of Ethernet.
    rx_bytes: u64,
    /// Packets put into it.
    tx_packets: u64,
    /// Octets of these, without the headers of the tunnel and of Ethernet.
    tx_bytes: u64,
}

fn report(plane: &DataPlane) -> TunnelsReport {
    let tunnels = plane.devices().of_kind(Kind::Tunnel);
    TunnelsReport {
        tunnels: tunnels.filter_map(|tunnel| one(plane, tunnel)).collect(),
        left_to_linux: LeftToLinux::of(plane, Kind::Tunnel),
    }
}

fn one(plane: &DataPlane, device: &Device) -> Option<TunnelReport> {
    let tunnel = device.tunnel()?;
    let counted = plane.totals_of_device(device);
    Some(TunnelReport {
        index: device.id.0,
        name: device.name.clone(),
        local: tunnel.local.to_string(),
        remote: tunnel.remote.to_string(),
        state: state(device),
        mtu: device.mtu,
        path_mtu: plane.mirror().path_mtu(tunnel.remote),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
    })
}
