//! Tunnels over IPv4: GRE (RFC 2784, 2890), IP in IP (RFC 2003, 4213), VXLAN (RFC 7348).
//!
//! On the way out a tunnel is a next hop: [`crate::rewrite()`] puts its headers in front of the packet, which then
//! leaves by the port of the outer destination. On the way in the outer packet is for the router itself. If it is
//! one of a tunnel's, [`crate::Devices::unwrap`] makes the packet inside a frame that came in by the tunnel's device. What is not plain goes to
//! Linux, which has the same tunnels.

use std::cell::{Cell, RefCell};

use bora_buffer::{MAX_BATCH, Packet, Region};
use bora_fib::{Adjacency, Encapsulation, FibReader, NextHopId, OuterUdp, PortId};
use bora_wire::{MacAddr, Protocol, checksum, ethernet, ipv4};

use crate::multipath::jhash_2words;
use crate::{Context, Family, Meta};

const ETHERNET: usize = ethernet::HEADER_LEN;
const IPV4: usize = 20;
const UDP: usize = 8;
const VXLAN: usize = 8;
const DONT_FRAGMENT: u8 = 0x40;
/// The ECN bits of TOS or traffic class, and their values (RFC 3168).
const ECN: u8 = 3;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;
/// Flags and version of GRE with a key and nothing else.
const GRE_KEY: u16 = 0x2000;
/// Flags and reserved octets of VXLAN with a VNI and nothing else.
const VXLAN_FLAGS: u32 = 0x0800_0000;

/// How packets of a tunnel are known when they come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// IP in IP or GRE.
    Addresses {
        /// 4, 41 or 47.
        protocol: u8,
        /// The far end, as a number.
        source: u32,
        /// The near end, as a number.
        destination: u32,
        /// Of GRE.
        key: Option<u32>,
    },
    /// VXLAN, whatever the addresses are.
    Vxlan {
        /// UDP destination port.
        port: u16,
        /// VXLAN network identifier.
        vni: u32,
    },
}

/// A tunnel's packet that has come in: whose it is, and what is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) endpoint: Endpoint,
    /// The far end, as a number.
    pub(crate) source: u32,
    /// Where the packet inside begins in the frame: its IP header, or its Ethernet header if `ethertype` is none.
    at: usize,
    ethertype: Option<u16>,
}

impl Arrival {
    /// `None` for what is no tunnel's, or is left to Linux: fragments, GRE with checksums or sequence numbers, ECN that
    /// changes what is inside, wrong or strange headers. `partial`: the sender may have left the UDP checksum to the receiver.
    pub(crate) fn of(frame: &[u8], partial: bool) -> Option<Self> {
        let outer = ipv4::Packet::new_checked(frame.get(ETHERNET..)?).ok()?;
        if outer.has_options() || outer.is_fragment() {
            return None;
        }
        let protocol = outer.protocol();
        let inside = match protocol {
            Protocol(47) => gre(outer.payload())?,
            Protocol(4) => (None, 0, Some(ethernet::EtherType::IPV4.0)),
            Protocol(41) => (None, 0, Some(ethernet::EtherType::IPV6.0)),
            Protocol::UDP => return Self::vxlan(&outer, partial),
            _ => return None,
        };
        let (key, length, ethertype) = inside;
        let source = outer.src().to_bits();
        let endpoint = Endpoint::Addresses {
            protocol: protocol.0,
            source,
            destination: outer.dst().to_bits(),
            key,
        };
        let at = ETHERNET + IPV4 + length;
        let arrival = Self {
            endpoint,
            source,
            at,
            ethertype,
        };
        is_plain(&outer, outer.payload().get(length..)?).then_some(arrival)
    }

    /// Whether the packet inside has this Ethernet source address: Linux drops those of its own (vxlan_set_mac()).
    pub(crate) fn comes_from(&self, mac: MacAddr, frame: &[u8]) -> bool {
        let source = frame.get(self.at + 6..self.at + 12);
        self.ethertype.is_none() && source == Some(&mac.0)
    }

