//! The hosts that the tester stands for on a port's link: it answers ARP and neighbour solicitations for
//! their addresses.

use std::net::IpAddr;

use bora_wire::MacAddr;
use bora_wire::vlan::Tci;

use super::neighbour::{self, Message, Tag};
use super::spec::{Attached, PortSpec};
use crate::flow::Place;
use crate::frame::tag_of;
use crate::prefix::Prefix;
use crate::traffic::{Stream, Traffic, Values};

/// Addresses of each stream that a port announces to the router in advance.
const TOLD: u32 = 256;

/// The hosts that the tester stands for on one port in one trial.
#[derive(Debug)]
pub(crate) struct Neighbours {
    mac: MacAddr,
    /// The port's own addresses, each with the gateway behind which the rest is.
    own: Vec<(IpAddr, Option<IpAddr>)>,
    /// Addresses of streams that this port answers for if they are on the link.
    played: Vec<Values<IpAddr>>,
    links: Vec<Prefix>,
    /// Routers whose Ethernet address is to be known.
    pub(super) routers: Vec<Router>,
}

#[derive(Debug)]
pub(super) struct Router {
    pub(super) address: IpAddr,
    pub(super) tag: Tag,
    pub(super) mac: Option<MacAddr>,
}

impl Neighbours {
    /// The hosts on port number `index`, which has this Ethernet address.
    pub(crate) fn new(index: usize, spec: &PortSpec, mac: MacAddr, traffic: &Traffic) -> Self {
        let attached = spec.v4.map(Attached::either).into_iter();
        let attached: Vec<_> = attached.chain(spec.v6.map(Attached::either)).collect();
        let link = |own: &Attached<IpAddr>| Prefix {
            network: own.address,
            length: own.prefix_length,
        };
        let own = attached.iter().map(|own| (own.address, own.gateway));
        let mut neighbours = Self {
            mac,
            own: own.collect(),
            played: Vec::new(),
            links: attached.iter().map(link).collect(),
            routers: Vec::new(),
        };
        for stream in &traffic.streams {
            let mut touched = false;
            for (port, values) in [
                (stream.from, &stream.sources),
                (stream.to, &stream.destinations),
            ] {
                if port == index {
                    neighbours.played.push(values.clone());
                    touched = true;
                }
            }
            if let Some((_, Some(address))) = neighbours.own_like(stream).filter(|_| touched) {
                neighbours.want(address, tag_of(stream));
            }
        }
        neighbours
    }

    /// The port's own address of a stream's family, and its gateway.
    pub(super) fn own_like(&self, stream: &Stream) -> Option<(IpAddr, Option<IpAddr>)> {
        let is_v4 = stream.sources.nth(0).is_ipv4();
        self.own
            .iter()
            .copied()
            .find(|(own, _)| own.is_ipv4() == is_v4)
    }

    fn want(&mut self, address: IpAddr, tag: Tag) {
        let known = |router: &Router| (router.address, router.tag) == (address, tag);
        if !self.routers.iter().any(known) {
            self.routers.push(Router {
                address,
                tag,
                mac: None,
            });
        }
    }

    /// Whether the tester answers for an address.
    fn plays(&self, address: IpAddr) -> bool {
        if self.own.iter().any(|(own, _)| *own == address) {
            return true;
        }
        let is_router = self
            .own
            .iter()
            .any(|(_, gateway)| *gateway == Some(address));
        !is_router
            && self.links.iter().any(|link| link.contains(address))
            && self.played.iter().any(|values| covers(values, address))
    }

    /// The answer to a frame that asks for one of these addresses.
    #[inline]
    pub(crate) fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        match neighbour::read(frame)? {
            (
                Message::Question {
                    sender,
                    mac,
                    target,
                },
                tag,
            ) if self.plays(target) => neighbour::answer(sender, mac, target, self.mac, tag),
            _ => None,
        }
    }

    pub(super) fn learn(&mut self, frame: &[u8]) {
        let Some((message, tag)) = neighbour::read(frame) else {
            return;
        };
        // a question also has the sender's own address
        let (address, mac) = match message {
            Message::Answer { address, mac } => (address, mac),
            Message::Question { sender, mac, .. } => (sender, mac),
        };
        // a tag of priority 0 and VLAN 0 is no tag
        let vlan = |tag: Tag| tag.map_or(0, Tci::vid);
        for router in &mut self.routers {
            if router.address == address && vlan(router.tag) == vlan(tag) && mac.is_unicast() {
                router.mac = Some(mac);
            }
        }
    }

    /// What is sent first: announcements of the port's own addresses, for switches, and questions to
    /// each router from the addresses of the streams, from which it learns these.
    pub(super) fn introductions(&self, index: usize, traffic: &Traffic) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (own, _) in &self.own {
            frames.extend(neighbour::question(*own, self.mac, *own, None));
        }
        for stream in &traffic.streams {
            let Some((_, Some(gateway))) = self.own_like(stream) else {
                continue;
            };
            for n in 0..stream.flows.min(TOLD) {
                let flow = stream.flow(Place {
                    flow: n,
                    generation: 0,
                });
                for (port, address) in [(stream.from, flow.source), (stream.to, flow.destination)] {
                    if port == index && self.plays(address) {
                        let tag = tag_of(stream);
                        frames.extend(neighbour::question(address, self.mac, gateway, tag));
                    }
                }
            }
        }
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Asks for the routers that have not answered.
    pub(super) fn questions(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let missing = self.routers.iter().filter(|router| router.mac.is_none());
        missing.filter_map(|router| {
            let is_v4 = router.address.is_ipv4();
            let (own, _) = self.own.iter().find(|(own, _)| own.is_ipv4() == is_v4)?;
            neighbour::question(*own, self.mac, router.address, router.tag)
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.routers.iter().all(|router| router.mac.is_some())
    }

    pub(super) fn router(&self, address: IpAddr, tag: Tag) -> Option<MacAddr> {
        let mut routers = self.routers.iter();
        let router = routers.find(|router| (router.address, router.tag) == (address, tag));
        router.and_then(|router| router.mac)
    }
}

/// Whether a value may be the address.
fn covers(values: &Values<IpAddr>, address: IpAddr) -> bool {
    match values {
        Values::List(list) => list.contains(&address),
        Values::Range(first, last) | Values::Random { first, last, .. } => {
            (*first..=*last).contains(&address) && first.is_ipv4() == address.is_ipv4()
        }
    }
}
