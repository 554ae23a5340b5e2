//! The ports.

use std::collections::BTreeMap;

use bora_linux::Refusal;
use bora_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::{Report, answer, by_name, table, typed};
use crate::data_plane::DataPlane;
use crate::ports::twin::Twin;
use crate::ports::{Port, mode_name, path_name};

pub(super) const REPORT: Report = Report::new(
    "ports",
    "Ports: tier, driver mode, what was refused, packets",
    |router, _| {
        let plane = &router.plane;
        let ports = plane.ports().iter();
        answer(ports.map(|port| report(plane, port)).collect::<Vec<_>>())
    },
    |json, _| {
        let text = table::of_rows(COLUMNS, &json);
        Ok(text + &typed(json, lines)?)
    },
);

const COLUMNS: &[(&str, &str)] = &[
    ("PORT", "name"),
    ("STATE", "state"),
    ("PATH", "path"),
    ("XDP", "xdp"),
    ("AF_XDP", "af_xdp"),
    ("MTU", "mtu"),
    ("RECEIVED", "rx_packets"),
    ("SENT", "tx_packets"),
    ("TO LINUX", "passed"),
    ("DROPPED", "dropped"),
];

/// A port. Packets unless named otherwise.
#[derive(Debug, Serialize, Deserialize)]
struct PortReport {
    /// Number.
    index: u16,
    /// Interface name.
    name: String,
    /// `up` or `down`.
    state: String,
    /// MTU in octets.
    mtu: u32,
    /// Ethernet address.
    mac: String,
    /// `express`, `engine` or `kernel`.
    path: String,
    /// Why this path.
    why: String,
    /// The kind, as `kind` of a `[[port]]`.
    kind: String,
    /// What is behind a port that is no interface, and how it is.
    wire: String,
    /// `driver`, `generic`, or `-` without an XDP program.
    xdp: String,
    /// `zero-copy`, `copy`, `zero-copy and copy` (by queue), or `-` without sockets.
    af_xdp: String,
    /// Whether other ports can send express frames to it, or why not.
    redirect: String,
    /// Receive queues.
    queues: u32,
    /// AF_XDP sockets.
    sockets: u32,
    /// What the interface or its driver would not do, in the order of trying.
    refused: Vec<RefusalReport>,
    /// What else an operator should know of it.
    notices: Vec<String>,
    /// Received.
    rx_packets: u64,
    /// Octets received.
    rx_bytes: u64,
    /// From Linux by the port's twin, to be sent.
    from_linux: u64,
    /// How often express has asked Linux's FIB, because Bora's did not say.
    asked: u64,
    /// Came in here, and were forwarded by flows of Linux's flowtables.
    #[serde(default)]
    flows: u64,
    /// Sent.
    tx_packets: u64,
    /// Octets sent.
    tx_bytes: u64,
    /// Handed to Linux.
    passed: u64,
    /// Dropped.
    dropped: u64,
    /// Handed to Linux, by reason.
    passed_by_reason: BTreeMap<String, u64>,
    /// Dropped, by reason.
    dropped_by_reason: BTreeMap<String, u64>,
    /// What a HERO card counts by itself, since Bora started, zeros left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    card: BTreeMap<String, u64>,
}

/// A step that a port's interface or driver refused.
#[derive(Debug, Serialize, Deserialize)]
struct RefusalReport {
    /// Such as `zero-copy`, `copy on queue 3`, `driver XDP`, `XDP`, `engine`.
    step: String,
    /// What the kernel said.
    reason: String,
}

impl From<&Refusal> for RefusalReport {
    fn from(refusal: &Refusal) -> Self {
        Self {
            step: refusal.step.clone(),
            reason: refusal.reason.clone(),
        }
    }
}

fn report(plane: &DataPlane, port: &Port) -> PortReport {
    let counted = plane.totals_of(port);
    PortReport {
        index: port.id.0,
        name: port.name.clone(),
        state: if port.is_up() { "up" } else { "down" }.into(),
        mtu: port.link.mtu,
        mac: MacAddr(port.settings.mac).to_string(),
        path: path_name(port.path).into(),
        why: match &port.offloads.hidden_tags {
            Some(hidden) => format!("{}; {hidden}", port.why),
            None => port.why.clone(),
        },
        kind: port.twin().map_or("interface", Twin::kind).into(),
        wire: port.twin().map(Twin::state).unwrap_or_default(),
        xdp: mode_name(port.mode()).into(),
        af_xdp: port.sockets.mode().name().into(),
        redirect: redirect(port).into(),
        queues: port.queues_in_use(),
        sockets: port.sockets.count(),
        refused: port.refusals.iter().map(RefusalReport::from).collect(),
        notices: port
            .notices()
            .into_iter()
            .chain(why_master_is_left(plane, port))
            .collect(),
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        from_linux: counted.from_linux,
        asked: counted.asked,
        flows: counted.flows,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
        passed: counted.passed.sum(),
        dropped: counted.dropped.sum(),
        passed_by_reason: by_name(&counted.passed),
        dropped_by_reason: by_name(&counted.dropped),
        card: card_counters(port),
    }
}

/// Says that the bridge or bond of a port is left to Linux, and why.
fn why_master_is_left(plane: &DataPlane, port: &Port) -> Option<String> {
    let master = plane.mirror().links().get(&port.link.master)?;
    let mut left = plane.devices().left_alone().iter();
    let left = left.find(|device| device.name == master.name)?;
    Some(format!("{} is left to Linux: {}", left.name, left.why))
}

fn redirect(port: &Port) -> &'static str {
    match (port.settings.can_redirect, port.link.kind.as_str()) {
        _ if port.twin().is_some() => "-",
        (true, _) => "from every port",
        (false, "veth") => "from generic XDP only: the peer has neither XDP nor GRO",
        (false, _) => "from generic XDP only: the driver cannot",
    }
}

/// What the card of a port counted; nothing if it is none.
fn card_counters(port: &Port) -> BTreeMap<String, u64> {
    let named = port.twin().map(Twin::counters).unwrap_or_default();
    let named = named.into_iter().filter(|&(_, count)| count > 0);
    named.map(|(name, count)| (name.into(), count)).collect()
}

/// What the table has no room for.
fn lines(ports: &Vec<PortReport>) -> String {
    let mut text = String::new();
    for port in ports {
        let name = &port.name;
        text += &match port.kind.as_str() {
            "interface" => format!(
                "{name}: {}: {}; redirect: {}\n",
                port.path, port.why, port.redirect
            ),
            _ => format!("{name}: {}\n", port.wire),
        };
        if port.asked > 0 {
            text += &format!("{name}: asked Linux's FIB {} times\n", port.asked);
        }
        if port.flows > 0 {
            let flows = port.flows;
            text += &format!("{name}: forwarded {flows} packets by flows of Linux's flowtables\n");
        }
        for RefusalReport { step, reason } in &port.refused {
            text += &format!("{name}: {step} refused: {reason}\n");
        }
        for notice in &port.notices {
            text += &format!("{name}: {notice}\n");
        }
        if !port.card.is_empty() {
            let counters = port.card.iter();
            let counters = counters.map(|(counter, count)| format!("{counter} {count}"));
            let counters: Vec<String> = counters.collect();
            text += &format!("{name}: the card counts {}\n", counters.join(", "));
        }
    }
    text
}
