//! The short way of nearly every packet: all checks of the IPv4 headers of a group of packets, side by side.

use bora_buffer::{Packet, Region};

use crate::classify::Planes;
use crate::{Family, Ingress, Meta};

const ETHERNET: u64 = bora_wire::ethernet::HEADER_LEN as u64;
const HEADERS: usize = 14 + 20;
const MAC: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);
/// EtherType IPv4, version 4, five words of header; any TOS.
const PLAIN: u64 = u64::from_le_bytes([0, 0, 0, 0, 0x08, 0x00, 0x45, 0x00]);
const PLAIN_MASK: u64 = u64::from_le_bytes([0, 0, 0, 0, 0xff, 0xff, 0xff, 0x00]);
/// Packets between the one that is read and the one that is fetched into the cache.
const AHEAD: usize = 8;

/// Packets that are checked at once.
pub(crate) const GROUP: usize = 64;

/// What a port takes as addressed to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    mac: u64,
    /// All bits, or none if nothing of IPv4 is forwarded.
    forward4: u64,
}

impl Ours {
    pub(super) fn new(ingress: &Ingress) -> Self {
        let [a, b, c, d, e, f] = ingress.mac.0;
        let forwards = ingress.forward4 && ingress.gate.is_none_or(|gate| gate.up && !gate.kernel4);
        Self {
            mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            forward4: u64::from(forwards).wrapping_neg(),
        }
    }
}

/// The headers of a group of packets by field, as a CPU with vector instructions wants them. Each is read
/// once, because a memif peer that shares the memory may change it meanwhile.
#[derive(Debug)]
pub(crate) struct Headers {
    /// Octets 0 to 7 of each packet, 8 to 15, and so on; little-endian.
    words: [[u64; GROUP]; 4],
    /// As in the packets until they are checked, then in host order.
    destinations: [u32; GROUP],
    /// Of the frames, octets.
    lengths: [u64; GROUP],
    /// Not zero for a packet that is not plain.
    odd: [u64; GROUP],
}

impl Headers {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            words: [[0; GROUP]; 4],
            destinations: [0; GROUP],
            lengths: [0; GROUP],
            odd: [0; GROUP],
        })
    }

    /// Reads the headers of packets from `start` on, at most [`GROUP`].
    #[inline(always)]
    pub(super) fn read(&mut self, packets: &[Packet], start: usize, region: &Region) {
        let mut ahead = packets.iter().skip(start + AHEAD);
        let [one, two, three, four] = &mut self.words;
        let words = one.iter_mut().zip(two).zip(three).zip(four);
        let others = self.destinations.iter_mut().zip(&mut self.lengths);
        let group = packets[start..].iter().zip(words.zip(others));
        for (packet, ((((one, two), three), four), (destination, length))) in group {
            if let Some(next) = ahead.next() {
                region.prefetch(next);
            }
            let octets = region.octets(packet);
            let header: &[u8; HEADERS] = octets.first_chunk().unwrap_or(&[0; HEADERS]);
            let word = |from: usize| u64::from_le_bytes(chunk(header, from));
            (*one, *two, *three, *four) = (word(0), word(8), word(16), word(24));
            *destination = u32::from_ne_bytes(chunk(header, 30));
            *length = octets.len() as u64;
        }
    }

    /// Finds the packets that are plain IPv4 transit without options, and writes what is known of them;
    /// returns whether all are. Those that are not need the full checks of [`super::parse_one`], which
    /// accepts every packet that is accepted here, with the same result.
    #[inline(always)]
    pub(super) fn check(&mut self, metas: &mut [Meta], ours: Ours, dscp: Planes) -> bool {
        let Self {
            words: [one, two, three, four],
            destinations,
            lengths,
            odd,
        } = self;
        let (count, mut any) = (metas.len().min(GROUP), 0);
        for at in 0..count {
            let words = [one[at], two[at], three[at], four[at]];
            odd[at] = is_odd(words, destinations[at].into(), lengths[at], ours);
            any |= odd[at];
        }
        for ((meta, two), three) in metas.iter_mut().zip(two).zip(three) {
            *meta = Meta::pending(l3_length(*three), dscp.class(*two >> 56), Family::V4);
        }
        for destination in destinations {
            *destination = u32::from_be(*destination);
        }
        any == 0
    }

    /// The destinations, in host order, once they are checked.
    #[inline(always)]
    pub(super) fn destinations(&self) -> &[u32; GROUP] {
        &self.destinations
    }

    /// The destination of a packet that is plain.
    #[inline(always)]
    pub(super) fn plain(&self, at: usize) -> Option<u32> {
        (self.odd[at] == 0).then_some(self.destinations[at])
    }
}

