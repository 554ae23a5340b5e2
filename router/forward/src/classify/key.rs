//! The fields of a group of packets that rules look at, side by side as vector instructions want them.

use bora_buffer::{Packet, Region};
use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

pub(super) use crate::device::TAGGED;
use crate::{Family, Meta};

/// Where a key's words are: the source address, of which IPv4 fills the first word, and the destination.
pub(super) const SOURCE: usize = 0;
pub(super) const DESTINATION: usize = 4;
/// From the highest octet: TOS, protocol, VLAN priority (8 and more with a tag), nothing.
pub(super) const HEADER: usize = 8;
/// The protocol's bits of that word.
pub(super) const PROTOCOL: u32 = 0xff << 16;
/// The number of the port that the packet came in by.
pub(super) const IN_PORT: usize = 9;
/// Source and destination port, or [`NO_PORT`].
pub(super) const PORTS: usize = 10;
/// Words of a key.
pub(super) const WORDS: usize = 12;
/// Places for words: masking an index is a bounds check.
pub(super) const PLACES: usize = WORDS.next_power_of_two();
/// In place of a port where there is none: in no range of ports.
pub(super) const NO_PORT: u32 = 1 << 16;

/// Packets that are matched together.
pub(super) const GROUP: usize = 64;
/// The number of no rule.
pub(super) const NO_RULE: u32 = u32::MAX;

/// A word of each packet of a group.
pub(super) type Words = [u32; GROUP];

/// The first rule of each packet of a group, or [`NO_RULE`]. At the start of a cache line, because loads of whole lines
/// are slower elsewhere.
#[repr(align(64))]
pub(super) struct Found(pub(super) Words);

/// Source and destination port.
const PORTS_LENGTH: usize = 4;
/// Ethernet, IPv4 without options, and ports.
const PLAIN: usize = 14 + 20 + PORTS_LENGTH;

/// The keys of a group of packets; where they start matters as with [`Found`].
#[repr(align(64))]
pub(super) struct Keys {
    pub(super) words: [Words; PLACES],
    /// A bit for each packet that rules are looked for.
    pub(super) wanted: u64,
    /// A bit for each of them whose protocol or ports cannot be found.
    pub(super) hidden: u64,
    /// Whether anybody looks at words behind the addresses.
    beyond_addresses: bool,
    /// Both addresses, of packets without options.
    addresses: [u64; GROUP],
    /// And octets 14 to 21; octets 22 to 25 and the ports.
    others: [[u64; GROUP]; 2],
}

impl Keys {
    /// For rules that look at words behind the addresses, or do not.
    pub(super) fn new(beyond_addresses: bool) -> Self {
        Self {
            words: [[0; GROUP]; PLACES],
            wanted: 0,
            hidden: 0,
            beyond_addresses,
            addresses: [0; GROUP],
            others: [[0; GROUP]; 2],
        }
    }

