//! The short way of nearly every packet: all checks of the headers of a group of packets, side by side.

use bora_buffer::{Packet, Purpose, Region};

use crate::class::Planes;
use crate::input::Ours;
use crate::{Family, Inputs, Meta};

const ETHERNET: u64 = bora_wire::ethernet::HEADER_LEN as u64;
const HEADERS: usize = 14 + 20;
const HEADERS6: usize = 14 + 40;
/// In octets 8 to 15: EtherType IPv4, version 4, five words of header; any TOS.
const PLAIN4: u64 = u64::from_le_bytes([0, 0, 0, 0, 0x08, 0x00, 0x45, 0x00]);
const PLAIN4_MASK: u64 = u64::from_le_bytes([0, 0, 0, 0, 0xff, 0xff, 0xff, 0x00]);
/// EtherType IPv6, version 6; any traffic class.
const PLAIN6: u64 = u64::from_le_bytes([0, 0, 0, 0, 0x86, 0xdd, 0x60, 0x00]);
const PLAIN6_MASK: u64 = u64::from_le_bytes([0, 0, 0, 0, 0xff, 0xff, 0xf0, 0x00]);
/// Next headers of packets that may not be plain: hop-by-hop options, routing, fragment, AH, ICMPv6, destination
/// options. Neighbour discovery may stand behind them.
const ODD6: u64 = 1 | 1 << 43 | 1 << 44 | 1 << 51 | 1 << 58 | 1 << 60;
/// Packets between the one that is read and the one that is fetched into the cache.
const AHEAD: usize = 8;

/// Packets that are checked at once.
pub(crate) const GROUP: usize = 64;

/// The headers of a group of packets by field, as a CPU with vector instructions wants them. Each is read
/// once, because a memif peer that shares the memory may change it meanwhile.
#[derive(Debug)]
pub(crate) struct Headers {
    /// Octets 0 to 7 of each packet, 8 to 15, and so on; little-endian.
    words: [[u64; GROUP]; 4],
    /// As in the packets until they are checked, then in host order.
    destinations: [u32; GROUP],
    /// What the input of each packet takes.
    ours: [Ours; GROUP],
    /// Whether all of them are this.
    same: Option<Ours>,
    /// Octets of the frames.
    lengths: [u64; GROUP],
    /// Not zero for a packet that is not plain IPv4.
    odd: [u64; GROUP],
    /// Not zero for a packet that is not plain IPv6.
    odd6: [u64; GROUP],
    destinations6: [[u8; 16]; GROUP],
}

impl Headers {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            words: [[0; GROUP]; 4],
            destinations: [0; GROUP],
            ours: [Ours::default(); GROUP],
            same: None,
            lengths: [0; GROUP],
            odd: [0; GROUP],
            odd6: [0; GROUP],
            destinations6: [[0; 16]; GROUP],
        })
    }

    /// Reads the headers of packets from `start` on, at most [`GROUP`].
    #[inline(always)]
    pub(crate) fn read(&mut self, packets: &[Packet], start: usize, region: &Region) {
        let mut ahead = packets.iter().skip(start + AHEAD);
        let [one, two, three, four] = &mut self.words;
        let words = one.iter_mut().zip(two).zip(three).zip(four);
        let others = self.destinations.iter_mut().zip(&mut self.lengths);
        let group = packets[start..].iter().zip(words.zip(others));
        for (packet, ((((one, two), three), four), (destination, length))) in group {
            if let Some(next) = ahead.next() {
                region.prefetch(next, Purpose::Write);
            }
            let octets = region.octets(packet);
            let header: &[u8; HEADERS] = octets.first_chunk().unwrap_or(&[0; HEADERS]);
            let word = |from: usize| u64::from_le_bytes(chunk(header, from));
            (*one, *two, *three, *four) = (word(0), word(8), word(16), word(24));
            *destination = u32::from_ne_bytes(chunk(header, 30));
            *length = octets.len() as u64;
        }
    }

    /// All packets of all groups have come in by one input, which takes this.
    #[inline(always)]
    pub(crate) fn take(&mut self, ours: Ours) {
        if self.same != Some(ours) {
            self.ours.fill(ours);
            self.same = Some(ours);
        }
    }

    /// The packets of the next group have come in by these inputs.
    #[inline(always)]
    pub(crate) fn take_each(&mut self, metas: &[Meta], inputs: &Inputs) {
        self.same = None;
        for (ours, meta) in self.ours.iter_mut().zip(metas) {
            *ours = inputs.row(meta.input()).ours;
        }
    }

    /// Finds the packets that are plain IPv4 transit without options, and writes what is known of them;
    /// returns whether all are. Those that are not may need the full checks of `parse_one()`,
    /// which accepts every packet that is accepted here, with the same result.
    #[inline(always)]
    pub(crate) fn check4(&mut self, metas: &mut [Meta], dscp: Planes) -> bool {
        let Self {
            words: [one, two, three, four],
            destinations,
            ours,
            lengths,
            odd,
            ..
        } = self;
        let (count, mut any) = (metas.len().min(GROUP), 0);
        for at in 0..count {
            let words = [one[at], two[at], three[at], four[at]];
            odd[at] = is_odd4(
                words,
                u32::from_le(destinations[at]).into(),
                lengths[at],
                ours[at],
            );
            any |= odd[at];
        }
        for ((meta, two), three) in metas.iter_mut().zip(two).zip(three) {
            *meta = meta.pending(length4(*three), dscp.class(*two >> 56), Family::V4);
        }
        for destination in destinations {
            *destination = u32::from_be(*destination);
        }
        any == 0
    }

    /// The destinations, in host order, once they are checked.
    #[inline(always)]
    pub(crate) fn destinations(&self) -> &[u32; GROUP] {
        &self.destinations
    }

    /// As [`Self::check4`] for IPv6 without hop-by-hop options, among the packets that are not plain IPv4;
    /// the destination is left to [`destination6`]. Returns whether all are.
    #[inline(always)]
    pub(crate) fn check6(&mut self, metas: &mut [Meta], dscp: Planes) -> bool {
        let mut any = 0;
        let [one, two, three, _] = &self.words;
        for (at, meta) in metas.iter_mut().take(GROUP).enumerate() {
            let words = [one[at], two[at], three[at]];
            let odd = is_odd6(words, self.lengths[at], self.ours[at]);
            self.odd6[at] = odd;
            any |= odd;
            let traffic_class = two[at] >> 44 & 0xf0 | two[at] >> 60;
            let known = meta.pending(length6(three[at]), dscp.class(traffic_class), Family::V6);
            *meta = if odd == 0 { known } else { *meta };
        }
        any == 0
    }

    /// The destinations of a group of IPv6 packets, if all are plain.
    #[inline(always)]
    pub(crate) fn destinations6(
        &mut self,
        packets: &[Packet],
        region: &Region,
    ) -> Option<&[[u8; 16]]> {
        let mut special = 0;
        for (packet, to) in packets.iter().zip(&mut self.destinations6) {
            // as a number, so that its octets are read at once
            let destination = region.octets(packet).first_chunk().map_or(0, last16);
            special |= maybe_special6((destination >> 120) as u64);
            *to = destination.to_be_bytes();
        }
        (special == 0).then_some(&self.destinations6[..packets.len()])
    }

    /// The destination of a packet that is plain IPv4.
    #[inline(always)]
    pub(crate) fn plain4(&self, at: usize) -> Option<u32> {
        (self.odd[at] == 0).then_some(self.destinations[at])
    }

    /// Whether a packet is plain IPv6, if its destination is.
    #[inline(always)]
    pub(crate) fn may_be_plain6(&self, at: usize) -> bool {
        self.odd6[at] == 0
    }
}

