//! `bora trace`: what happened to a packet, in words.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bora_capture::{Outcome, Seen, Tier};
use bora_prove::{Linux, Question};
use bora_wire::Protocol;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hex;
use crate::reports::route;
use crate::router::Router;
use crate::sampling::five_tuple::{Flow, flow_of};

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

/// One line for comments in capture files.
pub(crate) fn summary(one: &Seen, names: &BTreeMap<u16, String>) -> String {
    let tier = tier_name(one.tier);
    match one.outcome {
        Outcome::Sent(port) => format!("{tier}: sent by {}", name(names, port)),
        Outcome::ToLinux(reason) => format!("{tier}: to Linux ({})", reason.name()),
        Outcome::Dropped(reason) => format!("{tier}: dropped ({})", reason.name()),
    }
}

/// The facts about a packet.
pub(crate) fn of_packet(one: &Seen, names: &BTreeMap<u16, String>, since_1970: Duration) -> Traced {
    let (outcome, output, reason) = match one.outcome {
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
        before: hex::of(&one.head),
        now: hex::of(&one.now[..one.now.len().min(one.head.len())]),
    }
}

pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Express => "express",
        Tier::Engine => "engine",
    }
}

/// The name of a port or device when the watch began.
pub(crate) fn name(names: &BTreeMap<u16, String>, number: u16) -> String {
    let known = names.get(&number).cloned();
    known.unwrap_or_else(|| format!("port {number}"))
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

/// The packet that an explanation is asked for, if more than its destination is said.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Origin {
    /// Its source address.
    source: Option<IpAddr>,
    /// Name of the port or device that it came in by.
    input: Option<String>,
    /// Its protocol.
    protocol: Option<u8>,
    /// Its ports.
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

/// Explains what becomes of packets to an address.
pub(crate) fn explain(router: &Router, destination: IpAddr, origin: &Origin) -> Explanation {
    let plane = &router.plane;
    let source = origin.source.filter(|_| origin.input.is_some());
    Explanation {
        fib: route::in_fib(plane, destination),
        note: route::elsewhere(plane, destination),
        guard: plane
            .express()
            .holding(plane.mirror().guard(), &plane.names()),
        linux: source.map(|source| in_linux(router, destination, source, origin)),
    }
}

/// As `ip route get` says it.
fn in_linux(router: &Router, destination: IpAddr, source: IpAddr, origin: &Origin) -> String {
    let links = router.plane.mirror().links();
    let input = origin.input.as_deref().unwrap_or_default();
    let Some(input) = links.values().find(|link| link.name == input) else {
        return format!("there is no interface {input} any more");
    };
    if source.is_ipv6() != destination.is_ipv6() {
        return format!("{source} and {destination} are of two IP versions");
    }
    let mut question = Question::new(0, source, destination);
    if let Some(protocol) = origin.protocol {
        question.protocol = Protocol(protocol);
    }
    for (known, port) in [origin.source_port, origin.destination_port]
        .into_iter()
        .zip(&mut question.ports)
    {
        *port = known.unwrap_or(*port);
    }
    let name = |index: u32| {
        let known = links.get(&index).map(|link| link.name.clone());
        known.unwrap_or_else(|| format!("interface {index}"))
    };
    let told = Linux::open().and_then(|mut linux| linux.tell(&question, input.index, &name));
    match told {
        Ok(told) if told.starts_with("forwarded") => told + ", if its firewall lets it",
        Ok(told) => told,
        Err(error) => error.to_string(),
    }
}