    fn vxlan(outer: &ipv4::Packet<&[u8]>, partial: bool) -> Option<Self> {
        let segment = outer.payload();
        let (udp, rest) = segment.split_first_chunk::<UDP>()?;
        let (vxlan, inside) = rest.split_first_chunk::<VXLAN>()?;
        let [_, _, port_high, port_low, length_high, length_low, _, _] = *udp;
        let is_whole = usize::from(u16::from_be_bytes([length_high, length_low])) == segment.len();
        let [a, b, c, d, high, middle, low, reserved] = *vxlan;
        if !is_whole || u32::from_be_bytes([a, b, c, d]) != VXLAN_FLAGS || reserved != 0 {
            return None;
        }
        match checksum::transport_v4(outer.src(), outer.dst(), Protocol::UDP, segment) {
            checksum::Transport::Valid | checksum::Transport::Absent => {}
            checksum::Transport::Partial if partial => {}
            _ => return None,
        }
        let arrival = Self {
            endpoint: Endpoint::Vxlan {
                port: u16::from_be_bytes([port_high, port_low]),
                vni: u32::from_be_bytes([0, high, middle, low]),
            },
            source: outer.src().to_bits(),
            at: ETHERNET + IPV4 + UDP + VXLAN,
            ethertype: None,
        };
        is_plain(outer, inside.get(ETHERNET..)?).then_some(arrival)
    }
}

/// Key, length of the header, and EtherType of GRE.
fn gre(payload: &[u8]) -> Option<(Option<u32>, usize, Option<u16>)> {
    let (&[flags_high, flags_low, type_high, type_low], rest) = payload.split_first_chunk()?;
    let ethertype = ethernet::EtherType(u16::from_be_bytes([type_high, type_low]));
    if ![ethernet::EtherType::IPV4, ethernet::EtherType::IPV6].contains(&ethertype) {
        return None;
    }
    match u16::from_be_bytes([flags_high, flags_low]) {
        0 => Some((None, 4, Some(ethertype.0))),
        GRE_KEY => Some((
            Some(u32::from_be_bytes(*rest.first_chunk()?)),
            8,
            Some(ethertype.0),
        )),
        _ => None,
    }
}

/// Whether a packet inside is not longer than what the outer packet has of it, and keeps its ECN (RFC 6040, 4.2).
fn is_plain(outer: &ipv4::Packet<&[u8]>, inside: &[u8]) -> bool {
    let Some(&[first, second, a, b, c, d]) = inside.first_chunk() else {
        return false;
    };
    let (length, tos) = match first >> 4 {
        4 => (usize::from(u16::from_be_bytes([a, b])), second),
        6 => (
            40 + usize::from(u16::from_be_bytes([c, d])),
            first << 4 | second >> 4,
        ),
        _ => return false,
    };
    let changes = match outer.tos() & ECN {
        CE => true,
        ECT1 => tos & ECN == ECT0,
        _ => false,
    };
    length <= inside.len() && !changes
}

impl Arrival {
    /// Makes the packet inside a frame for this address. The outer one stays in front of it, for [`Endpoint::rewrap`].
    /// False if the frame has no room; nothing is changed then.
    pub(crate) fn unwrap(&self, region: &Region, packet: &mut Packet, mac: MacAddr) -> bool {
        packet.set_mark(0); // what is inside has no VLAN priority
        let Some(ethertype) = self.ethertype else {
            return packet.pull(self.at);
        };
        // Its Ethernet header takes the place of the end of the outer headers, which are kept in front of the frame.
        if !packet.push(region, ETHERNET) {
            return false;
        }
        let place = self.at..self.at + ETHERNET;
        let octets = region.octets_mut(packet);
        octets.copy_within(place.clone(), 0);
        let header = &mut octets[place];
        header[..6].copy_from_slice(&mac.0);
        header[6..12].fill(0);
        header[12..].copy_from_slice(&ethertype.to_be_bytes());
        packet.pull(self.at)
    }
}

