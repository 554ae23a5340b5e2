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
/// "More fragments" and the highest bits of the offset, in the octet of an IPv4 header that has the flags.
const OFFSET: u8 = 0x3f;
const UDP: usize = 8;
const VXLAN: usize = 8;
/// The ECN bits of TOS or traffic class, and their values (RFC 3168).
pub(crate) const ECN: u8 = 3;
const ECT1: u8 = 1;
pub(crate) const ECT0: u8 = 2;
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
    #[inline(always)] // a result in memory would be read in other pieces than it is written
    pub(crate) fn of(frame: &[u8], partial: bool) -> Option<Self> {
        let header: &[u8; IPV4] = frame.get(ETHERNET..)?.first_chunk()?;
        let [first, tos, high, low, _, _, flags, offset, _, protocol, ..] = *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if first != 0x45 || flags & OFFSET | offset != 0 {
            return None;
        }
        let payload = frame.get(ETHERNET + IPV4..ETHERNET + length)?;
        let (key, length, ethertype) = match Protocol(protocol) {
            Protocol(47) => gre(payload)?,
            Protocol(4) => (None, 0, Some(ethernet::EtherType::IPV4.0)),
            Protocol(41) => (None, 0, Some(ethernet::EtherType::IPV6.0)),
            Protocol::UDP => {
                let outer = ipv4::Packet::new_checked(frame.get(ETHERNET..)?).ok()?;
                return Self::vxlan(&outer, partial);
            }
            _ => return None,
        };
        let [.., a, b, c, d, e, f, g, h] = *header;
        let source = u32::from_be_bytes([a, b, c, d]);
        let endpoint = Endpoint::Addresses {
            protocol,
            source,
            destination: u32::from_be_bytes([e, f, g, h]),
            key,
        };
        let arrival = Self {
            endpoint,
            source,
            at: ETHERNET + IPV4 + length,
            ethertype,
        };
        is_plain(tos, payload.get(length..)?).then_some(arrival)
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
            endpoint: Endpoint::Vxlan {
                port: u16::from_be_bytes([port_high, port_low]),
                vni: u32::from_be_bytes([0, high, middle, low]),
            },
            source: outer.src().to_bits(),
            at: ETHERNET + IPV4 + UDP + VXLAN,
            ethertype: None,
        };
        is_plain(outer.tos(), inside.get(ETHERNET..)?).then_some(arrival)
    }
}

/// Key, length of the header, and EtherType of GRE.
#[inline(always)]
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
#[inline(always)]
fn is_plain(outer_tos: u8, inside: &[u8]) -> bool {
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
    let changes = match outer_tos & ECN {
        CE => true,
        ECT1 => tos & ECN == ECT0,
        _ => false,
    };
    length <= inside.len() && !changes
}

impl Arrival {
    /// Makes the packet inside a frame for this address; returns where it begins in the outer frame, and the octets there, for
    /// [`crate::Unwrapped::rewrap`].
    #[inline(always)]
    pub(crate) fn unwrap(
        &self,
        region: &Region,
        packet: &mut Packet,
        mac: MacAddr,
    ) -> Option<(u16, [u8; ETHERNET])> {
        let has_header = self.ethertype.is_none();
        let begin = if has_header {
            self.at
        } else {
            self.at - ETHERNET
        };
        let octets = region.octets_mut(packet).get_mut(begin..)?;
        let header: &mut [u8; ETHERNET] = octets.first_chunk_mut()?;
        let kept = *header;
        if let Some(ethertype) = self.ethertype {
            // in two stores that overlap
            let [a, b, c, d, e, f] = mac.0;
            header[..8].copy_from_slice(&[a, b, c, d, e, f, 0, 0]);
            header[6..].copy_from_slice(&u64::from(ethertype).to_be_bytes());
        }
        packet.pull(begin);
        packet.set_mark(0); // what is inside has no VLAN priority
        Some((begin as u16, kept))
    }
}
