//! Further tables of the FIB, for policy routing and VRFs, and the VRFs.

use serde::{Deserialize, Serialize};

use super::{Report, answer, table, typed};
use crate::data_plane::DataPlane;

pub(super) const REPORT: Report = Report::new(
    "tables",
    "Routing tables of VRFs and rules: prefixes, interfaces, packets; rules that are left to Linux",
    |router, _| answer(report(&router.plane)),
    |json, _| {
        let none = "no rule and no VRF uses a table of its own\n";
        let text = table::of_rows_or(none, COLUMNS, &json["tables"]);
        Ok(text + &typed(json, left_to_linux)?)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("TABLE", "table"),
    ("VRF", "vrf"),
    ("IPV4", "prefixes4"),
    ("IPV6", "prefixes6"),
    ("INTERFACES", "interfaces"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
];

/// The further tables.
#[derive(Debug, Serialize, Deserialize)]
struct TablesReport {
    /// Each table that rules or VRFs use, beside local, main and default.
    tables: Vec<TableReport>,
    /// Rules whose packets go to Linux, and why.
    left_to_linux: Vec<String>,
}

/// A table.
#[derive(Debug, Serialize, Deserialize)]
struct TableReport {
    /// Linux's number.
    table: u32,
    /// The VRF whose table it is; empty if it is none's.
    vrf: String,
    /// IPv4 prefixes in the FIB, neighbours included.
    prefixes4: usize,
    /// IPv6 prefixes.
    prefixes6: usize,
    /// Ports and VLAN devices of the VRF.
    interfaces: Vec<String>,
    /// Packets that these received, and Bora took from Linux.
    rx_packets: u64,
    /// Packets that Bora sent by them.
    tx_packets: u64,
}

fn report(plane: &DataPlane) -> TablesReport {
    let tables = plane.mirror().further_tables().into_iter();
    TablesReport {
        tables: tables.map(|of| one(plane, of)).collect(),
        left_to_linux: plane.policy().left_to_linux().collect(),
    }
}

fn one(plane: &DataPlane, (table, prefixes4, prefixes6): (u32, usize, usize)) -> TableReport {
    let links = plane.mirror().links();
    let vrf = links.values().find(|link| link.vrf_table == Some(table));
    let mut report = TableReport {
        table,
        vrf: vrf.map(|vrf| vrf.name.clone()).unwrap_or_default(),
        prefixes4,
        prefixes6,
        interfaces: Vec::new(),
        rx_packets: 0,
        tx_packets: 0,
    };
    let Some(vrf) = vrf else {
        return report;
    };
    let belongs = |ifindex| {
        let link = links.get(&ifindex);
        link.is_some_and(|link| link.master == vrf.index)
    };
    for port in plane.ports().iter().filter(|port| belongs(port.ifindex)) {
        let counted = plane.totals_of(port);
        report.interfaces.push(port.name.clone());
        report.rx_packets += counted.rx_packets;
        report.tx_packets += counted.tx_packets;
    }
    for device in plane
        .devices()
        .iter()
        .filter(|device| belongs(device.ifindex))
    {
        let counted = plane.totals_of_device(device);
        report.interfaces.push(device.name.clone());
        report.rx_packets += counted.rx_packets;
        report.tx_packets += counted.tx_packets;
    }
    report
}

fn left_to_linux(report: &TablesReport) -> String {
    let lines = report.left_to_linux.iter();
    lines.map(|line| format!("{line}\n")).collect()
}
