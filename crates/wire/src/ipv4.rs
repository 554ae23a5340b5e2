//! IPv4 (RFC 791), its options, and what a router changes in it.

use core::fmt;
use core::net::Ipv4Addr;

use crate::field;
use crate::{Error, Protocol, checksum};

const VERSION_IHL: usize = 0;
const TOS: usize = 1;
const TOTAL_LEN: usize = 2;
const IDENT: usize = 4;
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

/// Length of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

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

    /// The buffer back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
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

    /// The ECN field, 0..=3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 0x03
    }

    /// Length of header and payload, in bytes.
    #[inline]
    pub fn total_len(&self) -> u16 {
        field::u16(self.buffer.as_ref(), TOTAL_LEN)
    }

    /// The identification shared by the fragments of a datagram.
    #[inline]
    pub fn ident(&self) -> u16 {
        field::u16(self.buffer.as_ref(), IDENT)
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

    /// Whether more fragments of the datagram follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset() & MORE_FRAGMENTS != 0
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

    /// The options as bytes.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        field::slice(self.buffer.as_ref(), MIN_HEADER_LEN..self.header_len())
    }

    /// The options one by one.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options {
            rest: self.option_bytes(),
        }
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
    /// Sets version 4 and the header length, in bytes: a multiple of 4, at most 60.
    #[inline]
    pub fn set_header_len(&mut self, value: usize) {
        field::put_u8(
            self.buffer.as_mut(),
            VERSION_IHL,
            0x40 | (value / 4) as u8 & 0x0f,
        );
    }

    /// Sets DSCP and ECN together.
    #[inline]
    pub fn set_tos(&mut self, value: u8) {
        field::put_u8(self.buffer.as_mut(), TOS, value);
    }

    /// Sets the total length, in bytes.
    #[inline]
    pub fn set_total_len(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), TOTAL_LEN, value);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_ident(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), IDENT, value);
    }

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

    /// Sets the time to live. For the step a router does, see [`Packet::decrement_ttl`].
    #[inline]
    pub fn set_ttl(&mut self, value: u8) {
        field::put_u8(self.buffer.as_mut(), TTL, value);
    }

    /// Sets the protocol.
    #[inline]
    pub fn set_protocol(&mut self, value: Protocol) {
        field::put_u8(self.buffer.as_mut(), PROTOCOL, value.0);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, value: Ipv4Addr) {
        field::put(self.buffer.as_mut(), SRC, value.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, value: Ipv4Addr) {
        field::put(self.buffer.as_mut(), DST, value.octets());
    }

    /// Takes one from the TTL, stopping at zero, and brings the checksum along (RFC 1624).
    #[inline]
    pub fn decrement_ttl(&mut self) {
        let ttl = self.ttl();
        if ttl > 0 {
            self.set_ttl(ttl - 1);
            self.set_checksum(checksum::decrement_ttl(self.checksum()));
        }
    }

    /// Computes the header checksum and writes it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let header = field::slice(self.buffer.as_ref(), 0..self.header_len());
        let value = checksum::checksum(header);
        self.set_checksum(value);
    }

    /// The options, to write to.
    #[inline]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let range = MIN_HEADER_LEN..self.header_len();
        field::slice_mut(self.buffer.as_mut(), range)
    }

    /// What the header carries, to write to, without padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..usize::from(self.total_len());
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src(), self.dst(), self.protocol())?;
        write!(f, " ttl {} len {}", self.ttl(), self.total_len())?;
        if self.is_fragment() {
            let more = if self.more_fragments() { "+" } else { "" };
            write!(
                f,
                " frag {:#06x}@{}{more}",
                self.ident(),
                self.fragment_offset()
            )?;
        }
        Ok(())
    }
}

/// One option of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The option as it stands in the header: type, length (unless it is a single byte), data.
    /// Never empty.
    pub bytes: &'a [u8],
}

impl Opt<'_> {
    /// Type of "end of option list".
    pub const END: u8 = 0;
    /// Type of "no operation".
    pub const NOP: u8 = 1;
    /// Type of record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Type of the time stamp.
    pub const TIMESTAMP: u8 = 68;
    /// Type of loose source routing (RFC 7126 4.3).
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Type of strict source routing (RFC 7126 4.4).
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Type of router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;

    /// The option type: copy flag, class and number together.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> u8 {
        field::u8(self.bytes, 0)
    }

    /// Whether every fragment carries the option, and not only the first (RFC 791 3.1).
    #[inline]
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.kind() & 0x80 != 0
    }

    /// Whether this is a source route, loose or strict.
    #[inline]
    #[must_use]
    pub fn is_source_route(&self) -> bool {
        matches!(
            self.kind(),
            Self::LOOSE_SOURCE_ROUTE | Self::STRICT_SOURCE_ROUTE
        )
    }
}

/// The options of an IPv4 header in their order, up to the end of the list. "No operation" is
/// given as an option of one byte. After an error there is nothing more.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let len = match *self.rest {
            [] | [Opt::END, ..] => return None,
            [Opt::NOP, ..] => 1,
            [_, len, ..] if len >= 2 => usize::from(len),
            _ => usize::MAX,
        };
        // An option without a length, with one below 2 or one beyond the header ends here.
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            self.rest = &[];
            return Some(Err(Error::BadOption));
        };
        self.rest = rest;
        Some(Ok(Opt { bytes }))
    }
}

impl core::iter::FusedIterator for Options<'_> {}

/// The values of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// DSCP and ECN together.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
    /// Whether more fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options as bytes, padded to a multiple of 4.
    pub options: &'a [u8],
    /// Length of the payload in bytes.
    pub payload_len: usize,
}

impl<'a> Repr<'a> {
    /// Reads a checked packet's header.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Result<Self, Error> {
        packet.verify_checksum()?;
        Ok(Repr {
            tos: packet.tos(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            src: packet.src(),
            dst: packet.dst(),
            options: packet.option_bytes(),
            payload_len: packet.payload().len(),
        })
    }

    /// Length of the header in bytes.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        MIN_HEADER_LEN + self.options.len()
    }

    /// Writes the header, with its checksum, at the start of `buffer`, which has to hold the
    /// payload too. The payload itself is not touched.
    ///
    /// # Errors
    /// [`Error::BadHeaderLength`] if the options are not a multiple of 4 or above 40 bytes,
    /// [`Error::BadTotalLength`] above 65535 bytes, [`Error::Truncated`] if the buffer is shorter
    /// than header and payload.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let header_len = self.header_len();
        if header_len > MAX_HEADER_LEN || !header_len.is_multiple_of(4) {
            return Err(Error::BadHeaderLength);
        }
        let total_len = u16::try_from(header_len.saturating_add(self.payload_len))
            .map_err(|_| Error::BadTotalLength)?;
        if buffer.len() < usize::from(total_len) {
            return Err(Error::Truncated);
        }
        let mut packet = Packet::new_unchecked(buffer);
        packet.set_header_len(header_len);
        packet.set_tos(self.tos);
        packet.set_total_len(total_len);
        packet.set_ident(self.ident);
        packet.set_fragment(
            self.dont_fragment,
            self.more_fragments,
            self.fragment_offset,
        );
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.option_bytes_mut().copy_from_slice(self.options);
        packet.fill_checksum();
        Ok(())
    }
}

#[cfg(test)]
#[path = "ipv4_tests.rs"]
mod tests;
