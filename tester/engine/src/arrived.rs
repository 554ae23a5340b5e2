//! Reads a received frame, which may be any frame: whether it can be one of the tester's.

use bora_wire::checksum::{self, Transport};
use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, udp};

use crate::signature::LENGTH;

/// A UDP packet that is long enough for a signature.
pub(crate) struct Arrived<'a> {
    /// From the IP header to the end of the frame.
    packet: &'a [u8],
    /// IPv4 without options, or IPv6 without extension headers.
    pub(crate) v4: bool,
    /// Where a signature is, if it has one.
    pub(crate) signature: &'a [u8; LENGTH],
}

impl<'a> Arrived<'a> {
    /// `None` if the tester sends no such frames.
    #[inline]
    pub(crate) fn find(frame: &'a [u8]) -> Option<Self> {
        let untagged = Untagged::find(&ethernet::Frame::new_unchecked(frame)).ok()?;
        if !matches!(untagged.ethertype, EtherType::IPV4 | EtherType::IPV6) {
            return None;
        }
        let packet = frame.get(untagged.offset..)?;
        let (v4, header, protocol) = match packet {
            [0x45, ..] => {
                let protocol = ipv4::Packet::new_unchecked(packet).protocol();
                (true, ipv4::MIN_HEADER_LEN, protocol)
            }
            [0x60..=0x6f, ..] => {
                let protocol = ipv6::Packet::new_unchecked(packet).next_header();
                (false, ipv6::HEADER_LEN, protocol)
            }
            _ => return None,
        };
        if protocol != Protocol::UDP {
            return None;
        }
        let payload = packet.get(header + udp::HEADER_LEN..)?;
        Some(Self {
            packet,
            v4,
            signature: payload.first_chunk()?,
        })
    }

    /// Octets of the IP packet, as its header says.
    #[inline]
    pub(crate) fn length(&self) -> u16 {
        match self.v4 {
            true => self.v4().total_len(),
            false => {
                let header = ipv6::HEADER_LEN as u16;
                self.v6().payload_len().saturating_add(header)
            }
        }
    }

    /// The UDP checksum, as it is in the packet.
    #[inline]
    pub(crate) fn checksum(&self) -> u16 {
        self.udp().checksum()
    }

    /// Whether the packet is there in this length, in all headers, and an IPv4 header is right.
    #[inline]
    pub(crate) fn is_whole(&self, length: u16) -> bool {
        self.length() == length
            && self.packet.len() >= usize::from(length)
            && usize::from(self.udp().len()) + self.header() == usize::from(length)
            && (!self.v4 || self.v4().verify_checksum().is_ok())
    }

    /// Whether the UDP checksum is right; the packet must be whole.
    #[inline]
    pub(crate) fn verify(&self) -> bool {
        let found = match self.v4 {
            true => {
                let packet = self.v4();
                let (src, dst) = (packet.src(), packet.dst());
                checksum::transport_v4(src, dst, Protocol::UDP, packet.payload())
            }
            false => {
                let packet = self.v6();
                let (src, dst) = (packet.src(), packet.dst());
                checksum::transport_v6(src, dst, Protocol::UDP, packet.payload())
            }
        };
        found == Transport::Valid
    }

    #[inline]
    fn header(&self) -> usize {
        match self.v4 {
            true => ipv4::MIN_HEADER_LEN,
            false => ipv6::HEADER_LEN,
        }
    }

    #[inline]
    fn v4(&self) -> ipv4::Packet<&'a [u8]> {
        ipv4::Packet::new_unchecked(self.packet)
    }

    #[inline]
    fn v6(&self) -> ipv6::Packet<&'a [u8]> {
        ipv6::Packet::new_unchecked(self.packet)
    }

    #[inline]
    fn udp(&self) -> udp::Packet<&'a [u8]> {
        udp::Packet::new_unchecked(self.packet.get(self.header()..).unwrap_or_default())
    }
}
