//! Tunnels over IPv4: GRE (RFC 2784, 2890), IP in IP (RFC 2003, 4213), VXLAN (RFC 7348).
//!
//! On the way out a tunnel is a next hop: [`crate::rewrite()`] puts its headers in front of the packet (`wrap.rs`), which then
//! leaves by the port of the outer destination. On the way in the outer packet is for the router itself. If it is
//! one of a tunnel's, [`crate::Devices::unwrap`] makes the packet inside a frame that came in by the tunnel's device. What is not plain goes to
//! Linux, which has the same tunnels.

use bora_buffer::{Packet, Region};
use bora_wire::{MacAddr, Protocol, checksum, ethernet, ipv4};

const ETHERNET: usize = ethernet::HEADER_LEN;
pub(crate) const IPV4: usize = 20;
const UDP: usize = 8;
const VXLAN: usize = 8;
/// The ECN bits of TOS or traffic class, and their values (RFC 3168).
pub(crate) const ECN: u8 = 3;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
pub(crate) const CE: u8 = 3;
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
        /// Key of GRE.
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

impl Endpoint {
    /// A number for each endpoint, for a table.
    #[inline(always)]
    pub(crate) fn key(self) -> u128 {
        let joined = |high: u32, low: u32| u128::from(high) << 32 | u128::from(low);
        match self {
            Self::Addresses {
                protocol,
                source,
                destination,
                key,
            } => {
                let kind = u32::from(protocol) << 1 | u32::from(key.is_some());
                joined(kind, source) << 64 | joined(destination, key.unwrap_or(0))
            }
            Self::Vxlan { port, vni } => {
                joined(1 << 16 | u32::from(port), 0) << 64 | u128::from(vni)
            }
        }
    }
}

/// A tunnel's packet that has come in: whose it is, and what is inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// [`Endpoint::key`].
    pub(crate) key: u128,
    /// The far end, as a number.
    pub(crate) source: u32,
    /// Where the packet inside begins in the frame: its IP header, or its Ethernet header if `ethertype` is 0.
    at: usize,
    ethertype: u16,
}

/// What a frame begins with that may be a tunnel's packet; all frames are longer. Octets 14 to 21, and so on, as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start([u64; 4]);

impl Start {
    const LENGTH: usize = ETHERNET + 4 * 8;
    /// Version, length of the header, and "more fragments" and the offset.
    const FIRST: u64 = 0xff00_0000_0000_3fff;
    /// Protocol and source.
    const SECOND: u64 = 0x00ff_0000_ffff_ffff;

    #[inline(always)]
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let start: &[u8; Self::LENGTH] = frame.first_chunk()?;
        let word = |at: usize| {
            let mut octets = [0; 8];
            octets.copy_from_slice(&start[ETHERNET + at..ETHERNET + at + 8]);
            u64::from_be_bytes(octets)
        };
        let words = [word(0), word(8), word(16), word(24)];
        Some(Self(words))
    }

    /// The IP packet's length, octets.
    #[inline(always)]
    fn length(self) -> usize {
        usize::from((self.0[0] >> 32) as u16)
    }

    #[inline(always)]
    fn tos(self) -> u8 {
        (self.0[0] >> 48) as u8
    }
}

impl Arrival {
    /// `None` for what is no tunnel's, or is left to Linux: fragments, GRE with checksums or sequence numbers, wrong or strange
    /// headers. `partial`: the sender may have left the UDP checksum to the receiver.
    #[inline(always)] // a result in memory would be read in other pieces than it is written
    pub(crate) fn of(frame: &[u8], start: Start, partial: bool) -> Option<Self> {
        let Start([first, second, third, fourth]) = start;
        if first & Start::FIRST != 0x45 << 56 {
            return None;
        }
        let protocol = (second >> 48) as u8;
        let (key, length, ethertype) = match Protocol(protocol) {
            Protocol(47) => gre(third as u32, (fourth >> 32) as u32)?,
            Protocol(4) => (None, 0, ethernet::EtherType::IPV4.0),
            Protocol(41) => (None, 0, ethernet::EtherType::IPV6.0),
            Protocol::UDP => {
                let outer = ipv4::Packet::new_checked(frame.get(ETHERNET..)?).ok()?;
                return Self::vxlan(&outer, partial);
            }
            _ => return None,
        };
        let source = second as u32;
        let endpoint = Endpoint::Addresses {
            protocol,
            source,
            destination: (third >> 32) as u32,
            key,
        };
        Some(Self {
            key: endpoint.key(),
            source,
            at: ETHERNET + IPV4 + length,
            ethertype,
        })
    }

