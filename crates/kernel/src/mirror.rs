//! Follows the kernel: events as they come, and dumps where events are not enough.
//!
//! The kernel deletes IPv4 routes silently when a link goes down or the last address goes, and it
//! drops events when a socket overflows (ENOBUFS). So link, address and next-hop events and
//! overflows schedule a reconciliation, coalesced over [`COALESCE`].

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink::{Decoded, Events, NetlinkError, dump, route_of};
use crate::routes::{Net, Route, RouteKind, Routes};

/// How long changes gather before a reconciliation.
const COALESCE: Duration = Duration::from_millis(50);
/// Messages handled before the caller gets its turn again.
const READS_A_POLL: usize = 64;

/// Groups of NETLINK_ROUTE: link, neighbour, addresses, routes, rules, netconf, next hops.
const GROUPS: [u32; 11] = [1, 3, 5, 7, 8, 9, 11, 19, 24, 25, 32];

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Kind of virtual link (`veth`, `tun`, …), if it is one.
    pub kind: Option<String>,
    /// Ethernet address; `None` on links without one.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Administratively up, and with carrier.
    pub up: bool,
    /// Root queueing discipline.
    pub qdisc: String,
    /// Receive queues.
    pub rx_queues: u32,
}

/// What changed during a poll.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Links came, went or changed.
    pub links: bool,
    /// The router's own addresses changed.
    pub addresses: bool,
    /// Settings may have changed (netconf).
    pub settings: bool,
}

/// Why the tables were dumped and compared.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Reconciliation {
    /// The first event that asked for it.
    pub reason: String,
    /// Duration in milliseconds.
    pub milliseconds: u64,
    /// Prefixes that were not as the events had said.
    pub changed: usize,
}

/// How the mirror is doing.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct MirrorStats {
    /// Messages heard.
    pub events: u64,
    /// Messages not understood.
    pub malformed: u64,
    /// Times the kernel dropped events for want of room.
    pub overflows: u64,
    /// Reconciliations done.
    pub reconciliations: u64,
    /// The last one.
    pub last: Option<Reconciliation>,
}

/// The kernel's tables as last heard.
pub struct Mirror {
    events: Events,
    /// Routes, neighbours and the FIB made of them.
    pub routes: Routes,
    links: HashMap<u32, Link>,
    addresses: HashSet<IpAddr>,
    /// Rules besides the three every Linux has, in words, IPv4 and IPv6.
    rules: [Vec<String>; 2],
    rules_changed: bool,
    due: Option<(Instant, String)>,
    stats: MirrorStats,
}

impl Mirror {
    /// Subscribes, then dumps everything into `routes`.
    pub fn new(routes: Routes) -> Result<Self, NetlinkError> {
        let mut mirror = Self {
            events: Events::open(&GROUPS)?,
            routes,
            links: HashMap::new(),
            addresses: HashSet::new(),
            rules: [Vec::new(), Vec::new()],
            rules_changed: false,
            due: None,
            stats: MirrorStats::default(),
        };
        mirror.dump_links()?;
        mirror.dump_rules()?;
        Ok(mirror)
    }

    /// The links, by ifindex.
    pub fn links(&self) -> &HashMap<u32, Link> {
        &self.links
    }

    /// The router's own addresses, broadcast ones included.
    pub fn addresses(&self) -> &HashSet<IpAddr> {
        &self.addresses
    }

    /// `ip rule`s that Bora does not implement, in words: IPv4, IPv6.
    pub fn rules(&self) -> &[Vec<String>; 2] {
        &self.rules
    }

    /// How it is doing.
    pub fn stats(&self) -> &MirrorStats {
        &self.stats
    }

    /// Whether nothing is waiting to be reconciled.
    pub fn settled(&self) -> bool {
        self.due.is_none()
    }

