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
/// "More fragments" and the offset, in the first eight octets of an IPv4 header.
const FRAGMENT: u64 = 0x3fff;
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
        match self {
            Self::Addresses {
                protocol,
                source,
                destination,
                key,
            } => addresses_key(protocol, joined(source, destination), key),
            Self::Vxlan { port, vni } => vxlan_key(port, vni),
        }
    }
}

#[inline(always)]
fn joined(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// [`Endpoint::key`] by both addresses.
#[inline(always)]
fn addresses_key(protocol: u8, addresses: u64, key: Option<u32>) -> u128 {
    let kind = u32::from(protocol) << 1 | u32::from(key.is_some());
    let high = joined(kind, (addresses >> 32) as u32);
    u128::from(high) << 64 | u128::from(joined(addresses as u32, key.unwrap_or(0)))
}

fn vxlan_key(port: u16, vni: u32) -> u128 {
    u128::from(joined(1 << 16 | u32::from(port), 0)) << 64 | u128::from(vni)
}

/// A tunnel's packet that has come in: whose it is, and what is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// [`Endpoint::key`].
    pub(crate) key: u128,
    /// The far end, as a number.
    pub(crate) source: u32,
    /// Where the packet inside begins in the frame: its IP header, or its Ethernet header if `ethertype` is none.
    at: usize,
    ethertype: Option<u16>,
}

impl Arrival {
    /// Octets of a frame that are looked at; no packet in a tunnel is shorter.
    const START: usize = ETHERNET + IPV4 + 8;

    /// `None` for what is no tunnel's, or is left to Linux: fragments, GRE with checksums or sequence numbers, ECN that
    /// changes what is inside, wrong or strange headers. `partial`: the sender may have left the UDP checksum to the receiver.
    #[inline(always)] // a result in memory would be read in other pieces than it is written
    pub(crate) fn of(frame: &[u8], partial: bool) -> Option<Self> {
        let start: &[u8; Self::START] = frame.first_chunk()?;
        let first = word(start, ETHERNET);
        let length = usize::from((first >> 32) as u16);
        if first >> 56 != 0x45 || first & FRAGMENT != 0 {
            return None;
        }
        let protocol = start[ETHERNET + 9];
        let (key, length_of_header, ethertype) = match Protocol(protocol) {
            Protocol(47) => gre(word(start, ETHERNET + IPV4))?,
            Protocol(4) => (None, 0, ethernet::EtherType::IPV4.0),
            Protocol(41) => (None, 0, ethernet::EtherType::IPV6.0),
            Protocol::UDP => {
                let outer = ipv4::Packet::new_checked(frame.get(ETHERNET..)?).ok()?;
                return Self::vxlan(&outer, partial);
            }
            _ => return None,
        };
        let at = ETHERNET + IPV4 + length_of_header;
        let addresses = word(start, ETHERNET + 12);
        let arrival = Self {
            key: addresses_key(protocol, addresses, key),
            source: (addresses >> 32) as u32,
            at,
            ethertype: Some(ethertype),
        };
        let inside = frame.get(at..ETHERNET + length)?;
        is_plain((first >> 48) as u8, inside).then_some(arrival)
    }

    /// Whether the packet inside has this Ethernet source address: Linux drops those of its own (vxlan_set_mac()).
    pub(crate) fn comes_from(&self, mac: MacAddr, frame: &[u8]) -> bool {
        let source = frame.get(self.at + 6..self.at + 12);
        self.ethertype.is_none() && source == Some(&mac.0)
    }

    #[inline(never)]
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
            key: vxlan_key(
                u16::from_be_bytes([port_high, port_low]),
                u32::from_be_bytes([0, high, middle, low]),
            ),
            source: outer.src().to_bits(),
            at: ETHERNET + IPV4 + UDP + VXLAN,
            ethertype: None,
        };
        is_plain(outer.tos(), inside.get(ETHERNET..)?).then_some(arrival)
    }
}

/// The octets of a frame from `at` on, as a number.
#[inline(always)]
fn word(start: &[u8; Arrival::START], at: usize) -> u64 {
    let mut octets = [0; 8];
    octets.copy_from_slice(&start[at..at + 8]);
    u64::from_be_bytes(octets)
}

/// Key, length of the header, and EtherType of GRE, of which this is the beginning.
#[inline(always)]
fn gre(header: u64) -> Option<(Option<u32>, usize, u16)> {
    let ethertype = ethernet::EtherType((header >> 32) as u16);
    if ![ethernet::EtherType::IPV4, ethernet::EtherType::IPV6].contains(&ethertype) {
        return None;
    }
    match (header >> 48) as u16 {
        0 => Some((None, 4, ethertype.0)),
        GRE_KEY => Some((Some(header as u32), 8, ethertype.0)),
        _ => None,
    }
}

/// Whether a packet inside is not longer than what the outer packet has of it, and keeps its ECN (RFC 6040, 4.2).
#[inline(always)]
fn is_plain(outer_tos: u8, inside: &[u8]) -> bool {
    let Some(&first) = inside.first_chunk() else {
        return false;
    };
    let first = u64::from_be_bytes(first);
    let (length, tos) = match first >> 60 {
        4 => (usize::from((first >> 32) as u16), (first >> 48) as u8),
        6 => (40 + usize::from((first >> 16) as u16), (first >> 52) as u8),
        _ => return false,
    };
    let changes = match outer_tos & ECN {
        CE => true,
        ECT1 => tos & ECN == ECT0,
        _ => false,
    };
    length <= inside.len() && !changes
}

impl Arrival {
    /// Makes the packet inside a frame for this address; returns where it begins in the outer frame, and what was there.
    #[inline(always)]
    pub(crate) fn unwrap(
        &self,
        region: &Region,
        packet: &mut Packet,
        mac: MacAddr,
    ) -> Option<(u16, Kept)> {
        let begin = match self.ethertype {
            Some(_) => self.at - ETHERNET,
            None => self.at,
        };
        let octets = region.octets_mut(packet).get_mut(begin..)?;
        let header = octets.first_chunk_mut()?;
        let kept = Kept::of(header);
        if let Some(ethertype) = self.ethertype {
            let [a, b, c, d, e, f] = mac.0;
            Kept([[a, b, c, d, e, f, 0, 0], u64::from(ethertype).to_be_bytes()]).put(header);
        }
        packet.pull(begin);
        packet.set_mark(0); // what is inside has no VLAN priority
        Some((begin as u16, kept))
    }
}

/// An Ethernet header in two words that overlap, as the CPU reads and writes it best.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept([[u8; 8]; 2]);

impl Kept {
    #[inline(always)]
    fn of(header: &[u8; ETHERNET]) -> Self {
        let mut words = [[0; 8]; 2];
        words[0].copy_from_slice(&header[..8]);
        words[1].copy_from_slice(&header[ETHERNET - 8..]);
        Self(words)
    }

    #[inline(always)]
    pub(crate) fn put(self, header: &mut [u8; ETHERNET]) {
        header[..8].copy_from_slice(&self.0[0]);
        header[ETHERNET - 8..].copy_from_slice(&self.0[1]);
    }
}
