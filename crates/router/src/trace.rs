//! `bora trace`: what happened to a packet, in words.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bora_kernel::linux_route;
use bora_watch::{Outcome, Sighting, Tier, ip_offset};
use bora_wire::{EtherType, Protocol, ipv4, ipv6, udp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reports::route;
use crate::router::Router;

/// What is known of a packet. `bora trace` asks for the rest: [`Explanation`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Traced {
    /// When.
    pub time: Timestamp,
    /// Name of the port or device that it came in by.
    pub input: String,
    /// Addresses, protocol and ports, if it is IP.
    pub flow: Option<Flow>,
    /// Octets with the Ethernet header.
    pub length: u32,
    /// `express` or `engine`.
    pub tier: String,
    /// `sent`, `to Linux` or `dropped`.
    pub outcome: String,
    /// Name of the port or device that it left by.
    pub output: Option<String>,
    /// Why it went to Linux, or was dropped, as `bora show drops` names it.
    pub reason: Option<String>,
    /// Class, in the engine.
    pub class: Option<u8>,
    /// First octets as it came in and as it is now, hexadecimal.
    pub before: String,
    /// Likewise.
    pub now: String,
}

/// What tells one conversation from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol, or what follows IPv6's fixed header.
    pub protocol: u8,
    /// Source and destination port (TCP, UDP and those like them).
    pub ports: Option<(u16, u16)>,
}

/// One line for comments in capture files.
pub(crate) fn summary(one: &Sighting, names: &BTreeMap<u16, String>) -> String {
    let tier = tier_name(one.tier);
    match one.outcome {
        Outcome::ToEngine => format!("{tier}: to the engine"),
        Outcome::Sent(port) => format!("{tier}: sent by {}", name(names, port)),
        Outcome::ToLinux(reason) => format!("{tier}: to Linux ({})", reason.name()),
        Outcome::Dropped(reason) => format!("{tier}: dropped ({})", reason.name()),
    }
}

/// The facts about a packet.
pub(crate) fn of_packet(
    one: &Sighting,
    names: &BTreeMap<u16, String>,
    since_1970: Duration,
) -> Traced {
    let (outcome, output, reason) = match one.outcome {
        Outcome::ToEngine => ("to the engine", None, None),
        Outcome::Sent(port) => ("sent", Some(name(names, port)), None),
        Outcome::ToLinux(reason) => ("to Linux", None, Some(reason)),
        Outcome::Dropped(reason) => ("dropped", None, Some(reason)),
    };
    Traced {
        time: Timestamp::UNIX_EPOCH + since_1970,
        input: name(names, one.input),
        flow: flow_of(&one.head),
        length: one.length,
        tier: tier_name(one.tier).into(),
        outcome: outcome.into(),
        output,
        reason: reason.map(|reason| reason.name().into()),
        class: one.class,
        before: hex(&one.head),
        now: hex(&one.now[..one.now.len().min(one.head.len())]),
    }
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Express => "express",
        Tier::Engine => "engine",
    }
}

/// Of a port or device, as it was called when the watch began.
pub(crate) fn name(names: &BTreeMap<u16, String>, number: u16) -> String {
    let known = names.get(&number).cloned();
    known.unwrap_or_else(|| format!("port {number}"))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Addresses and ports of a frame with up to two tags; `None` if it is no IP or too short.
pub(crate) fn flow_of(frame: &[u8]) -> Option<Flow> {
    let at = ip_offset(frame)?;
    let (packet, kind) = (
        frame.get(at..)?,
        u16::from_be_bytes([frame[at - 2], frame[at - 1]]),
    );
    let (source, destination, protocol, payload): (IpAddr, IpAddr, u8, usize);
    if kind == EtherType::IPV4.0 {
        let ip = ipv4::Packet::new_unchecked(packet);
        let first = packet.get(..20)?;
        (source, destination) = (ip.src().into(), ip.dst().into());
        protocol = ip.protocol().0;
        let is_later_fragment = u16::from_be_bytes([first[6], first[7]]) & 0x1fff != 0;
        payload = match is_later_fragment {
            true => packet.len(),
            false => usize::from(first[0] & 0xf) * 4,
        };
    } else {
        packet.get(..40)?;
        let ip = ipv6::Packet::new_unchecked(packet);
        (source, destination) = (ip.src().into(), ip.dst().into());
        protocol = ip.next_header().0;
        payload = 40;
    }
    let has_ports = [Protocol::TCP, Protocol::UDP, Protocol(132), Protocol(136)]
        .iter()
        .any(|one| one.0 == protocol);
    let ports = packet.get(payload..payload + 4).filter(|_| has_ports);
    Some(Flow {
        source,
        destination,
        protocol,
        ports: ports.map(|octets| {
            let header = udp::Packet::new_unchecked(octets);
            (header.src_port(), header.dst_port())
        }),
    })
}

/// Why a packet went where it went, as tables and rules are now.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// What the FIB says of the destination.
    pub fib: String,
    /// Where else its way may be decided.
    pub note: Option<String>,
    /// What keeps traffic with Linux.
    pub guard: Vec<String>,
    /// What Linux does with a packet from this source that comes in there, if that was asked.
    pub linux: Option<String>,
}

/// Where a packet came from, if that is said.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Origin {
    /// Its source address.
    source: Option<IpAddr>,
    /// Name of the port or device that it came in by.
    input: Option<String>,
}

/// Explains what becomes of packets to an address.
pub(crate) fn explain(router: &Router, destination: IpAddr, origin: &Origin) -> Explanation {
    let plane = &router.plane;
    let from = origin.source.zip(origin.input.as_deref());
    Explanation {
        fib: route::in_fib(plane, destination),
        note: route::elsewhere(plane, destination),
        guard: plane
            .express()
            .holding(plane.mirror().guard(), &plane.names()),
        linux: from.map(|from| in_linux(router, from, destination)),
    }
}

/// As `ip route get` says it; `from`: the source address, and by which interface the packet came in.
fn in_linux(router: &Router, (source, input): (IpAddr, &str), destination: IpAddr) -> String {
    let links = router.plane.mirror().links();
    let Some(input) = links.values().find(|link| link.name == input) else {
        return format!("there is no interface {input} any more");
    };
    let route = match linux_route(destination, source, input.index) {
        Ok(route) => route,
        Err(why) => return why,
    };
    if route.local {
        return "for this machine itself".into();
    }
    let mut text = String::from("forwarded");
    if let Some(gateway) = route.gateway {
        text += &format!(" via {gateway}");
    }
    if let Some(output) = route.output {
        let name = links.get(&output).map(|link| link.name.clone());
        text += &format!(
            " out of {}",
            name.unwrap_or_else(|| format!("interface {output}"))
        );
    }
    if let Some(table) = route.table {
        text += &format!(" (table {table})");
    }
    text + ", if its firewall lets it"
}
