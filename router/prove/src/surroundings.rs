//! What Linux needs beside a route to send a packet: links and neighbours.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_wire::MacAddr;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};

use crate::exchange::ProveError;
use crate::linux::Linux;
use crate::question::{Question, Tags};

/// Octets of `struct ifinfomsg` and `struct ndmsg`.
const LINK: usize = 16;
const NEIGHBOUR: usize = 12;
/// The kind of PPP's links.
const PPP: &str = "ppp";

#[derive(Clone, Debug, Default)]
struct Link {
    name: String,
    mac: Option<MacAddr>,
    /// Whether Linux asks for no neighbours there (IFF_NOARP).
    no_arp: bool,
    /// Octets.
    mtu: u32,
    /// The link that it is on.
    on: u32,
    /// The tag of a VLAN device, as on the wire.
    tag: Option<[u8; 4]>,
    /// Whether frames get tags there that its own settings do not tell.
    is_bridge: bool,
    /// Whether it is one of PPP, of which Linux does not tell which session it has.
    is_ppp: bool,
}

/// A PPPoE session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// The other end.
    pub(crate) peer: MacAddr,
    /// The link that its frames go by.
    pub(crate) on: u32,
}

/// Links and neighbours of Linux.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// Links by number.
    links: HashMap<u32, Link>,
    /// Addresses of neighbours that Linux sends to, by device and IP address.
    neighbours: HashMap<(u32, IpAddr), MacAddr>,
    sessions: Vec<Session>,
    /// Whether Linux forwards IPv6 at all (net.ipv6.conf.all.forwarding).
    pub(crate) forwards_v6: bool,
    /// Whether a route look-up of Linux tells which IPv6 path a flow's packets take. With fib_multipath_hash_policy 3 it does not:
    /// rt6_multipath_hash() mixes the hash of a packet once more than that of a question.
    pub(crate) tells_paths_v6: bool,
}

