//! Whether a card may forward a destination by itself: only what the engine would forward too, and so
//! Linux, and what a card can decide from the destination alone.

use std::net::Ipv4Addr;

use bora_fib::{FibWriter, NextHop, PortId, Prefix4};
use bora_forward::RpFilter;
use bora_port::offload::{Offload, Route};
use bora_prove::CardRoute;
use bora_wire::MacAddr;

use crate::config::File;
use crate::ports::Port;
use crate::ports::twin::Twin;

/// Longest packet that a card forwards, octets. It cannot fragment, nor say that it cannot.
const LONGEST: u16 = 1500;

/// Where a card may send a destination by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) prefix: Prefix4,
    pub(super) out: PortId,
    pub(super) mac: [u8; 6],
}

impl Candidate {
    pub(super) fn route(&self) -> Route {
        Route {
            address: Ipv4Addr::from_bits(self.prefix.addr()),
            len: self.prefix.len(),
            mac: self.mac,
        }
    }

    /// For comparison with Linux.
    pub(super) fn card_route(&self) -> CardRoute {
        CardRoute {
            prefix: (Ipv4Addr::from_bits(self.prefix.addr()), self.prefix.len()),
            out: self.out,
            mac: MacAddr(self.mac),
            mtu: LONGEST,
        }
    }
}

/// How a port is told what to forward by itself, if it can.
pub(super) fn card(port: &Port) -> Option<&dyn Offload> {
    port.twin().and_then(Twin::offload)
}

/// What decides whether a card may forward a destination by itself.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a File,
    pub(crate) ports: &'a [Port],
    pub(crate) fib: &'a FibWriter,
}

impl Surroundings<'_> {
    /// Why nothing that comes in by a port may pass by the engine; `None` if it may.
    pub(super) fn held_back(&self, port: &Port) -> Option<&'static str> {
        let settings = &port.settings;
        if settings.gated {
            return Some("it is no card");
        }
        let classified = !self.config.rules.is_empty() || !self.config.dscp.0.is_empty();
        let reasons = [
            (
                card(port).is_none_or(|card| !card.is_allowed()),
                "offload=no",
            ),
            (!settings.enabled || !port.is_up(), "the port is down"),
            (settings.kernel4, "Linux has a say (`bora show sync`)"),
            (settings.policy4, "`ip rule` or a VRF: a card has one table"),
            (
                !settings.forward4,
                "Linux does not forward what comes in there",
            ),
            (
                settings.rp_filter != RpFilter::Off,
                "rp_filter: a card checks no source",
            ),
            (
                classified,
                "rules or code points are configured, the engine's",
            ),
        ];
        reasons
            .into_iter()
            .find_map(|(yes, why)| yes.then_some(why))
    }

    /// Where a card may send packets to an address by itself, or why not. Whether the prefix hides
    /// others is the caller's to ask, because that can take long.
    pub(super) fn candidate(&self, from: &Port, to: Ipv4Addr) -> Result<Candidate, &'static str> {
        let fib = self.fib;
        let (prefix, id) = fib.longest_match4(to.to_bits()).ok_or("no route")?;
        let way = match fib.next_hop(id) {
            Some(NextHop::Forward(way)) => way,
            Some(NextHop::Group(_)) => return Err("several next hops"),
            _ => return Err("Linux's, or no neighbour yet"),
        };
        if way.unconfirmed.is_some() {
            return Err("Linux must know of packets to this neighbour, to confirm it");
        }
        if way.port == from.id {
            return Err("it leaves where it came in");
        }
        let out = self.ports.iter().find(|port| port.id == way.port);
        let out = out.ok_or("the port is gone")?;
        let cards = (card(from), card(out));
        if !matches!(cards, (Some(from), Some(to)) if from.bus() == to.bus()) {
            return Err("it leaves by a port that is no card on this bus");
        }
        if !out.is_up() {
            return Err("the port it leaves by is down");
        }
        let queues = self.config.ports.iter().find(|port| port.name == out.name);
        if queues.is_none_or(|section| !section.queues.is_default()) {
            return Err("the port it leaves by has queues, the engine's");
        }
        if way.mtu < LONGEST {
            return Err("the MTU is below 1500");
        }
        let mac = std::array::from_fn(|octet| way.l2[octet]);
        Ok(Candidate {
            prefix,
            out: out.id,
            mac,
        })
    }

    /// Whether a card would send what is not for it along with what is.
    pub(super) fn hides_others(&self, candidate: &Candidate) -> bool {
        candidate.prefix.len() == 0 || self.fib.has_more_specific4(candidate.prefix)
    }
}