impl Endpoint {
    /// Undoes [`Arrival::unwrap`] for a packet that is otherwise as it came.
    pub(crate) fn rewrap(self, region: &Region, packet: &mut Packet) {
        let length = match self {
            Self::Vxlan { .. } => IPV4 + UDP + VXLAN,
            Self::Addresses {
                protocol: 47, key, ..
            } => IPV4 + if key.is_some() { 8 } else { 4 },
            Self::Addresses { .. } => IPV4,
        };
        packet.push(region, ETHERNET + length);
        if matches!(self, Self::Vxlan { .. }) {
            return;
        }
        let octets = region.octets_mut(packet);
        if octets.len() >= length + 2 * ETHERNET {
            octets.copy_within(..ETHERNET, ETHERNET + length);
        }
        packet.pull(ETHERNET);
    }
}

/// What a worker needs for packets that go into tunnels.
#[derive(Debug)]
pub struct Tunnelling {
    /// Identification of the next outer header.
    next_id: Cell<u16>,
    /// The last outer destination of this batch, and its next hop.
    last: Cell<Option<(u32, NextHopId)>>,
    /// Tunnel, and octets of the packet inside, of each packet of this batch.
    sent: RefCell<Vec<(PortId, usize)>>,
}

impl Default for Tunnelling {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Tunnelling {
    /// `first_id`: of the outer headers that this worker writes. Workers should begin far from each other, because the
    /// identifications of fragments must not meet (RFC 6864).
    pub fn new(first_id: u16) -> Self {
        Self {
            next_id: Cell::new(first_id),
            last: Cell::new(None),
            sent: RefCell::new(Vec::with_capacity(MAX_BATCH)),
        }
    }

    /// A new batch begins: the FIB may have changed.
    #[inline]
    pub(crate) fn begin(&self) {
        self.last.set(None);
    }

    /// The next hop of an outer destination.
    pub(crate) fn find(&self, destination: u32, fib: &FibReader) -> NextHopId {
        if let Some((_, found)) = self.last.get().filter(|last| last.0 == destination) {
            return found;
        }
        let mut found = [NextHopId::NO_ROUTE];
        fib.lookup4(&[destination], &mut found);
        self.last.set(Some((destination, found[0])));
        found[0]
    }

