//! Decodes the netlink messages that the mirror needs.
//!
//! We do not use a crate for this: the mirror needs few attributes of each message, wants no
//! allocation for each event, and must not lose a route because of an unknown attribute.

pub(crate) mod bridge;
mod link;
mod nexthop;
mod route;
mod rule;
mod station;
#[cfg(test)]
mod tests;
mod tunnel;

use std::net::IpAddr;

pub use crate::attribute::Malformed;
use crate::attribute::{attributes, header, u32_at};
use bridge::{BridgeEvent, RTM_DELVLAN, RTM_NEWVLAN};
pub use link::{Bond, Bridge, Link, Vlan};
pub use nexthop::{Bucket, NextHopMessage, NextHopObject};
pub use route::{Hop, RouteMessage, RouteType, Target};
pub(crate) use rule::decode as decode_rule;
pub use rule::{Rule, RuleAction};
pub use station::Station;
pub use tunnel::{Tunnel, TunnelKind, Vxlan};

/// Length of struct nlmsghdr.
pub(crate) const NLMSG_HEADER: usize = 16;

/// struct nlmsghdr and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Message type.
    pub kind: u16,
    /// NLM_F_* flags.
    pub flags: u16,
    /// Sequence number of the request answered; 0 for events.
    pub sequence: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// The messages in one datagram.
pub struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    /// Iterates over a datagram.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self(datagram)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let lie = Some(Err(Malformed("netlink message")));
        let Some(head) = bytes.get(..NLMSG_HEADER) else {
            return lie;
        };
        let len = u32_at(head, 0) as usize;
        let Some(payload) = bytes.get(NLMSG_HEADER..len) else {
            return lie;
        };
        self.0 = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Frame {
            kind: u16::from_ne_bytes([head[4], head[5]]),
            flags: u16::from_ne_bytes([head[6], head[7]]),
            sequence: u32_at(head, 8),
            payload,
        }))
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Interface index.
    pub device: u32,
    /// The local address.
    pub address: IpAddr,
    /// Prefix length.
    pub len: u8,
}

/// A neighbour table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Interface index.
    pub device: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its link-layer address, if Ethernet and known.
    pub mac: Option<[u8; 6]>,
    /// NUD_* state.
    pub state: u16,
    /// NTF_EXT_LEARNED: a control plane made it and keeps it.
    pub learned: bool,
    /// NTF_EXT_MANAGED: the kernel keeps it resolved.
    pub managed: bool,
    /// NTF_EXT_EXT_VALIDATED: a control plane finds out whether it is there.
    pub validated: bool,
    /// Who made it (NDA_PROTOCOL); 0 if unknown.
    pub protocol: u8,
    /// Linux has deleted it. Bora goes on with it until Linux has asked for the neighbour again.
    pub held: bool,
}

/// NUD_VALID of the kernel: packets may be sent to the link-layer address.
const NUD_VALID: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;

impl Neighbour {
    /// NUD_VALID.
    pub(crate) fn valid(&self) -> bool {
        self.state & NUD_VALID != 0
    }

    /// Whether Linux would find out, after a packet there, if it is still there.
    pub(crate) fn unconfirmed(&self) -> bool {
        self.state == libc::NUD_STALE && !self.validated
    }

    /// Whether Bora goes on with an entry that Linux deletes: until the deletion there was no doubt about it, and
    /// Linux has not been told yet that packets go there.
    pub(crate) fn may_be_held(&self) -> bool {
        const GOOD: u16 = libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY;
        let states = if self.held { libc::NUD_STALE } else { GOOD };
        self.state & states != 0 && self.mac.is_some() && !self.learned
    }

    /// The link-layer address to send to.
    pub fn usable(&self) -> Option<[u8; 6]> {
        self.mac.filter(|_| self.state & NUD_VALID != 0)
    }
}

/// A decoded message of an event or a dump. `true` means deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// An interface came, changed or (`true`) went.
    Link(Link, bool),
    /// An address.
    Address(Address, bool),
    /// A neighbour.
    Neighbour(Neighbour, bool),
    /// A station behind a VXLAN device.
    Station(Station, bool),
    /// A route.
    Route(RouteMessage, bool),
    /// A next-hop object.
    NextHop(NextHopMessage, bool),
    /// A bucket of a resilient group.
    Bucket(Bucket),
    /// Forwarding settings of an interface changed; `None`: those of all interfaces, or the
    /// defaults.
    Netconf(Option<u32>),
    /// A policy-routing rule changed.
    Rule,
    /// A port of a bridge, a VLAN there or a station behind it changed.
    Bridge(BridgeEvent),
    /// A queueing discipline or traffic filter changed.
    Traffic,
    /// A message that the mirror ignores.
    Other,
}

/// Routes of router advertisements; libc does not name it.
pub(crate) const RTPROT_RA: u8 = 9;

/// Message types that libc does not name.
pub(crate) const RTM_NEWNEXTHOP: u16 = 104;
pub(crate) const RTM_DELNEXTHOP: u16 = 105;
pub(crate) const RTM_GETNEXTHOP: u16 = 106;
const RTM_NEWNEXTHOPBUCKET: u16 = 116;
pub(crate) const RTM_GETNEXTHOPBUCKET: u16 = 118;
const RTM_NEWNETCONF: u16 = 80;
const RTM_DELNETCONF: u16 = 81;