    /// Whether a frame that begins so has the same tunnel's headers as the one of this arrival, which began as `known`.
    #[inline(always)]
    pub(crate) fn is_alike(&self, Start(known): Start, Start(start): Start) -> bool {
        if self.ethertype == 0 {
            return false; // VXLAN has more headers
        }
        let rest = !(u128::MAX >> (8 * (self.at - ETHERNET - 16)));
        let masks = [
            Start::FIRST,
            Start::SECOND,
            (rest >> 64) as u64,
            rest as u64,
        ];
        let both = known.iter().zip(start).zip(masks);
        let different = both.fold(0, |any, ((known, word), mask)| any | (known ^ word) & mask);
        different == 0
    }

    /// Whether a packet inside is not longer than what the outer packet has of it, and keeps its ECN (RFC 6040, 4.2).
    #[inline(always)]
    pub(crate) fn is_plain(&self, frame: &[u8], start: Start) -> bool {
        let header = if self.ethertype == 0 { ETHERNET } else { 0 };
        let inside = frame.get(self.at + header..ETHERNET + start.length());
        let inside = inside.unwrap_or_default();
        let Some(&first) = inside.first_chunk() else {
            return false;
        };
        let first = u64::from_be_bytes(first);
        let (length, tos) = match first >> 60 {
            4 => (usize::from((first >> 32) as u16), (first >> 48) as u8),
            6 => (40 + usize::from((first >> 16) as u16), (first >> 52) as u8),
            _ => return false,
        };
        let changes = match start.tos() & ECN {
            CE => true,
            ECT1 => tos & ECN == ECT0,
            _ => false,
        };
        length <= inside.len() && !changes
    }

    /// Whether the packet inside has this Ethernet source address: Linux drops those of its own (vxlan_set_mac()).
    pub(crate) fn comes_from(&self, mac: MacAddr, frame: &[u8]) -> bool {
        let source = frame.get(self.at + 6..self.at + 12);
        self.ethertype == 0 && source == Some(&mac.0)
    }

    #[inline(never)]
    fn vxlan(outer: &ipv4::Packet<&[u8]>, partial: bool) -> Option<Self> {
        let segment = outer.payload();
        let (udp, rest) = segment.split_first_chunk::<UDP>()?;
        let vxlan: &[u8; VXLAN] = rest.first_chunk()?;
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
        let endpoint = Endpoint::Vxlan {
            port: u16::from_be_bytes([port_high, port_low]),
            vni: u32::from_be_bytes([0, high, middle, low]),
        };
        Some(Self {
            key: endpoint.key(),
            source: outer.src().to_bits(),
            at: ETHERNET + IPV4 + UDP + VXLAN,
            ethertype: 0,
        })
    }
}

/// Key, length of the header, and EtherType of GRE, whose header begins so.
#[inline(always)]
fn gre(flags_and_type: u32, key: u32) -> Option<(Option<u32>, usize, u16)> {
    let ethertype = ethernet::EtherType(flags_and_type as u16);
    if ![ethernet::EtherType::IPV4, ethernet::EtherType::IPV6].contains(&ethertype) {
        return None;
    }
    match (flags_and_type >> 16) as u16 {
        0 => Some((None, 4, ethertype.0)),
        GRE_KEY => Some((Some(key), 8, ethertype.0)),
        _ => None,
    }
}

impl Arrival {
    /// The Ethernet header of what is inside, for this address; nothing if it has one.
    pub(crate) fn header(&self, mac: MacAddr) -> Option<Words> {
        let mut header = [0; ETHERNET];
        header[..6].copy_from_slice(&mac.0);
        header[ETHERNET - 2..].copy_from_slice(&self.ethertype.to_be_bytes());
        (self.ethertype != 0).then(|| Words::of(&header))
    }

    /// Makes the packet inside a frame with this header; returns where it begins in the outer frame, and what was there.
    #[inline(always)]
    pub(crate) fn unwrap(
        &self,
        region: &Region,
        packet: &mut Packet,
        new: Option<Words>,
    ) -> Option<(u16, Words)> {
        let begin = self.at - new.map_or(0, |_| ETHERNET);
        let octets = region.octets_mut(packet).get_mut(begin..)?;
        let header = octets.first_chunk_mut()?;
        let kept = Words::of(header);
        new.unwrap_or(kept).put(header);
        packet.pull(begin);
        packet.set_mark(0); // what is inside has no VLAN priority
        Some((begin as u16, kept))
    }
}

/// An Ethernet header in two words that overlap, as the CPU reads and writes it best.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words(u64, u64);

impl Words {
    #[inline(always)]
    fn of(header: &[u8; ETHERNET]) -> Self {
        let word = |at: usize| {
            let mut octets = [0; 8];
            octets.copy_from_slice(&header[at..at + 8]);
            u64::from_ne_bytes(octets)
        };
        Self(word(0), word(ETHERNET - 8))
    }

    #[inline(always)]
    pub(crate) fn put(self, header: &mut [u8; ETHERNET]) {
        header[..8].copy_from_slice(&self.0.to_ne_bytes());
        header[ETHERNET - 8..].copy_from_slice(&self.1.to_ne_bytes());
    }
}
