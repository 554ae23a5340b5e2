//! Packets go into tunnels: what is written in front of them.

use std::cell::{Cell, RefCell};

use bora_buffer::{MAX_BATCH, Packet};
use bora_fib::{Adjacency, Encapsulation, FibReader, NextHopId, OuterUdp, PortId};
use bora_wire::{Protocol, checksum, ethernet, ipv4};

use crate::multipath::jhash_2words;
use crate::tunnel::{CE, ECN, IPV4};
use crate::{Context, Family, Meta};

const ETHERNET: usize = ethernet::HEADER_LEN;
const DONT_FRAGMENT: u8 = 0x40;

/// What a worker needs for packets that go into tunnels.
#[derive(Debug)]
pub struct Tunnelling {
    /// Identification of the next outer header.
    next_id: Cell<u16>,
    /// The last outer destination of this batch, and its next hop.
    last: Cell<Option<(u32, NextHopId)>>,
    /// Tunnel, packets, and their octets inside, of packets that follow each other in this batch.
    sent: RefCell<Vec<(PortId, u64, u64)>>,
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

    /// Calls `count` with each tunnel that packets went into since the last call, how many, and their octets inside.
    #[inline]
    pub fn take_sent(&self, mut count: impl FnMut(PortId, u64, u64)) {
        for (port, packets, octets) in self.sent.borrow_mut().drain(..) {
            count(port, packets, octets);
        }
    }

    /// Notes that packets went into a tunnel.
    pub(crate) fn note_sent(&self, tunnel: PortId, packets: u64, octets: u64) {
        let mut sent = self.sent.borrow_mut();
        match sent.last_mut() {
            Some(last) if last.0 == tunnel => {
                (last.1, last.2) = (last.1 + packets, last.2 + octets)
            }
            _ => sent.push((tunnel, packets, octets)),
        }
    }
}

/// The UDP source port that tells the flow inside: Linux's udp_flow_src_port(), with the key of the multipath hash. From
/// Linux 6.11 on its own key is another.
#[inline(never)]
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

/// Octets of the longest headers, with Ethernet: those of VXLAN.
const LONGEST: usize = 64;
/// Half of them; the shortest headers are longer.
const HALF: usize = LONGEST / 2;

/// A way into a tunnel and to the neighbour that its outer packets go to, ready to be written in front of packets.
pub(crate) struct Wrapper<'a> {
    tunnel: &'a Encapsulation,
    /// All headers, from Ethernet on.
    headers: [u8; LONGEST],
    /// Octets of these.
    length: usize,
    /// The sum of both outer addresses.
    addresses: checksum::Sum,
    /// Octets 0 to 7 of the outer IPv4 header, and which of their bits are the inner one's.
    first: (u64, u64),
    /// TTL and protocol, and which of their bits are the inner packet's.
    hops: (u16, u16),
}

impl<'a> Wrapper<'a> {
    /// `None` if the headers are longer than those of any tunnel.
    pub(crate) fn new(tunnel: &'a Encapsulation, outer: &Adjacency) -> Option<Self> {
        let template = tunnel.headers.octets();
        let length = ETHERNET + template.len();
        let mut headers = [0; LONGEST];
        headers[..ETHERNET].copy_from_slice(&outer.l2);
        headers.get_mut(ETHERNET..length)?.copy_from_slice(template);
        let [a, tos, _, _, _, _, flags, offset, hops, protocol, ..] = *tunnel.headers.ipv4();
        let tos = if tunnel.inherits_tos { 0 } else { tos & !ECN };
        let from_inside = |is_set: bool, bits: u8| if is_set { bits } else { 0 };
        let [inner_tos, inner_flags] = [
            from_inside(tunnel.inherits_tos, !ECN) | ECN,
            from_inside(tunnel.copies_dont_fragment, DONT_FRAGMENT),
        ];
        Some(Self {
            tunnel,
            headers,
            length,
            addresses: checksum::Sum::ZERO.add_bytes(&tunnel.headers.ipv4()[12..]),
            first: (
                u64::from_be_bytes([a, tos, 0, 0, 0, 0, flags, offset]),
                u64::from_be_bytes([0, inner_tos, 0, 0, 0, 0, inner_flags, 0]),
            ),
            hops: (
                u16::from_be_bytes([hops, protocol]),
                u16::from_be_bytes([from_inside(hops == 0, 0xff), 0]),
            ),
        })
    }

    /// Octets of all headers, from Ethernet on.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Puts a packet, whose checksums are done, into the tunnel; `write` changes it before, from its EtherType on. False if its
    /// frame has no room.
    #[inline(always)]
    pub(crate) fn wrap<const HEADERS: usize>(
        &self,
        packet: &mut Packet,
        meta: Meta,
        context: &Context<'_>,
        write: impl Fn(&mut [u8; HEADERS]),
    ) -> bool {
        let region = context.region;
        let has_room = packet.push(region, self.length - ETHERNET);
        let octets = region.octets_mut(packet);
        let inside = octets.get_mut(self.length - 2..);
        let Some(headers) = inside.and_then(|inside| inside.first_chunk_mut()) else {
            return false;
        };
        write(headers);
        let Some((outer, inside)) = octets.split_at_mut_checked(self.length) else {
            return false;
        };
        let source_port = match &self.tunnel.udp {
            None => Some(0),
            Some(udp) => source_port(inside, meta, udp, context),
        };
        let (Some(source_port), Some(header), true) = (source_port, inside.first_chunk(), has_room)
        else {
            return false;
        };
        let length = (self.length - ETHERNET) as u16 + meta.l3_length();
        let header = self.ipv4(header, meta, length, context.tunnelling);
        // two copies of fixed length, which may overlap
        let last = self.length - HALF;
        outer[..HALF].copy_from_slice(&self.headers[..HALF]);
        outer[last..].copy_from_slice(&self.headers[last..last + HALF]);
        outer[ETHERNET..ETHERNET + 12].copy_from_slice(&header);
        if let Some(udp) = &self.tunnel.udp {
            let ip = &mut octets[ETHERNET..];
            fill_udp(ip, length - IPV4 as u16, source_port, udp.checksum);
        }
        true
    }

    /// The outer IPv4 header up to the addresses. Its checksum is computed from what is written, because to read that again
    /// would wait for the stores.
    #[inline(always)]
    fn ipv4(&self, inner: &[u8; IPV4], meta: Meta, length: u16, state: &Tunnelling) -> [u8; 12] {
        let (tos, flags, hops) = match meta.family() {
            Family::V4 => (inner[1], inner[6], inner[8]),
            Family::V6 => (inner[0] << 4 | inner[1] >> 4, 0, inner[7]),
        };
        // RFC 6040, 4.1: as inside, but CE becomes ECT(0), as INET_ECN_encapsulate() has it
        let tos = tos ^ u8::from(tos & ECN == CE);
        let id = state.next_id.get();
        state.next_id.set(id.wrapping_add(1));
        let (first, inherited) = self.first;
        let first = first
            | inherited & (u64::from(tos) << 48 | u64::from(flags) << 8)
            | u64::from(length) << 32
            | u64::from(id) << 16;
        let hops = self.hops.0 | self.hops.1 & u16::from(hops) << 8;
        let sum = self.addresses.add_u64(first).add_u16(hops);
        let second = u32::from(hops) << 16 | u32::from(!sum.fold());
        let mut octets = [0; 12];
        octets[..8].copy_from_slice(&first.to_be_bytes());
        octets[8..].copy_from_slice(&second.to_be_bytes());
        octets
    }
}

/// Fills the UDP header of an IPv4 packet.
#[inline(never)]
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
