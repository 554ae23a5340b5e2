//! The fields of a packet that rules look at.

use bora_fib::PortId;
use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::Family;

pub(super) const SOURCE: usize = 0;
pub(super) const DESTINATION: usize = 16;
pub(super) const TOS: usize = 32;
pub(super) const PROTOCOL: usize = 33;
/// 8 with a VLAN tag, plus its priority.
pub(super) const PCP: usize = 34;
pub(super) use crate::device::TAGGED;
/// Source and destination port.
pub(super) const PORTS: usize = 36;
/// 1 if there are ports.
pub(super) const WITH_PORTS_AT: usize = 40;
/// The number of the port that the packet came in by.
pub(super) const IN_PORT: usize = 42;
/// Octets of a key: a cache line, and masking an index is a bounds check.
pub(super) const KEY: usize = 64;

/// Packets that are matched together.
pub(super) const GROUP: usize = 64;
/// The number of no rule.
pub(super) const NO_RULE: u32 = u32::MAX;

/// The packets of a group.
pub(super) struct Keys {
    pub(super) keys: [Key; GROUP],
    /// A bit for each packet that rules are looked for.
    pub(super) wanted: u64,
}

/// One packet's fields. IPv4 addresses fill the first four octets of theirs.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Key {
    pub(super) octets: [u8; KEY],
}

impl Key {
    /// For packets that come in by this port.
    pub(super) fn of(input: PortId) -> Self {
        let mut octets = [0; KEY];
        octets[IN_PORT..IN_PORT + 2].copy_from_slice(&input.0.to_be_bytes());
        Self { octets }
    }

    #[inline]
    fn set_ports(&mut self, ports: Option<[u8; 4]>) {
        self.octets[PORTS..PORTS + 4].copy_from_slice(&ports.unwrap_or_default());
        self.octets[WITH_PORTS_AT] = u8::from(ports.is_some());
    }

    /// Four octets.
    #[inline(always)]
    pub(super) fn word(&self, word: u8) -> u32 {
        let (words, _) = self.octets.as_chunks::<4>();
        u32::from_be_bytes(words[usize::from(word) % (KEY / 4)])
    }

    /// The two octets of the source port (0) or destination port (1), if there are ports.
    #[inline(always)]
    pub(super) fn port(&self, which: usize) -> Option<[u8; 2]> {
        let at = PORTS + 2 * (which % 2);
        (self.octets[WITH_PORTS_AT] != 0).then(|| [self.octets[at], self.octets[at + 1]])
    }

    /// Source and destination port; 0 if there are none.
    #[inline(always)]
    pub(super) fn port_numbers(&self) -> [u32; 2] {
        let ports = self.word((PORTS / 4) as u8);
        [ports >> 16, ports & 0xffff]
    }
}

/// Where the IP header starts, and the tag's nibble for [`PCP`].
#[inline]
fn link(octets: &[u8]) -> (usize, u8) {
    let frame = ethernet::Frame::new_unchecked(octets);
    match frame.ethertype() {
        EtherType::VLAN | EtherType::QINQ => match Untagged::find(&frame) {
            Ok(found) => (found.offset, found.tci.map_or(0, |tci| TAGGED | tci.pcp())),
            Err(_) => (ethernet::HEADER_LEN, 0),
        },
        _ => (ethernet::HEADER_LEN, 0),
    }
}

/// Ethernet, IPv4 without options, and ports.
const PLAIN: usize = 14 + 20 + 4;

/// Protocols whose first four octets are ports.
const WITH_PORTS: [bool; 256] = {
    let mut with = [false; 256];
    let mut protocol = 0;
    while protocol < with.len() {
        with[protocol] = Protocol(protocol as u8).has_ports();
        protocol += 1;
    }
    with
};

/// Fills a key from a packet that [`crate::parse`] accepted.
#[inline(always)]
pub(super) fn fill(key: &mut Key, octets: &[u8], family: Family) {
    match octets.first_chunk() {
        Some(headers) if headers[12..15] == [0x08, 0x00, 0x45] => fill_plain(key, headers),
        _ => fill_any(key, octets, family),
    }
}

/// The way of nearly every packet: what [`fill_any`] does, in fixed places.
#[inline(always)]
fn fill_plain(key: &mut Key, headers: &[u8; PLAIN]) {
    let short = |at| u16::from_be_bytes([headers[at], headers[at + 1]]);
    key.octets[SOURCE..SOURCE + 4].copy_from_slice(&headers[26..30]);
    key.octets[DESTINATION..DESTINATION + 4].copy_from_slice(&headers[30..34]);
    key.octets[TOS] = headers[15];
    key.octets[PROTOCOL] = headers[23];
    key.octets[PCP] = 0;
    let (length, fragment_offset) = (short(16), short(20) & 0x1fff);
    let with_ports = WITH_PORTS[usize::from(headers[23])]
        & (fragment_offset == 0)
        & (usize::from(length) >= PLAIN - ethernet::HEADER_LEN);
    key.set_ports(with_ports.then(|| [headers[34], headers[35], headers[36], headers[37]]));
}

#[inline(never)]
fn fill_any(key: &mut Key, octets: &[u8], family: Family) {
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
    key.set_ports(match packet.fragment_offset() {
        0 => ports(packet.protocol(), packet.payload()),
        _ => None,
    });
}

#[inline]
fn fill_v6(key: &mut Key, packet: &ipv6::Packet<&[u8]>) {
    key.octets[SOURCE..SOURCE + 16].copy_from_slice(&packet.src().octets());
    key.octets[DESTINATION..DESTINATION + 16].copy_from_slice(&packet.dst().octets());
    key.octets[TOS] = packet.traffic_class();
    // extension headers are walked: otherwise one of them would carry a packet past a filter
    let (protocol, ports) = match packet.upper_layer() {
        Ok(upper) if upper.fragment_offset.is_none_or(|offset| offset == 0) => {
            let payload = packet.payload().get(upper.offset..).unwrap_or(&[]);
            (upper.protocol, ports(upper.protocol, payload))
        }
        Ok(upper) => (upper.protocol, None),
        Err(_) => (packet.next_header(), None),
    };
    key.octets[PROTOCOL] = protocol.0;
    key.set_ports(ports);
}

#[inline]
fn ports(protocol: Protocol, payload: &[u8]) -> Option<[u8; 4]> {
    match payload {
        &[a, b, c, d, ..] if WITH_PORTS[usize::from(protocol.0)] => Some([a, b, c, d]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Whatever [`crate::parse`] may let through without options: both ways say the same.
        #[test]
        fn both_ways_agree(
            header: [u8; PLAIN], length in 20..60u16, fragment: Option<u16>, known: bool,
        ) {
            let mut octets = header.to_vec();
            octets.resize(14 + usize::from(length), 0xff);
            octets[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            octets[16..18].copy_from_slice(&length.to_be_bytes());
            octets[20..22].copy_from_slice(&fragment.unwrap_or(0x4000).to_be_bytes());
            if known {
                octets[23] = 17;
            }
            octets.resize(octets.len().max(60), 0xff);
            let (mut one, mut other) = (Key::of(PortId(3)), Key::of(PortId(3)));
            fill(&mut one, &octets, Family::V4);
            fill_any(&mut other, &octets, Family::V4);
            prop_assert_eq!(one.octets, other.octets);
            prop_assert!(!known || fragment.is_some() || one.port(0).is_some() == (length >= 24));
        }
    }
}