    /// Calls `count` with the tunnel and the octets inside of each packet since the last call.
    #[inline]
    pub fn take_sent(&self, mut count: impl FnMut(PortId, usize)) {
        let mut sent = self.sent.borrow_mut();
        for (port, octets) in sent.drain(..) {
            count(port, octets);
        }
    }
}

/// What the outer headers take from the packet inside.
struct Inner {
    tos: u8,
    hops: u8,
    dont_fragment: u8,
    source_port: u16,
}

impl Inner {
    fn of(
        octets: &[u8],
        meta: Meta,
        tunnel: &Encapsulation,
        context: &Context<'_>,
    ) -> Option<Self> {
        let header: &[u8; IPV4] = octets.first_chunk()?;
        let source_port = match &tunnel.udp {
            Some(udp) => source_port(octets, meta, udp, context)?,
            None => 0,
        };
        Some(match meta.family() {
            Family::V4 => Self {
                tos: header[1],
                hops: header[8],
                dont_fragment: header[6] & DONT_FRAGMENT,
                source_port,
            },
            Family::V6 => Self {
                tos: header[0] << 4 | header[1] >> 4,
                hops: header[7],
                dont_fragment: 0,
                source_port,
            },
        })
    }
}

/// The UDP source port that tells the flow inside: Linux's udp_flow_src_port(), with the key of the multipath hash. From
/// Linux 6.11 on its own key is another.
fn source_port(octets: &[u8], meta: Meta, udp: &OuterUdp, context: &Context<'_>) -> Option<u16> {
    let hash = context.hash4.of_buffer(octets, meta.family())?;
    let hash = u64::from(hash ^ (hash << 16));
    let (first, end) = udp.source_ports;
    let ports = u64::from(end.saturating_sub(first));
    Some(((hash * ports) >> 32) as u16 + first)
}

/// The number that chooses among several paths of the outer destination, as Linux's fib_multipath_hash() does for what
/// ip_tunnel_xmit() and vxlan_xmit_one() send. `None` if only Linux can tell.
pub(crate) fn outer_hash(
    inside: &[u8],
    meta: Meta,
    tunnel: &Encapsulation,
    context: &Context<'_>,
) -> Option<u32> {
    let outer = tunnel.headers.ipv4();
    let Some(udp) = &tunnel.udp else {
        let key: [u8; 4] = match tunnel.headers.octets().get(IPV4..) {
            Some(&[_, _, _, _, ref key @ ..]) if key.len() == 4 => *key.first_chunk()?,
            _ => [0; 4],
        };
        let hash = context.hash4.of_outer(outer, key)?;
        let inner = context.hash4.of_buffer(inside, meta.family())?;
        return Some(jhash_2words(hash, inner, 0) >> 1);
    };
    let [a, b] = source_port(inside, meta, udp, context)?.to_be_bytes();
    let &[_, _, c, d, ..] = tunnel.headers.octets().get(IPV4..)? else {
        return None;
    };
    Some(context.hash4.of_outer(outer, [a, b, c, d])? >> 1)
}

/// Puts a packet whose TTL and checksums are done into a tunnel. False if its frame has no room; nothing is changed then.
pub(crate) fn wrap(
    packet: &mut Packet,
    meta: Meta,
    (tunnel, outer): (&Encapsulation, &Adjacency),
    context: &Context<'_>,
) -> bool {
    let region = context.region;
    let inside = region.octets(packet).get(ETHERNET..).unwrap_or_default();
    let Some(inner) = Inner::of(inside, meta, tunnel, context) else {
        return false;
    };
    let headers = tunnel.headers.octets();
    if !packet.push(region, headers.len()) {
        return false;
    }
    let octets = region.octets_mut(packet);
    octets[..ETHERNET].copy_from_slice(&outer.l2);
    octets[ETHERNET..ETHERNET + headers.len()].copy_from_slice(headers);
    let ip = &mut octets[ETHERNET..];
    let length = (headers.len() + usize::from(meta.l3_length())) as u16;
    let state = context.tunnelling;
    let id = state.next_id.get();
    state.next_id.set(id.wrapping_add(1));
    // RFC 6040, 4.1: as inside, but CE becomes ECT(0), as INET_ECN_encapsulate() has it
    let ecn = match inner.tos & ECN {
        CE => ECT0,
        other => other,
    };
    let dscp = if tunnel.inherits_tos {
        inner.tos
    } else {
        ip[1]
    };
    ip[1] = dscp & !ECN | ecn;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    if tunnel.copies_dont_fragment {
        ip[6] |= inner.dont_fragment;
    }
    if ip[8] == 0 {
        ip[8] = inner.hops;
    }
    let sum = checksum::checksum(&ip[..IPV4]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    if let Some(udp) = &tunnel.udp {
        fill_udp(ip, length - IPV4 as u16, inner.source_port, udp.checksum);
    }
    let sent = (tunnel.port, usize::from(meta.l3_length()));
    state.sent.borrow_mut().push(sent);
    true
}

/// Fills the UDP header of an IPv4 packet.
fn fill_udp(ip: &mut [u8], length: u16, source_port: u16, with_checksum: bool) {
    let segment = &mut ip[IPV4..IPV4 + usize::from(length)];
    segment[..2].copy_from_slice(&source_port.to_be_bytes());
    segment[4..6].copy_from_slice(&length.to_be_bytes());
    if !with_checksum {
        return;
    }
    let outer = ipv4::Packet::new_unchecked(&ip[..IPV4]);
    let (source, destination) = (outer.src(), outer.dst());
    let segment = &mut ip[IPV4..IPV4 + usize::from(length)];
    // it is long enough, because Encapsulation::new() has seen its header
    let _ = checksum::fill_transport_v4(source, destination, Protocol::UDP, segment);
}