    /// Reads the pending packets of an IP version that [`crate::parse`] accepted, at most [`GROUP`]. `marked`: some may have lost
    /// tags.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        (packets, metas): (&[Packet], &[Meta]),
        region: &Region,
        family: Family,
        marked: bool,
    ) {
        let (mut wanted, mut others) = (0, 0);
        for (place, (packet, meta)) in packets.iter().zip(metas).take(GROUP).enumerate() {
            if !meta.is_pending_of(family) {
                continue;
            }
            wanted |= 1 << place;
            match region.octets(packet).first_chunk() {
                Some(headers) if is_plain(headers) => self.note_plain(place, headers),
                _ => others |= 1 << place,
            }
        }
        (self.wanted, self.hidden) = (wanted, 0);
        if others != wanted {
            self.take_plain();
        }
        while others != 0 {
            let place = others.trailing_zeros() as usize;
            let key = Key::of(region.octets(&packets[place]), family);
            self.put(place, &key);
            self.hidden |= u64::from(key.is_hidden) << place;
            others &= others - 1;
        }
        if !self.beyond_addresses {
            return;
        }
        for (input, meta) in self.words[IN_PORT].iter_mut().zip(metas) {
            *input = meta.input().0.into();
        }
        if marked {
            let places = self.words[HEADER].iter_mut().zip(packets);
            places.for_each(|(header, packet)| {
                *header = *header & 0xffff_0000 | u32::from(packet.mark()) << 8;
            });
        }
    }

    /// Notes a packet for [`Self::take_plain`].
    #[inline(always)]
    fn note_plain(&mut self, place: usize, headers: &[u8; PLAIN]) {
        self.addresses[place] = u64::from_le_bytes(chunk(headers, 26));
        if self.beyond_addresses {
            let word = |from| u64::from(u32::from_le_bytes(chunk(headers, from)));
            let [one, two] = &mut self.others;
            one[place] = u64::from_le_bytes(chunk(headers, 14));
            two[place] = word(22) | word(34) << 32;
        }
    }

    /// The fields of packets without options: what [`Key::of`] does, in fixed places.
    #[inline(always)]
    fn take_plain(&mut self) {
        for (at, &both) in self.addresses.iter().enumerate() {
            self.words[SOURCE][at] = (both as u32).swap_bytes();
            self.words[DESTINATION][at] = ((both >> 32) as u32).swap_bytes();
        }
        if !self.beyond_addresses {
            return;
        }
        let [one, two] = &self.others;
        for at in 0..GROUP {
            let (first, second) = (one[at] as u32, (one[at] >> 32) as u32);
            let protocol = two[at] as u32 >> 8 & 0xff;
            self.words[HEADER][at] = (first & 0xff00) << 16 | protocol << 16;
            let is_first = second & 0xff1f_0000 == 0; // the first fragment
            let with_ports = has_ports(protocol) & is_first;
            let ports = ((two[at] >> 32) as u32).swap_bytes();
            let [source, destination] = [ports >> 16, ports & 0xffff];
            self.words[PORTS][at] = if with_ports { source } else { NO_PORT };
            self.words[PORTS + 1][at] = if with_ports { destination } else { NO_PORT };
        }
    }

    fn put(&mut self, place: usize, key: &Key) {
        let place = place % GROUP;
        for (words, word) in self.words[..IN_PORT].iter_mut().zip(key.words) {
            words[place] = word;
        }
        for (words, port) in self.words[PORTS..].iter_mut().zip(key.ports) {
            words[place] = port;
        }
    }
}

/// Whether this is IPv4 without a VLAN tag and without options, with room for ports.
#[inline(always)]
fn is_plain(headers: &[u8; PLAIN]) -> bool {
    let first = u64::from_le_bytes(chunk(headers, 12));
    let length = ((first >> 32) as u16).swap_bytes();
    (first & 0x00ff_ffff == 0x0045_0008) & (usize::from(length) >= PLAIN - ethernet::HEADER_LEN)
}

#[inline(always)]
fn chunk<const N: usize>(headers: &[u8; PLAIN], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&headers[at..at + N]);
    octets
}

/// Protocols whose first four octets are ports.
const WITH_PORTS: [u32; 5] = {
    let (mut all, mut count, mut protocol) = ([0; 5], 0, 0);
    while protocol < 256 {
        if Protocol(protocol as u8).has_ports() {
            all[count] = protocol;
            count += 1;
        }
        protocol += 1;
    }
    assert!(count == all.len());
    all
};

/// As [`Protocol::has_ports`], without a branch.
#[inline(always)]
fn has_ports(protocol: u32) -> bool {
    let is = |with: &u32| protocol == *with;
    WITH_PORTS.iter().fold(false, |any, with| any | is(with))
}

/// One packet's fields.
struct Key {
    words: [u32; IN_PORT],
    ports: [u32; 2],
    /// Whether the packet has a protocol or ports that cannot be found: more extension headers than are walked, or
    /// headers that are cut off. Somebody hides them, so they are not taken for those of another packet.
    is_hidden: bool,
}

