//! What is asked: what becomes of a packet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use bora_fib::PortId;
use bora_wire::{MacAddr, Protocol, ethernet, ipv4, udp};

/// A port or device that packets come in by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Bora's number of it.
    pub number: PortId,
    /// Linux's number of it.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, which packets that are to be forwarded have.
    pub mac: MacAddr,
    /// Whether what comes in by it comes in by a bond, to which it belongs.
    pub in_bond: bool,
    /// Whether all IPv4, and all IPv6, that comes in there is left to Linux.
    pub to_linux: [bool; 2],
    /// Whether sources of its IPv4 packets are looked up (rp_filter).
    pub checks_sources: bool,
    /// Where its packets meet the XDP program, which decides about them or gives them to the engine; `None` if they do not.
    pub entry: Option<Entry>,
    /// What its card forwards by itself.
    pub card: Vec<CardRoute>,
}

/// A route that a card forwards by, past Bora's workers and Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRoute {
    /// Destinations: address and prefix length.
    pub prefix: (Ipv4Addr, u8),
    /// Bora's number of the port that it leads to.
    pub out: PortId,
    /// Ethernet address of the next hop.
    pub mac: MacAddr,
    /// Longest packet, octets.
    pub mtu: u16,
}

impl CardRoute {
    /// Whether packets to an address take it.
    pub(crate) fn covers(&self, destination: IpAddr) -> bool {
        let (address, length) = self.prefix;
        let IpAddr::V4(destination) = destination else {
            return false;
        };
        let differ = address.to_bits() ^ destination.to_bits();
        differ.leading_zeros() >= u32::from(length)
    }
}

/// What a packet of a port or device is like at the port that it comes in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Linux's number of the port.
    pub ifindex: u32,
    /// Its VLAN tags.
    pub tags: Tags,
    /// The PPPoE session that it is in: number, and Ethernet address of the other end.
    pub session: Option<(u16, MacAddr)>,
}

impl Entry {
    /// A frame without tags, as it comes in there.
    pub fn tagged(&self, frame: &[u8]) -> Vec<u8> {
        let tags = self.tags.chunks_exact(TAG).filter(|tag| tag[0] != 0);
        let tags: Vec<u8> = tags.flatten().copied().collect();
        let (addresses, rest) = frame.split_at(ADDRESSES.min(frame.len()));
        let Some((number, peer)) = self.session else {
            return [addresses, &tags, rest].concat();
        };
        let (to, packet) = (addresses.get(..6), rest.get(2..));
        let (to, packet) = (to.unwrap_or_default(), packet.unwrap_or_default());
        let protocol: u16 = match rest.first() {
            Some(0x86) => 0x0057,
            _ => 0x0021,
        };
        let header = [0x8864, 0x1100, number, packet.len() as u16 + 2, protocol];
        let header = header.map(u16::to_be_bytes);
        [to, &peer.0, &tags, header.as_flattened(), packet].concat()
    }
}

/// VLAN tags as on the wire, without priority, the outer one first; zeros where there is none.
pub type Tags = [u8; 8];

/// Octets of a tag, and of what is in front of it.
const TAG: usize = 4;
const ADDRESSES: usize = 12;
/// Octets of the longest frame that the kernel tries a program on, less than a page.
const LONGEST: usize = 3400;

/// Octets of a question's frame; room for the headers of IPv6 and UDP.
pub(crate) const LENGTH: usize = 90;

/// A packet. Both addresses are of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Place of what it comes in by in the list of inputs.
    pub input: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TOS or traffic class.
    pub tos: u8,
    /// UDP or TCP.
    pub protocol: Protocol,
    /// Source and destination port.
    pub ports: [u16; 2],
}

impl Question {
    /// A UDP packet without a TOS.
    pub fn new(input: usize, source: IpAddr, destination: IpAddr) -> Self {
        Self {
            input,
            source,
            destination,
            tos: 0,
            protocol: Protocol::UDP,
            ports: [4000, 9],
        }
    }

    /// Writes the packet, as it comes in by `input`.
    pub(crate) fn write(&self, input: &Input, octets: &mut [u8]) {
        octets.fill(0);
        let headers = udp::Frame {
            dst_mac: input.mac,
            tos: self.tos,
            src_port: self.ports[0],
            dst_port: self.ports[1],
            ..udp::Frame::new(self.source, self.destination)
        };
        // where it does not fit, it is a packet that is none
        if headers.emit(octets).is_err() {
            return;
        }
        if self.is_v6() {
            octets[20] = self.protocol.0;
        } else {
            octets[23] = self.protocol.0;
            ipv4::Packet::new_unchecked(&mut octets[14..]).fill_checksum();
        }
    }

    /// The packet as it comes in, without tags. `octets`: the length of the IP packet; `None` if a program cannot be tried on such a
    /// long one.
    pub(crate) fn frame(&self, input: &Input, octets: usize) -> Option<Vec<u8>> {
        let length = octets + ethernet::HEADER_LEN;
        if length > LONGEST {
            return None;
        }
        let mut frame = vec![0; length];
        self.write(input, &mut frame);
        Some(frame)
    }

    /// Whether Linux answers questions about its protocol (rtm_getroute_parse_ip_proto()).
    pub(crate) fn is_answered(&self) -> bool {
        const ICMP: Protocol = Protocol(1);
        let icmp = match self.is_v6() {
            true => Protocol::ICMPV6,
            false => ICMP,
        };
        [Protocol::TCP, Protocol::UDP, icmp].contains(&self.protocol)
    }

    /// Whether it is about IPv6.
    pub fn is_v6(&self) -> bool {
        self.destination.is_ipv6()
    }
}

/// The tags of a frame.
pub(crate) fn tags_of(frame: &[u8]) -> Tags {
    let mut tags = Tags::default();
    let there = frame.get(ADDRESSES..).unwrap_or_default();
    for (tag, found) in tags.chunks_exact_mut(TAG).zip(there.chunks_exact(TAG)) {
        if !matches!(found[..2], [0x81, 0x00] | [0x88, 0xa8]) {
            break;
        }
        tag.copy_from_slice(&[found[0], found[1], found[2] & 0x0f, found[3]]);
    }
    tags
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", self.source, self.destination)?;
        if self.tos != 0 {
            write!(f, " tos {:#04x}", self.tos)?;
        }
        let [from, to] = self.ports;
        write!(f, " protocol {} ports {from} {to}", self.protocol.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_behind_the_addresses() {
        let entry = |tags| Entry {
            ifindex: 1,
            tags,
            session: None,
        };
        let frame = [&[7; ADDRESSES][..], &[8, 0, 1]].concat();
        assert_eq!(entry(Tags::default()).tagged(&frame), frame);
        let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6];
        let two = [&[7; ADDRESSES][..], &tags, &[8, 0, 1]].concat();
        assert_eq!(entry(tags).tagged(&frame), two);
        assert_eq!(tags_of(&two), tags);
        assert_eq!(entry(tags).tagged(&[1]).len(), 9);
        let in_session = Entry {
            session: Some((0x1234, MacAddr([9; 6]))),
            ..entry(Tags::default())
        };
        let headers = [0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, 3, 0, 0x21, 1];
        let wanted = [&[7; 6][..], &[9; 6], &headers].concat();
        assert_eq!(in_session.tagged(&frame), wanted);
    }
}