impl Surroundings {
    /// Reads them.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub(crate) fn read(linux: &mut Linux) -> Result<Self, ProveError> {
        let mut found = Self::default();
        let exchange = linux.exchange();
        exchange.dump(libc::RTM_GETLINK, &[0; LINK], |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                found.note_link(&link);
            }
        })?;
        exchange.dump(libc::RTM_GETNEIGH, &[0; NEIGHBOUR], |message| {
            if let RouteNetlinkMessage::NewNeighbour(neighbour) = message {
                found.note_neighbour(&neighbour);
            }
        })?;
        found.read_sessions();
        // a kernel without IPv6 has neither
        found.forwards_v6 = sysctl_v6("conf/all/forwarding").is_some_and(|text| text != "0");
        let policy = sysctl_v6("fib_multipath_hash_policy");
        found.tells_paths_v6 = policy.is_some_and(|text| text != "3");
        Ok(found)
    }

    fn note_link(&mut self, link: &LinkMessage) {
        let mut found = Link {
            no_arp: link.header.flags.contains(LinkFlags::Noarp),
            ..Link::default()
        };
        for one in &link.attributes {
            match one {
                LinkAttribute::IfName(text) => found.name.clone_from(text),
                LinkAttribute::Mtu(octets) => found.mtu = *octets,
                LinkAttribute::Link(index) => found.on = *index,
                LinkAttribute::LinkInfo(infos) => {
                    found.is_bridge = infos.contains(&LinkInfo::Kind(InfoKind::Bridge));
                    found.is_ppp = infos.contains(&LinkInfo::Kind(InfoKind::Other(PPP.into())));
                    found.tag = infos.iter().find_map(tag);
                }
                LinkAttribute::Address(octets) => {
                    found.mac = octets.first_chunk().copied().map(MacAddr);
                }
                _ => {}
            }
        }
        self.links.insert(link.header.index, found);
    }

    /// Reads `/proc/net/pppoe`: number, address and device of each session. A kernel without PPPoE has none.
    fn read_sessions(&mut self) {
        let Ok(text) = fs::read_to_string("/proc/self/net/pppoe") else {
            return;
        };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, peer, device] = words[..] else {
                continue;
            };
            let on = self.links.iter().find(|(_, link)| link.name == device);
            if let (Some(peer), Some((&on, _))) = (mac(peer), on) {
                self.sessions.push(Session { peer, on });
            }
        }
    }

    fn note_neighbour(&mut self, neighbour: &NeighbourMessage) {
        let (mut ip, mut mac) = (None, None);
        for one in &neighbour.attributes {
            match one {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => {
                    ip = Some(IpAddr::V4(*address));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
                    ip = Some(IpAddr::V6(*address));
                }
                NeighbourAttribute::LinkLayerAddress(octets) => {
                    mac = octets.first_chunk().copied().map(MacAddr);
                }
                _ => {}
            }
        }
        // NUD_VALID of include/net/neighbour.h
        let is_valid = matches!(
            neighbour.header.state,
            NeighbourState::Permanent
                | NeighbourState::Noarp
                | NeighbourState::Reachable
                | NeighbourState::Probe
                | NeighbourState::Stale
                | NeighbourState::Delay
        );
        if let (Some(ip), Some(mac), true) = (ip, mac, is_valid) {
            self.neighbours.insert((neighbour.header.ifindex, ip), mac);
        }
    }

    /// The name of a link; empty if there is none.
    pub(crate) fn name_of(&self, ifindex: u32) -> &str {
        self.links.get(&ifindex).map_or("", |link| &link.name)
    }

    /// A packet that comes in by an interface: its source is a neighbour there if there is one, and its destination a neighbour
    /// elsewhere.
    pub(crate) fn template(&self, input: usize, ifindex: u32, v6: bool) -> Question {
        let of = |here: bool| {
            let neighbours = self.neighbours.keys();
            let fit = neighbours.filter(|(device, address)| {
                (*device == ifindex) == here && address.is_ipv6() == v6 && !is_local_only(*address)
            });
            fit.map(|(_, address)| *address).min()
        };
        let [source, destination]: [IpAddr; 2] = match v6 {
            // for documentation (RFC 5737, RFC 3849), and no router's own address
            false => [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 1)].map(IpAddr::V4),
            true => [1, 2]
                .map(|last| Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0xffff, 0, 0, 0, last).into()),
        };
        let (source, destination) = (of(true).unwrap_or(source), of(false).unwrap_or(destination));
        Question::new(input, source, destination)
    }

    /// The Ethernet address of a link.
    pub(crate) fn mac(&self, ifindex: u32) -> Option<MacAddr> {
        self.links.get(&ifindex)?.mac
    }

    /// The VLAN tags of frames that leave by a link; `None` if a bridge or a PPPoE session gives them.
    pub(crate) fn tags(&self, mut ifindex: u32) -> Option<Tags> {
        let mut tags = Vec::new();
        while let Some(link) = self.links.get(&ifindex) {
            match link.tag {
                _ if link.is_bridge || link.is_ppp => return None,
                Some(tag) if tags.len() < size_of::<Tags>() => {
                    tags.splice(..0, tag);
                    ifindex = link.on;
                }
                _ => break,
            }
        }
        tags.resize(size_of::<Tags>(), 0);
        tags.try_into().ok()
    }

    /// The sessions that a link may have: all there are, if it is one of PPP.
    pub(crate) fn sessions(&self, ifindex: u32) -> impl Iterator<Item = &Session> {
        let is_ppp = self.links.get(&ifindex).is_some_and(|link| link.is_ppp);
        self.sessions.iter().filter(move |_| is_ppp)
    }

    /// The MTU of a link, octets.
    pub(crate) fn mtu(&self, ifindex: u32) -> Option<u32> {
        self.links.get(&ifindex).map(|link| link.mtu)
    }

    /// The Ethernet address of a neighbour that Linux sends to without asking for it first. Where it asks for none, a neighbour that
    /// it does not know has the link's own address (arp_constructor() and ndisc_constructor()).
    pub(crate) fn neighbour(&self, ifindex: u32, address: IpAddr) -> Option<MacAddr> {
        let known = self.neighbours.get(&(ifindex, address)).copied();
        let link = || self.links.get(&ifindex).filter(|link| link.no_arp);
        known.or_else(|| link()?.mac)
    }
}

/// The value of an IPv6 sysctl; `None` if the kernel has none of this name.
fn sysctl_v6(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv6/{name}")).ok()?;
    Some(text.trim().into())
}

/// The tag of a VLAN device.
fn tag(info: &LinkInfo) -> Option<[u8; 4]> {
    let LinkInfo::Data(InfoData::Vlan(about)) = info else {
        return None;
    };
    let id = about.iter().find_map(|one| match one {
        InfoVlan::Id(id) => Some(id.to_be_bytes()),
        _ => None,
    })?;
    let protocol = about.iter().find_map(|one| match one {
        InfoVlan::Protocol(protocol) => Some(u16::from(*protocol).to_be_bytes()),
        _ => None,
    })?;
    Some([protocol[0], protocol[1], id[0], id[1]])
}

/// An Ethernet address, as Linux prints it.
fn mac(text: &str) -> Option<MacAddr> {
    let octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let octets: Vec<u8> = octets.collect::<Result<_, _>>().ok()?;
    octets.try_into().ok().map(MacAddr)
}

/// Whether no router forwards packets of an address: link-local and multicast ones.
fn is_local_only(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_multicast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}