/// What there is behind the IP header and its extension headers.
struct Upper {
    protocol: Protocol,
    ports: Option<[u8; PORTS_LENGTH]>,
    /// As in [`Key`].
    is_hidden: bool,
}

impl Key {
    /// The key of any packet that [`crate::parse`] accepted.
    #[inline(never)]
    fn of(octets: &[u8], family: Family) -> Self {
        let (offset, pcp) = link(octets);
        let packet = octets.get(offset..).unwrap_or(&[]);
        match family {
            Family::V4 => Self::of_v4(pcp, &ipv4::Packet::new_unchecked(packet)),
            Family::V6 => Self::of_v6(pcp, &ipv6::Packet::new_unchecked(packet)),
        }
    }

    fn new(tos: u8, upper: &Upper, pcp: u8) -> Self {
        let mut words = [0; IN_PORT];
        words[HEADER] = u32::from_be_bytes([tos, upper.protocol.0, pcp, 0]);
        let ports = upper.ports;
        let ports = ports.map(|[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes));
        Self {
            words,
            ports: ports.map_or([NO_PORT; 2], |ports| ports.map(u32::from)),
            is_hidden: upper.is_hidden,
        }
    }

    fn of_v4(pcp: u8, packet: &ipv4::Packet<&[u8]>) -> Self {
        let data = (packet.fragment_offset() == 0).then(|| packet.payload());
        let mut key = Self::new(packet.tos(), &Upper::of(packet.protocol(), data), pcp);
        key.words[SOURCE] = packet.src().to_bits();
        key.words[DESTINATION] = packet.dst().to_bits();
        key
    }

    fn of_v6(pcp: u8, packet: &ipv6::Packet<&[u8]>) -> Self {
        // extension headers are walked: otherwise one of them would carry a packet past a filter
        let upper = match packet.upper_layer() {
            Ok(found) => {
                let is_first = found.fragment_offset.is_none_or(|offset| offset == 0);
                let data = is_first.then(|| packet.payload().get(found.offset..).unwrap_or(&[]));
                Upper::of(found.protocol, data)
            }
            Err(_) => Upper {
                protocol: packet.next_header(),
                ports: None,
                is_hidden: true,
            },
        };
        let mut key = Self::new(packet.traffic_class(), &upper, pcp);
        key.words[SOURCE..DESTINATION].copy_from_slice(&words_of(packet.src().to_bits()));
        key.words[DESTINATION..HEADER].copy_from_slice(&words_of(packet.dst().to_bits()));
        key
    }
}

impl Upper {
    /// `data` is what follows the headers of IP, `None` in all fragments but the first. A first fragment without ports
    /// hides them: with its second one it may be a whole packet (RFC 7112).
    fn of(protocol: Protocol, data: Option<&[u8]>) -> Self {
        let data = data.filter(|_| protocol.has_ports());
        let ports = data.and_then(|data| data.first_chunk().copied());
        Self {
            protocol,
            ports,
            is_hidden: data.is_some() && ports.is_none(),
        }
    }
}

/// An IPv6 address as words, the first one first.
pub(super) fn words_of(address: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (address >> shift) as u32)
}

/// Where the IP header starts, and the tag's part of the key.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Whatever [`crate::parse`] may let through without options: both ways say the same.
        #[test]
        fn both_ways_agree(
            header: [u8; PLAIN], length in 24..60u16, fragment: Option<u16>, known: bool, place in 0..GROUP,
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
            let (mut one, mut other) = (Keys::new(true), Keys::new(true));
            let headers = octets.first_chunk().unwrap();
            prop_assert!(is_plain(headers));
            one.note_plain(place, headers);
            one.take_plain();
            other.put(place, &Key::of(&octets, Family::V4));
            let key = |keys: &Keys| keys.words.map(|words| words[place]);
            prop_assert_eq!(key(&one), key(&other));
            let with_ports = key(&one)[PORTS] != NO_PORT;
            prop_assert!(!known || fragment.is_some() || with_ports);
        }
    }
}
