//! TCP (RFC 9293): the header, as far as a router and a traffic generator care.

use core::fmt;

use crate::checksum::{self, Sum, Transport};
use crate::{Error, Protocol, field};

const SRC_PORT: usize = 0;
const DST_PORT: usize = 2;
const SEQ: usize = 4;
const ACK: usize = 8;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const URGENT: usize = 18;

/// Length of the header without options.
pub const MIN_HEADER_LEN: usize = 20;

/// Length of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

/// The control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push the data through.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Whether all of `flags` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// The letters tcpdump uses: `SA` is SYN and ACK, `.` is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str(".");
        }
        for (bit, letter) in "FSRPAUEC".chars().enumerate() {
            if self.0 >> bit & 1 != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// A view of a TCP segment: the buffer is exactly the segment, because TCP has no length of its
/// own.
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

    /// A view of a segment whose header is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the header reaches beyond the buffer, [`Error::BadHeaderLength`] if
    /// the data offset is below 5.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Packet { buffer };
        let available = packet.buffer.as_ref().len();
        if available < MIN_HEADER_LEN {
            return Err(Error::Truncated);
        }
        if packet.header_len() < MIN_HEADER_LEN {
            return Err(Error::BadHeaderLength);
        }
        if packet.header_len() > available {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        field::u16(self.buffer.as_ref(), SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        field::u16(self.buffer.as_ref(), DST_PORT)
    }

    /// Sequence number of the first byte.
    #[inline]
    pub fn seq(&self) -> u32 {
        field::u32(self.buffer.as_ref(), SEQ)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn ack(&self) -> u32 {
        field::u32(self.buffer.as_ref(), ACK)
    }

    /// Length of the header with its options, in bytes: the data offset.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(field::u8(self.buffer.as_ref(), DATA_OFFSET) >> 4) * 4
    }

    /// The control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(field::u8(self.buffer.as_ref(), FLAGS))
    }

    /// The window field, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        field::u16(self.buffer.as_ref(), WINDOW)
    }

    /// The checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.buffer.as_ref(), CHECKSUM)
    }

    /// The urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        field::u16(self.buffer.as_ref(), URGENT)
    }

    /// The options as bytes.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        field::slice(self.buffer.as_ref(), MIN_HEADER_LEN..self.header_len())
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(self.header_len()..).unwrap_or(&[])
    }

    /// Looks at the checksum; `pseudo` is the pseudo-header's sum with the buffer's length in it.
    pub fn verify_checksum(&self, pseudo: Sum) -> Transport {
        checksum::transport(pseudo, Protocol::TCP, self.buffer.as_ref())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets both ports.
    #[inline]
    pub fn set_ports(&mut self, src: u16, dst: u16) {
        field::put_u16(self.buffer.as_mut(), SRC_PORT, src);
        field::put_u16(self.buffer.as_mut(), DST_PORT, dst);
    }

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, value: u32) {
        field::put_u32(self.buffer.as_mut(), SEQ, value);
    }

    /// Sets the acknowledgement number.
    #[inline]
    pub fn set_ack(&mut self, value: u32) {
        field::put_u32(self.buffer.as_mut(), ACK, value);
    }

    /// Sets the header length, in bytes (a multiple of 4, at most 60), and the reserved bits beside
    /// it to zero.
    #[inline]
    pub fn set_header_len(&mut self, value: usize) {
        field::put_u8(self.buffer.as_mut(), DATA_OFFSET, ((value / 4) << 4) as u8);
    }

    /// Sets the control bits.
    #[inline]
    pub fn set_flags(&mut self, value: Flags) {
        field::put_u8(self.buffer.as_mut(), FLAGS, value.0);
    }

    /// Sets the window field.
    #[inline]
    pub fn set_window(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), WINDOW, value);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }

    /// Sets the urgent pointer.
    #[inline]
    pub fn set_urgent(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), URGENT, value);
    }

    /// The options, to write to.
    #[inline]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let range = MIN_HEADER_LEN..self.header_len();
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TCP {} > {} {}",
            self.src_port(),
            self.dst_port(),
            self.flags()
        )?;
        write!(
            f,
            " seq {} ack {} win {}",
            self.seq(),
            self.ack(),
            self.window()
        )
    }
}

/// The values of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as bytes, padded to a multiple of 4.
    pub options: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Reads a checked segment's header.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Self {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            options: packet.option_bytes(),
        }
    }

    /// Length of the header in bytes.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        MIN_HEADER_LEN + self.options.len()
    }

    /// Writes the header at the start of `buffer`, with checksum zero: once the data is there,
    /// [`checksum::fill_transport`] computes it.
    ///
    /// # Errors
    /// [`Error::BadHeaderLength`] if the options are not a multiple of 4 or above 40 bytes,
    /// [`Error::Truncated`] if the header does not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let header_len = self.header_len();
        if header_len > MAX_HEADER_LEN || !header_len.is_multiple_of(4) {
            return Err(Error::BadHeaderLength);
        }
        if buffer.len() < header_len {
            return Err(Error::Truncated);
        }
        let mut packet = Packet::new_unchecked(buffer);
        packet.set_ports(self.src_port, self.dst_port);
        packet.set_seq(self.seq);
        packet.set_ack(self.ack);
        packet.set_header_len(header_len);
        packet.set_flags(self.flags);
        packet.set_window(self.window);
        packet.set_checksum(0);
        packet.set_urgent(self.urgent);
        packet.option_bytes_mut().copy_from_slice(self.options);
        Ok(())
    }
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
