//! What the control loop knows, and samples must say: interfaces, their counters, routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bora_capture::sflow::{Counters, Interface, Route};
use bora_contract::{Counts, Reason};

use crate::data_plane::DataPlane;
use crate::ports::Port;
use crate::ports::totals::Totals;

/// What a packet asks: which way it took.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Number of the port or device that it came in by.
    pub(super) input: u16,
    /// Number of that which it left by.
    pub(super) output: u16,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
}

/// The answers.
#[derive(Debug)]
pub(super) struct Survey {
    /// Ports and devices by their numbers.
    pub(super) places: BTreeMap<u16, Place>,
    /// The ports, if their counters were asked for; their speeds are not known here.
    pub(super) ports: Vec<(String, Interface)>,
    /// One for each question; `None` if a rule, a VRF or the flow's hash has chosen the route.
    pub(super) routes: Vec<Option<Route>>,
}

/// A port or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) ifindex: u32,
    /// Index of the interface that its packets are sampled at: the port, or a device on several ports or none.
    pub(super) source: u32,
    /// Packets that have come in at `source`.
    pub(super) pool: u64,
    /// The VLAN, of a VLAN device.
    pub(super) vlan: Option<u16>,
}

impl Survey {
    /// Looks. The cost grows with ports and questions, not with routes.
    pub(super) fn take(plane: &DataPlane, questions: &[Question], counters: bool) -> Self {
        let totals = plane
            .ports()
            .iter()
            .map(|port| (port, plane.totals_of(port)));
        let totals: Vec<(&Port, Totals)> = totals.collect();
        let places = places(plane, &totals);
        let routes = questions.iter().map(|one| route(plane, &places, one));
        Self {
            routes: routes.collect(),
            ports: match counters {
                true => totals.iter().map(interface).collect(),
                false => Vec::new(),
            },
            places,
        }
    }
}

fn places(plane: &DataPlane, totals: &[(&Port, Totals)]) -> BTreeMap<u16, Place> {
    let ports = totals.iter().map(|(port, total)| {
        let place = Place {
            ifindex: port.ifindex,
            source: port.ifindex,
            pool: total.rx_packets,
            vlan: None,
        };
        (port.id.0, place)
    });
    let mut places: BTreeMap<u16, Place> = ports.collect();
    for device in plane.devices().iter() {
        let port = match &device.lower.ports[..] {
            [port] => places.get(&port.id.0),
            _ => None,
        };
        let tags = device.settings.tags;
        let tag = u16::from_be_bytes([tags[2], tags[3]]) & 0xfff;
        let place = Place {
            ifindex: device.ifindex,
            source: port.map_or(device.ifindex, |port| port.source),
            pool: port.map_or_else(
                || plane.totals_of_device(device).rx_packets,
                |port| port.pool,
            ),
            vlan: (tags[..2] != [0, 0]).then_some(tag),
        };
        places.insert(device.id.0, place);
    }
    places
}

/// The route of the main table, and the hop of it that leaves by the output.
fn route(plane: &DataPlane, places: &BTreeMap<u16, Place>, question: &Question) -> Option<Route> {
    let v6 = usize::from(question.destination.is_ipv6());
    let input = bora_fib::PortId(question.input);
    if plane.policy().has_list(input)[v6] {
        return None;
    }
    let mirror = plane.mirror();
    let output = places.get(&question.output)?.ifindex;
    let route = mirror.route_to(question.destination)?;
    let ways = mirror.ways(route.target);
    let mut ways = ways.iter().filter(|way| way.device == output);
    let (Some(way), None) = (ways.next(), ways.next()) else {
        return None;
    };
    let back = mirror.route_to(question.source);
    Some(Route {
        next_hop: way.gateway,
        source_length: back.map_or(0, |route| route.len),
        destination_length: route.len,
    })
}

/// Reasons for which packets are lost behind an output; it counts them.
const BEHIND_OUTPUT: [Reason; 4] = [
    Reason::QueueFull,
    Reason::TxInvalid,
    Reason::TxLinkDown,
    Reason::TxRefused,
];
/// Reasons that say something is wrong with a packet.
const ERRORS: [Reason; 6] = [
    Reason::Truncated,
    Reason::BadVersion,
    Reason::BadHeaderLength,
    Reason::BadTotalLength,
    Reason::BadChecksum,
    Reason::RxMalformed,
];

fn interface((port, total): &(&Port, Totals)) -> (String, Interface) {
    let sum = |counts: &Counts, of: &[Reason]| of.iter().map(|&reason| counts[reason]).sum();
    let lost = sum(&total.dropped, &BEHIND_OUTPUT);
    let errors = sum(&total.dropped, &ERRORS);
    let interface = Interface {
        index: port.ifindex,
        speed: 0,
        is_enabled: port.link.up && !port.is_gone,
        is_running: port.is_up() && !port.is_gone,
        received: Counters {
            octets: total.rx_bytes,
            packets: total.rx_packets,
            discards: total.dropped.sum() - lost - errors,
            errors,
        },
        sent: Counters {
            octets: total.tx_bytes,
            packets: total.tx_packets,
            discards: lost,
            errors: 0,
        },
    };
    (port.name.clone(), interface)
}
