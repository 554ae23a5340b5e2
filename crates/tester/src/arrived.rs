//! Finds the tester's fields in a frame that may be anything.

use bora_wire::checksum::{self, Sum};
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, udp, vlan};

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
        let packet = untagged(frame)?;
        let (v4, header, protocol) = match packet {
            [0x45, ..] => (true, ipv4::MIN_HEADER_LEN, 9),
            [0x60..=0x6f, ..] => (false, ipv6::HEADER_LEN, 6),
            _ => return None,
        };
        if *packet.get(protocol)? != Protocol::UDP.0 {
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
            true => self.word(2),
            false => self.word(4).saturating_add(ipv6::HEADER_LEN as u16),
        }
    }

    /// The UDP checksum, as it is in the packet.
    #[inline]
    pub(crate) fn checksum(&self) -> u16 {
        self.word(self.header() + 6)
    }

    /// Whether the packet is there in this length, in all headers, and an IPv4 header is right.
    #[inline]
    pub(crate) fn is_whole(&self, length: u16) -> bool {
        self.length() == length
            && self.packet.len() >= usize::from(length)
            && usize::from(self.word(self.header() + 4)) + self.header() == usize::from(length)
            && (!self.v4 || checksum::is_valid(&self.packet[..ipv4::MIN_HEADER_LEN]))
    }

    /// Whether the UDP checksum is right; the packet must be whole.
    #[inline]
    pub(crate) fn verify(&self) -> bool {
        let end = usize::from(self.length());
        // the addresses, which the pseudo-header has too, are right before the segment
        let addresses = if self.v4 { 12 } else { 8 };
        let Some(covered) = self.packet.get(addresses..end) else {
            return false;
        };
        let sum = Sum::ZERO
            .add_bytes(covered)
            .add_u16(Protocol::UDP.0.into())
            .add_u16((end - self.header()) as u16);
        // zero says that there is none, but the tester always has one
        sum.fold() == 0xffff && self.checksum() != 0
    }

    #[inline]
    fn header(&self) -> usize {
        match self.v4 {
            true => ipv4::MIN_HEADER_LEN,
            false => ipv6::HEADER_LEN,
        }
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        let octets = self.packet.get(at..).and_then(|rest| rest.first_chunk());
        u16::from_be_bytes(octets.copied().unwrap_or_default())
    }
}

/// What is behind the Ethernet header and its tags.
#[inline]
fn untagged(frame: &[u8]) -> Option<&[u8]> {
    let mut at = ethernet::HEADER_LEN;
    for _ in 0..=vlan::MAX_TAGS {
        let ethertype = EtherType(u16::from_be_bytes([
            *frame.get(at - 2)?,
            *frame.get(at - 1)?,
        ]));
        match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => return frame.get(at..),
            EtherType::VLAN | EtherType::QINQ => at += vlan::HEADER_LEN,
            _ => return None,
        }
    }
    None
}
