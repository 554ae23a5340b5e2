//! The fields of a packet that rules look at.

use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::batch::Family;

pub(super) const SOURCE: usize = 0;
pub(super) const DESTINATION: usize = 16;
pub(super) const TOS: usize = 32;
pub(super) const PROTOCOL: usize = 33;
/// 8 with a VLAN tag, plus its priority.
pub(super) const PCP: usize = 34;
/// In [`PCP`]'s octet.
pub(super) const TAGGED: u8 = 8;
/// Octets of a key, rounded up so that masking an index is a bounds check.
pub(super) const KEY: usize = 64;

/// One packet's fields. IPv4 addresses fill the first four octets of theirs.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) octets: [u8; KEY],
    /// Source and destination port.
    pub(super) ports: Option<[u16; 2]>,
}

impl Key {
    pub(super) const EMPTY: Self = Self {
        octets: [0; KEY],
        ports: None,
    };
}

/// Where the IP header starts, and the tag's nibble for [`PCP`].
#[inline]
fn link(octets: &[u8]) -> (usize, u8) {
    let frame = ethernet::Frame::new_unchecked(octets);
    match frame.ethertype() {
        EtherType::VLAN | EtherType::QINQ => match Untagged::find(&frame) {
            Ok(found) => (
                found.offset,
                found.outer.map_or(0, |(_, tci)| TAGGED | tci.pcp()),
            ),
            Err(_) => (ethernet::HEADER_LEN, 0),
        },
        _ => (ethernet::HEADER_LEN, 0),
    }
}

/// Fills a key from a packet that [`crate::parse`] accepted.
#[inline]
pub(super) fn fill(key: &mut Key, octets: &[u8], family: Family) {
    let (offset, pcp) = link(octets);
    let packet = octets.get(offset..).unwrap_or(&[]);
    key.octets[PCP] = pcp;
    match family {
        Family::V4 => fill_v4(key, &ipv4::Packet::new_unchecked(packet)),
        Family::V6 => fill_v6(key, &ipv6::Packet::new_unchecked(packet)),
    }
}

#[inline]
fn fill_v4(key: &mut Key, packet: &ipv4::Packet<&[u8]>) {
    key.octets[SOURCE..SOURCE + 4].copy_from_slice(&packet.src().octets());
    key.octets[DESTINATION..DESTINATION + 4].copy_from_slice(&packet.dst().octets());
    key.octets[TOS] = packet.tos();
    key.octets[PROTOCOL] = packet.protocol().0;
    key.ports = if packet.fragment_offset() == 0 {
        ports(packet.protocol(), packet.payload())
    } else {
        None
    };
}

#[inline]
fn fill_v6(key: &mut Key, packet: &ipv6::Packet<&[u8]>) {
    key.octets[SOURCE..SOURCE + 16].copy_from_slice(&packet.src().octets());
    key.octets[DESTINATION..DESTINATION + 16].copy_from_slice(&packet.dst().octets());
    key.octets[TOS] = packet.traffic_class();
    // extension headers are walked: otherwise one of them would carry a packet past a filter
    let (protocol, ports) = match packet.upper_layer() {
        Ok(upper) if upper.fragment.is_none_or(|fragment| fragment.offset == 0) => {
            let payload = packet.payload().get(upper.offset..).unwrap_or(&[]);
            (upper.protocol, ports(upper.protocol, payload))
        }
        Ok(upper) => (upper.protocol, None),
        Err(_) => (packet.next_header(), None),
    };
    key.octets[PROTOCOL] = protocol.0;
    key.ports = ports;
}

#[inline]
fn ports(protocol: Protocol, payload: &[u8]) -> Option<[u16; 2]> {
    match (protocol, payload) {
        (
            Protocol::TCP | Protocol::UDP | Protocol::UDP_LITE | Protocol::DCCP | Protocol::SCTP,
            &[a, b, c, d, ..],
        ) => Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]),
        _ => None,
    }
}