    /// Becomes readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.fd()
    }

    /// Dumps routes and neighbours and makes the FIB follow, now.
    pub fn reconcile(&mut self, reason: &str) -> Result<(), NetlinkError> {
        let start = Instant::now();
        let mut changed = 0;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut dumped: HashMap<Net, Vec<Route>> = HashMap::new();
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            self.stats.malformed += dump(RouteNetlinkMessage::GetRoute(request), |message| {
                if let RouteNetlinkMessage::NewRoute(message) = message
                    && let Some((net, route)) = route_of(&message)
                {
                    dumped.entry(net).or_default().push(route);
                }
            })?;
            let v6 = family == AddressFamily::Inet6;
            self.addresses.retain(|address| address.is_ipv6() != v6);
            let own = dumped
                .iter()
                .filter(|(net, list)| list.iter().any(|r| is_own(net, r)));
            self.addresses.extend(own.map(|(net, _)| net.addr));
            changed += self.routes.reconcile(v6, dumped);
        }
        self.dump_neighbours()?;
        let milliseconds = start.elapsed().as_millis() as u64;
        let reason = reason.to_string();
        log::debug!("reconciled ({reason}): {changed} prefixes changed in {milliseconds} ms");
        self.stats.reconciliations += 1;
        self.stats.last = Some(Reconciliation {
            reason,
            milliseconds,
            changed,
        });
        Ok(())
    }

    /// Takes what events there are, and reconciles when it is time. Never waits for events.
    pub fn poll(&mut self) -> Result<Changes, NetlinkError> {
        let mut changes = Changes::default();
        for _ in 0..READS_A_POLL {
            let mut heard = Vec::new();
            match self.events.read(|decoded| heard.push(decoded)) {
                Ok(true) => heard
                    .into_iter()
                    .for_each(|one| self.hear(one, &mut changes)),
                Ok(false) => break,
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
                {
                    self.stats.overflows += 1;
                    self.schedule("events lost (ENOBUFS)");
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(NetlinkError::System {
                        step: "read events",
                        source,
                    });
                }
            }
        }
        if std::mem::take(&mut self.rules_changed) {
            self.dump_rules()?;
            changes.settings = true;
        }
        if let Some((_, reason)) = self.due.take_if(|(when, _)| Instant::now() >= *when) {
            self.dump_links()?;
            self.reconcile(&reason)?;
            changes.links = true;
            changes.addresses = true;
        }
        Ok(changes)
    }

    /// Asks for a reconciliation soon. One that took long keeps the next at a distance.
    fn schedule(&mut self, reason: &str) {
        if self.due.is_none() {
            let last = self.stats.last.as_ref().map_or(0, |last| last.milliseconds);
            let wait = COALESCE.max(Duration::from_millis(last));
            self.due = Some((Instant::now() + wait, reason.into()));
        }
    }

    fn hear(&mut self, decoded: Decoded, changes: &mut Changes) {
        self.stats.events += 1;
        let (message, replace) = match decoded {
            Decoded::Message(message, replace) => (message, replace),
            Decoded::Setting => return changes.settings = true,
            Decoded::NextHop => return self.schedule("a next hop changed"),
            Decoded::Malformed => return self.stats.malformed += 1,
            Decoded::Done(_) | Decoded::Refused(_) => return,
        };
        match *message {
            RouteNetlinkMessage::NewRoute(message) => {
                let Some((net, route)) = route_of(&message) else {
                    return;
                };
                if is_own(&net, &route) {
                    changes.addresses |= self.addresses.insert(net.addr);
                }
                if !self.routes.add(net, route, replace) {
                    self.schedule("routes of equal metric");
                }
            }
            RouteNetlinkMessage::DelRoute(message) => {
                let Some((net, route)) = route_of(&message) else {
                    return;
                };
                if is_own(&net, &route) {
                    changes.addresses |= self.addresses.remove(&net.addr);
                }
                if !self.routes.remove(net, &route) {
                    self.schedule("routes of equal metric");
                }
            }
            RouteNetlinkMessage::NewNeighbour(message) => self.set_neighbour(&message, true),
            RouteNetlinkMessage::DelNeighbour(message) => self.set_neighbour(&message, false),
            RouteNetlinkMessage::NewLink(message) => {
                changes.links |= self.set_link(&message);
            }
            RouteNetlinkMessage::DelLink(message) => {
                self.links.remove(&message.header.index);
                changes.links = true;
                self.schedule("a link went");
            }
            RouteNetlinkMessage::NewAddress(AddressMessage { .. })
            | RouteNetlinkMessage::DelAddress(_) => {
                changes.settings = true;
                self.schedule("an address changed");
            }
            RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => {
                self.rules_changed = true;
            }
            _ => {}
        }
    }

    fn set_link(&mut self, message: &LinkMessage) -> bool {
        let link = link_of(message);
        let old = self.links.insert(message.header.index, link.clone());
        if old.as_ref().is_some_and(|old| old.up != link.up) {
            self.schedule("a link went up or down");
        }
        old.as_ref() != Some(&link)
    }

    fn set_neighbour(&mut self, message: &NeighbourMessage, present: bool) {
        if let Some(((addr, device), mac)) = neighbour_of(message) {
            self.routes
                .set_neighbour(addr, device, mac.filter(|_| present));
        }
    }

    fn dump_links(&mut self) -> Result<(), NetlinkError> {
        self.links.clear();
        let links = &mut self.links;
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.stats.malformed += dump(request, |message| {
            if let RouteNetlinkMessage::NewLink(message) = message {
                links.insert(message.header.index, link_of(&message));
            }
        })?;
        Ok(())
    }

    fn dump_neighbours(&mut self) -> Result<(), NetlinkError> {
        let mut dumped = HashMap::new();
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        self.stats.malformed += dump(request, |message| {
            if let RouteNetlinkMessage::NewNeighbour(message) = message
                && let Some((key, Some(mac))) = neighbour_of(&message)
            {
                dumped.insert(key, mac);
            }
        })?;
        self.routes.reconcile_neighbours(&dumped);
        Ok(())
    }

    fn dump_rules(&mut self) -> Result<(), NetlinkError> {
        for (family, rules) in [AddressFamily::Inet, AddressFamily::Inet6]
            .into_iter()
            .zip(&mut self.rules)
        {
            rules.clear();
            let mut request = RuleMessage::default();
            request.header.family = family;
            self.stats.malformed += dump(RouteNetlinkMessage::GetRule(request), |message| {
                if let RouteNetlinkMessage::NewRule(message) = message {
                    rules.extend(foreign_rule(&message));
                }
            })?;
        }
        Ok(())
    }
}