/// The interface of a struct netconfmsg.
fn netconf(payload: &[u8]) -> Result<Option<u32>, Malformed> {
    const NETCONFA_IFINDEX: u16 = 1;
    for attribute in attributes(payload, 4) {
        let attribute = attribute?;
        if attribute.kind == NETCONFA_IFINDEX {
            // all: -1, default: -2
            let index = Some(attribute.u32()?);
            return Ok(index.filter(|index| index.cast_signed() >= 0));
        }
    }
    Ok(None)
}

/// Decodes one NETLINK_ROUTE message.
///
/// # Errors
/// [`Malformed`] where lengths contradict each other.
pub fn decode(frame: &Frame<'_>) -> Result<Message, Malformed> {
    let Frame {
        kind,
        flags,
        payload,
        ..
    } = *frame;
    Ok(match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => match link::decode(payload)? {
            Some(link) => Message::Link(link, kind == libc::RTM_DELLINK),
            None => Message::Bridge(bridge::event(kind, payload)),
        },
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            Message::Address(address(payload)?, kind == libc::RTM_DELADDR)
        }
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => match neighbour(payload)? {
            Some(neighbour) => Message::Neighbour(neighbour, kind == libc::RTM_DELNEIGH),
            None => match station::decode(payload)? {
                Some(station) => Message::Station(station, kind == libc::RTM_DELNEIGH),
                None if payload[0] == libc::AF_BRIDGE as u8 => {
                    Message::Bridge(bridge::event(kind, payload))
                }
                None => Message::Other,
            },
        },
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => match route::decode(payload, flags)? {
            Some(route) => Message::Route(route, kind == libc::RTM_DELROUTE),
            None => Message::Other,
        },
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => {
            Message::NextHop(nexthop::decode(payload)?, kind == RTM_DELNEXTHOP)
        }
        RTM_NEWNEXTHOPBUCKET => Message::Bucket(nexthop::bucket(payload)?),
        RTM_NEWNETCONF | RTM_DELNETCONF => Message::Netconf(netconf(payload)?),
        libc::RTM_NEWRULE | libc::RTM_DELRULE => Message::Rule,
        RTM_NEWVLAN | RTM_DELVLAN => Message::Bridge(bridge::event(kind, payload)),
        libc::RTM_NEWQDISC | libc::RTM_DELQDISC | libc::RTM_NEWTFILTER | libc::RTM_DELTFILTER => {
            Message::Traffic
        }
        _ => Message::Other,
    })
}

/// struct ifaddrmsg.
fn address(payload: &[u8]) -> Result<Address, Malformed> {
    let head = header(payload, 8, "address message")?;
    let (mut local, mut peer) = (None, None);
    for attribute in attributes(payload, 8) {
        let attribute = attribute?;
        match attribute.kind {
            libc::IFA_LOCAL => local = Some(attribute.ip()?),
            libc::IFA_ADDRESS => peer = Some(attribute.ip()?),
            _ => {}
        }
    }
    // on point-to-point links IFA_ADDRESS is the other end's
    let address = local.or(peer).ok_or(Malformed("address message"))?;
    Ok(Address {
        device: u32_at(head, 4),
        address,
        len: head[1],
    })
}

/// struct ndmsg. `None` for entries that are not neighbours: proxy entries, multicast addresses
/// (for which Linux sends no events) and other families (bridge FDB).
/// Flags of NDA_FLAGS_EXT (include/uapi/linux/neighbour.h).
pub(crate) const NTF_EXT_MANAGED: u32 = 1 << 0;
const NTF_EXT_EXT_VALIDATED: u32 = 1 << 1;

fn neighbour(payload: &[u8]) -> Result<Option<Neighbour>, Malformed> {
    let head = header(payload, 12, "neighbour message")?;
    let ip = [libc::AF_INET as u8, libc::AF_INET6 as u8].contains(&head[0]);
    if !ip || head[10] & libc::NTF_PROXY != 0 {
        return Ok(None);
    }
    const NDA_PROTOCOL: u16 = 12;
    const NDA_FLAGS_EXT: u16 = 15;
    let (mut address, mut mac, mut extended, mut protocol) = (None, None, 0, 0);
    for attribute in attributes(payload, 12) {
        let attribute = attribute?;
        match attribute.kind {
            libc::NDA_DST => address = Some(attribute.ip()?),
            libc::NDA_LLADDR => mac = attribute.mac(),
            NDA_FLAGS_EXT => extended = attribute.u32()?,
            NDA_PROTOCOL => protocol = attribute.value.first().copied().unwrap_or(0),
            _ => {}
        }
    }
    let address = address.ok_or(Malformed("neighbour message"))?;
    if address.is_multicast() {
        return Ok(None);
    }
    let state = u16::from_ne_bytes([head[8], head[9]]);
    Ok(Some(Neighbour {
        device: u32_at(head, 4),
        address,
        mac,
        state,
        learned: head[10] & libc::NTF_EXT_LEARNED != 0,
        managed: extended & NTF_EXT_MANAGED != 0,
        validated: extended & NTF_EXT_EXT_VALIDATED != 0,
        protocol,
        held: false,
    }))
}