/// What the header says of the packet's length, octets; from octets 16 to 23.
#[inline(always)]
fn l3_length(three: u64) -> u64 {
    three << 8 & 0xff00 | three >> 8 & 0xff
}

/// Not zero if a packet is not plain: these are its headers and the frame's length.
#[inline(always)]
fn is_odd([one, two, three, four]: [u64; 4], destination: u64, frame: u64, ours: Ours) -> u64 {
    let strange = (one ^ ours.mac) & MAC | (two ^ PLAIN) & PLAIN_MASK | !ours.forward4;
    let length = l3_length(three);
    // Ones' complement: wider words sum as 16-bit ones do, in any byte order (RFC 1071 2), and a
    // right header sums to a multiple of 0xffff. It is not zero: the version is not.
    let low = |long: u64| long & 0xffff_ffff;
    let sum =
        (two >> 48) + low(three) + (three >> 32) + low(four) + (four >> 32 & 0xffff) + destination;
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let time_to_live = three >> 48 & 0xff;
    u64::from(strange != 0)
        | u64::from(length < 20)
        | u64::from(length + ETHERNET > frame)
        | u64::from(sum != 0xffff)
        | u64::from(time_to_live <= 1)
        | maybe_special(four >> 16 & 0xff)
        | maybe_special(destination & 0xff)
}

/// Whether an address with this first octet may be special: 0/8, loopback, and from multicast on.
#[inline(always)]
fn maybe_special(octet: u64) -> u64 {
    u64::from(octet == 0) | u64::from(octet == 127) | u64::from(octet >= 224)
}

/// The octets from `at` on; the compiler sees that they are there.
#[inline(always)]
fn chunk<const N: usize>(header: &[u8; HEADERS], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&header[at..at + N]);
    octets
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bora_buffer::{Pool, SharedFrames};
    use bora_fib::PortId;
    use bora_wire::MacAddr;
    use proptest::prelude::*;

    use super::*;

    fn ingress(forward4: bool) -> Ingress {
        Ingress {
            forward4,
            ..Ingress::new(PortId(0), MacAddr([2, 0, 0, 0, 0, 1]))
        }
    }

    /// A good packet of 60 octets.
    fn good() -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0xb8, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 1, 0, 2]);
        bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
        frame
    }

    /// Whether a packet takes the short way; if so, its result is that of the full parser.
    fn agree(frame: &[u8], forward4: bool) -> bool {
        let ingress = ingress(forward4);
        let dscp = Planes::new(&crate::classify::DEFAULT_DSCP);
        let region = Region::new(1, 2048).unwrap();
        let mut pool = Pool::new(SharedFrames::of_new_region(&region), 1);
        let mut packet = pool
            .take()
            .unwrap()
            .into_packet(&region, frame.len())
            .unwrap();
        region.octets_mut(&mut packet).copy_from_slice(frame);
        let (mut headers, mut fast) = (Headers::new(), [Meta::default()]);
        headers.read(&[packet], 0, &region);
        let all = headers.check(&mut fast, Ours::new(&ingress), dscp);
        assert_eq!(all, headers.plain(0).is_some());
        let Some(destination) = headers.plain(0) else {
            return false;
        };
        let expected = super::super::parse_one(frame, &ingress, &dscp);
        let destination = IpAddr::from(destination.to_be_bytes());
        assert_eq!(expected, Ok((destination, fast[0])));
        true
    }

    #[test]
    fn a_plain_packet_takes_this_way() {
        assert!(agree(&good(), true));
        assert!(!agree(&good(), false));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// One octet changed, with and without a right checksum: the short way accepts only what the full way does.
        #[test]
        fn nothing_is_accepted_that_the_full_parser_refuses(
            at in 0..34usize, value: u8, length in 0..61usize, repair: bool,
        ) {
            let mut frame = good();
            frame[at] = value;
            if repair {
                bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
            }
            agree(&frame[..length], true);
            agree(&frame, true);
        }
    }
}