/// The destination of an IPv6 packet, if it is plain.
#[inline(always)]
pub(crate) fn destination6(octets: &[u8]) -> Option<[u8; 16]> {
    let destination = octets.first_chunk().map(last16)?;
    (maybe_special6((destination >> 120) as u64) == 0).then_some(destination.to_be_bytes())
}

#[inline(always)]
fn last16(header: &[u8; HEADERS6]) -> u128 {
    header
        .last_chunk()
        .map_or(0, |octets| u128::from_be_bytes(*octets))
}

/// What the words of an IPv6 header say of the packet's length, header included, octets; from octets 16 to 23.
#[inline(always)]
fn length6(three: u64) -> u64 {
    40 + (three >> 8 & 0xff00 | three >> 24 & 0xff)
}

/// Not zero if an IPv6 packet is not plain, whatever its destination is.
#[inline(always)]
fn is_odd6([one, two, three]: [u64; 3], frame: u64, ours: Ours) -> u64 {
    let strange =
        (one ^ ours.0) & Ours::MAC | (two ^ PLAIN6) & PLAIN6_MASK | ours.0 & Ours::NOT_IPV6;
    let (next_header, hop_limit) = (three >> 32 & 0xff, three >> 40 & 0xff);
    u64::from(strange != 0)
        | u64::from(length6(three) + ETHERNET > frame)
        | ODD6 >> (next_header & 63) & u64::from(next_header < 64)
        | u64::from(hop_limit <= 1)
        | maybe_special6(three >> 48 & 0xff)
}

/// Not zero if an address with this first octet may be special: ::/64, link-local, multicast.
#[inline(always)]
fn maybe_special6(octet: u64) -> u64 {
    u64::from(octet == 0) | u64::from(octet >= 0xfe)
}

/// What an IPv4 header says of the packet's length, octets; from octets 16 to 23.
#[inline(always)]
fn length4(three: u64) -> u64 {
    three << 8 & 0xff00 | three >> 8 & 0xff
}

/// Not zero if an IPv4 packet is not plain: these are its headers and the frame's length.
#[inline(always)]
fn is_odd4([one, two, three, four]: [u64; 4], destination: u64, frame: u64, ours: Ours) -> u64 {
    let strange =
        (one ^ ours.0) & Ours::MAC | (two ^ PLAIN4) & PLAIN4_MASK | ours.0 & Ours::NOT_IPV4;
    let length = length4(three);
    // Ones' complement: wider words sum as 16-bit ones do, in any byte order (RFC 1071 2), and a
    // right header sums to a multiple of 0xffff. It is not zero: the version is not.
    let low = |long: u64| long & 0xffff_ffff;
    let sum =
        (two >> 48) + low(three) + (three >> 32) + low(four) + (four >> 32 & 0xffff) + destination;
    // the sum is below 2^35, so the first fold leaves less than 2^19, and the second one at most 0x10006: what
    // a third one would make 0xffff is 0xffff already
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let time_to_live = three >> 48 & 0xff;
    u64::from(strange != 0)
        | u64::from(length < 20)
        | u64::from(length + ETHERNET > frame)
        | u64::from(sum != 0xffff)
        | u64::from(time_to_live <= 1)
        | maybe_special4(four >> 16 & 0xff)
        | maybe_special4(destination & 0xff)
}

/// Not zero if an address with this first octet may be special: 0/8, loopback, and from multicast on.
#[inline(always)]
fn maybe_special4(octet: u64) -> u64 {
    u64::from(octet == 0) | u64::from(octet == 127) | u64::from(octet >= 224)
}

/// The octets from `at` on; the compiler sees that they are there.
#[inline(always)]
fn chunk<const N: usize>(header: &[u8; HEADERS], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&header[at..at + N]);
    octets
}
