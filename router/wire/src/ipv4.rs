//! IPv4 (RFC 791), and what a router changes in it.

use core::net::Ipv4Addr;

use crate::field;
use crate::{Error, Protocol, checksum};

const VERSION_IHL: usize = 0;
const TOS: usize = 1;
const TOTAL_LEN: usize = 2;
const FLAGS_OFFSET: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SRC: usize = 12;
const DST: usize = 16;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Length of the header without options.
pub const MIN_HEADER_LEN: usize = 20;

/// A view of an IPv4 packet, in a buffer that may be longer (Ethernet padding).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view that has seen no check; see the crate's page.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Packet { buffer }
    }

    /// A view of a packet that passed the checks of RFC 1812 5.2.2, the checksum excepted: for
    /// that one ask [`Packet::verify_checksum`].
    ///
    /// # Errors
    /// [`Error::Truncated`] if header or total length reach beyond the buffer,
    /// [`Error::BadVersion`], [`Error::BadHeaderLength`] if IHL is below 5,
    /// [`Error::BadTotalLength`] if the total length is below the header's.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Packet { buffer };
        let available = packet.buffer.as_ref().len();
        if available < MIN_HEADER_LEN {
            return Err(Error::Truncated);
        }
        if packet.version() != 4 {
            return Err(Error::BadVersion);
        }
        let header_len = packet.header_len();
        if header_len < MIN_HEADER_LEN {
            return Err(Error::BadHeaderLength);
        }
        let total_len = usize::from(packet.total_len());
        if total_len < header_len {
            return Err(Error::BadTotalLength);
        }
        if total_len > available {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// The version field; 4 after `new_checked`.
    #[inline]
    pub fn version(&self) -> u8 {
        field::u8(self.buffer.as_ref(), VERSION_IHL) >> 4
    }

    /// Length of the header with its options, in bytes (20..=60 after `new_checked`).
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(field::u8(self.buffer.as_ref(), VERSION_IHL) & 0x0f) * 4
    }

    /// The whole TOS byte: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        field::u8(self.buffer.as_ref(), TOS)
    }

    /// The differentiated services code point, 0..=63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Length of header and payload, in bytes.
    #[inline]
    pub fn total_len(&self) -> u16 {
        field::u16(self.buffer.as_ref(), TOTAL_LEN)
    }

    #[inline]
    fn flags_offset(&self) -> u16 {
        field::u16(self.buffer.as_ref(), FLAGS_OFFSET)
    }

    /// Whether routers may not fragment it.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset() & DONT_FRAGMENT != 0
    }

    /// Where in the datagram the payload belongs, in bytes (a multiple of 8).
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_offset() & OFFSET_MASK) << 3
    }

    /// Whether it is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        field::u8(self.buffer.as_ref(), TTL)
    }

    /// What the payload is.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(field::u8(self.buffer.as_ref(), PROTOCOL))
    }

    /// The checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.buffer.as_ref(), CHECKSUM)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.buffer.as_ref(), SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.buffer.as_ref(), DST))
    }

    /// Whether the header has options.
    #[inline]
    pub fn has_options(&self) -> bool {
        self.header_len() > MIN_HEADER_LEN
    }

    /// What the header carries, without the padding a short Ethernet frame has behind it.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let range = self.header_len()..usize::from(self.total_len());
        field::slice(self.buffer.as_ref(), range)
    }

    /// Checks the header checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    #[inline]
    pub fn verify_checksum(&self) -> Result<(), Error> {
        let data = self.buffer.as_ref();
        let valid = match data.first_chunk::<MIN_HEADER_LEN>() {
            // Nearly every packet: a length the compiler knows, so no loop.
            Some(header) if !self.has_options() => checksum::is_valid(header),
            _ => checksum::is_valid(field::slice(data, 0..self.header_len())),
        };
        if valid {
            Ok(())
        } else {
            Err(Error::BadChecksum)
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets flags and fragment offset together, the reserved bit to zero; `offset` is in bytes, a
    /// multiple of 8.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let mut value = offset >> 3;
        if dont_fragment {
            value |= DONT_FRAGMENT;
        }
        if more_fragments {
            value |= MORE_FRAGMENTS;
        }
        field::put_u16(self.buffer.as_mut(), FLAGS_OFFSET, value);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }

    /// Takes one from the TTL, stopping at zero, and brings the checksum along (RFC 1624).
    #[inline]
    pub fn decrement_ttl(&mut self) {
        let octets = self.buffer.as_mut().get_mut(TTL..CHECKSUM + 2);
        if let Some(octets) = octets.and_then(|octets| octets.first_chunk_mut())
            && octets[0] > 0
        {
            *octets = checksum::decrement_ttl(*octets);
        }
    }

    /// Computes the header checksum and writes it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let header = field::slice(self.buffer.as_ref(), 0..self.header_len());
        let value = checksum::checksum(header);
        self.set_checksum(value);
    }

    /// What the header carries, to write to, without padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..usize::from(self.total_len());
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

/// The values of an IPv4 header without options, of a packet that is no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DSCP and ECN together.
    pub tos: u8,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Repr {
    /// Writes the header, with its checksum, at the start of `buffer`; all behind it is the payload,
    /// and returned.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit, [`Error::BadTotalLength`] above 65535 bytes.
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let total_len = u16::try_from(buffer.len()).map_err(|_| Error::BadTotalLength)?;
        let (header, payload) = buffer
            .split_first_chunk_mut::<MIN_HEADER_LEN>()
            .ok_or(Error::Truncated)?;
        header.fill(0);
        field::put(header, VERSION_IHL, [0x45, self.tos]);
        field::put_u16(header, TOTAL_LEN, total_len);
        field::put(header, TTL, [self.ttl, self.protocol.0]);
        field::put(header, SRC, self.src.octets());
        field::put(header, DST, self.dst.octets());
        let mut packet = Packet::new_unchecked(header);
        packet.set_fragment(self.dont_fragment, false, 0);
        packet.fill_checksum();
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