/// Whether a route makes its prefix one of the router's own addresses.
fn is_own(net: &Net, route: &Route) -> bool {
    let host = if net.addr.is_ipv4() { 32 } else { 128 };
    net.len == host && route.local && route.kind == RouteKind::Local
}

fn link_of(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        name: format!("if{}", message.header.index),
        kind: None,
        mac: None,
        mtu: 0,
        up: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::LowerUp),
        qdisc: String::new(),
        rx_queues: 1,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(octets) => link.mac = octets.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::NumRxQueues(count) => link.rx_queues = (*count).max(1),
            LinkAttribute::Qdisc(name) => link.qdisc.clone_from(name),
            LinkAttribute::LinkInfo(infos) => link.kind = infos.iter().find_map(kind_of),
            _ => {}
        }
    }
    link
}

fn kind_of(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(InfoKind::Other(name)) => Some(name.clone()),
        LinkInfo::Kind(kind) => Some(format!("{kind}").to_lowercase()),
        _ => None,
    }
}

type Neighbour = ((IpAddr, u32), Option<[u8; 6]>);

/// A neighbour and, if it can be used (NUD_VALID), its Ethernet address.
fn neighbour_of(message: &NeighbourMessage) -> Option<Neighbour> {
    let (mut addr, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                addr = Some(IpAddr::from(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                addr = Some(IpAddr::from(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(octets) => mac = octets.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let usable = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    Some(((addr?, message.header.ifindex), mac.filter(|_| usable)))
}

/// A rule in words, unless it is one of the three that every Linux has.
fn foreign_rule(message: &RuleMessage) -> Option<String> {
    let header = &message.header;
    let (mut priority, mut selective) = (
        0,
        header.src_len > 0 || header.dst_len > 0 || header.tos > 0,
    );
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(_)
            | RuleAttribute::Protocol(_)
            | RuleAttribute::SuppressPrefixLen(u32::MAX)
            | RuleAttribute::SuppressIfGroup(u32::MAX) => {}
            _ => selective = true,
        }
    }
    let usual = [(0, 255), (32766, 254), (32767, 253)].contains(&(priority, header.table));
    (!usual || selective).then(|| format!("ip rule {priority} (table {})", header.table))
}
