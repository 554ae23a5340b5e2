//! UDP (RFC 768).

use core::fmt;

use crate::checksum::{self, Sum, Transport};
use crate::{Error, Protocol, field};

const SRC_PORT: usize = 0;
const DST_PORT: usize = 2;
const LEN: usize = 4;
const CHECKSUM: usize = 6;

/// Length of the header.
pub const HEADER_LEN: usize = 8;

/// A view of a UDP datagram.
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

    /// A view of a datagram that is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`] if header or length reach beyond the buffer,
    /// [`Error::BadTotalLength`] if the length is below the header's.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Packet { buffer };
        let available = packet.buffer.as_ref().len();
        if available < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let len = usize::from(packet.len());
        if len < HEADER_LEN {
            return Err(Error::BadTotalLength);
        }
        if len > available {
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

    /// Length of header and data, in bytes.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a field of the header, never zero"
    )]
    pub fn len(&self) -> u16 {
        field::u16(self.buffer.as_ref(), LEN)
    }

    /// The checksum field; zero for none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.buffer.as_ref(), CHECKSUM)
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        field::slice(self.buffer.as_ref(), HEADER_LEN..usize::from(self.len()))
    }

    /// Looks at the checksum; `pseudo` is the pseudo-header's sum with [`Packet::len`] in it.
    pub fn verify_checksum(&self, pseudo: Sum) -> Transport {
        let datagram = field::slice(self.buffer.as_ref(), 0..usize::from(self.len()));
        checksum::transport(pseudo, Protocol::UDP, datagram)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets both ports.
    #[inline]
    pub fn set_ports(&mut self, src: u16, dst: u16) {
        field::put_u16(self.buffer.as_mut(), SRC_PORT, src);
        field::put_u16(self.buffer.as_mut(), DST_PORT, dst);
    }

    /// Sets the length of header and data, in bytes.
    #[inline]
    pub fn set_len(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), LEN, value);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }

    /// The data, to write to.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..usize::from(self.len());
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UDP {} > {} len {}",
            self.src_port(),
            self.dst_port(),
            self.len()
        )
    }
}

/// The values of a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the data in bytes.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a checked datagram's header.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: packet.payload().len(),
        }
    }

    /// Writes the header at the start of `buffer`, which has to hold the data too, with checksum
    /// zero: once the data is there, [`checksum::fill_transport`] computes it.
    ///
    /// # Errors
    /// [`Error::BadTotalLength`] above 65535 bytes, [`Error::Truncated`] if the buffer is shorter
    /// than header and data.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let len = u16::try_from(HEADER_LEN.saturating_add(self.payload_len))
            .map_err(|_| Error::BadTotalLength)?;
        if buffer.len() < usize::from(len) {
            return Err(Error::Truncated);
        }
        let mut packet = Packet::new_unchecked(buffer);
        packet.set_ports(self.src_port, self.dst_port);
        packet.set_len(len);
        packet.set_checksum(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::string::ToString;

    const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    /// From 192.0.2.1 to 198.51.100.2, and two bytes that are not part of it.
    const DATAGRAM: [u8; 14] = [
        0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0c, 0x33, 0x16, b'b', b'o', b'r', b'a', 0xee, 0xee,
    ];

    fn pseudo() -> Sum {
        checksum::pseudo_v4(SRC, DST, Protocol::UDP, 12)
    }

    #[test]
    fn reads_fields() {
        let mut packet = Packet::new_checked(DATAGRAM).unwrap();
        assert_eq!((packet.src_port(), packet.dst_port()), (1000, 2000));
        assert_eq!((packet.len(), packet.checksum()), (12, 0x3316));
        assert_eq!(packet.payload(), b"bora");
        assert_eq!(packet.to_string(), "UDP 1000 > 2000 len 12");
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Valid);
        packet.payload_mut()[0] = b'B';
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Invalid);
        packet.set_checksum(pseudo().fold());
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Partial);
        packet.set_checksum(0);
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Absent);
    }

    #[test]
    fn emits_what_it_parsed() {
        let repr = Repr::parse(&Packet::new_checked(DATAGRAM).unwrap());
        let mut out = DATAGRAM;
        out[..8].fill(0xa5);
        repr.emit(&mut out).unwrap();
        checksum::fill_transport(pseudo(), Protocol::UDP, &mut out[..12]).unwrap();
        assert_eq!(out, DATAGRAM);
        assert_eq!(repr.emit(&mut out[..11]), Err(Error::Truncated));
        let long = Repr {
            payload_len: 65528,
            ..repr
        };
        assert_eq!(long.emit(&mut out), Err(Error::BadTotalLength));
    }

    #[test]
    fn every_refusal() {
        assert_eq!(Packet::new_checked(&DATAGRAM[..7]), Err(Error::Truncated));
        assert_eq!(Packet::new_checked(&DATAGRAM[..11]), Err(Error::Truncated));
        let mut bytes = DATAGRAM;
        bytes[5] = 7;
        assert_eq!(Packet::new_checked(bytes), Err(Error::BadTotalLength));
        bytes[5] = 8;
        assert!(Packet::new_checked(bytes).unwrap().payload().is_empty());
    }
}
