//! UDP (RFC 768), and whole frames of it.

use core::net::IpAddr;

use crate::checksum::{self, Sum, Transport};
use crate::vlan::Tci;
use crate::{Error, EtherType, MacAddr, Protocol, ethernet, field, ipv4, ipv6};

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

/// The values of a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl Repr {
    /// Writes the header at the start of `buffer`, with checksum zero; all behind it is the data,
    /// and returned. Once the data is there, [`checksum::fill_transport`] computes the checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit, [`Error::BadTotalLength`] above 65535 bytes.
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let len = u16::try_from(buffer.len()).map_err(|_| Error::BadTotalLength)?;
        let (header, data) = buffer
            .split_first_chunk_mut::<HEADER_LEN>()
            .ok_or(Error::Truncated)?;
        field::put_u16(header, SRC_PORT, self.src_port);
        field::put_u16(header, DST_PORT, self.dst_port);
        field::put_u16(header, LEN, len);
        field::put_u16(header, CHECKSUM, 0);
        Ok(data)
    }
}

/// The values of all headers of a UDP packet that is no fragment: what the tester, the benchmarks
/// and the tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Ethernet destination.
    pub dst_mac: MacAddr,
    /// Ethernet source.
    pub src_mac: MacAddr,
    /// A customer tag.
    pub tag: Option<Tci>,
    /// IP source address.
    pub src: IpAddr,
    /// IP destination address, of the same version.
    pub dst: IpAddr,
    /// DSCP and ECN together.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Whether routers may not fragment an IPv4 packet.
    pub dont_fragment: bool,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl Frame {
    /// A frame without tag, with 64 hops to go and everything else zero.
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        Frame {
            dst_mac: MacAddr::ZERO,
            src_mac: MacAddr::ZERO,
            tag: None,
            src: src.into(),
            dst: dst.into(),
            tos: 0,
            ttl: 64,
            dont_fragment: false,
            src_port: 0,
            dst_port: 0,
        }
    }

    /// Writes the headers at the start of `frame`, with UDP checksum zero; all behind them is the
    /// data, and left alone.
    ///
    /// # Errors
    /// [`Error::Truncated`] if they do not fit, [`Error::BadTotalLength`] above 65535 bytes,
    /// [`Error::BadAddressFormat`] for addresses of two versions.
    pub fn emit(&self, frame: &mut [u8]) -> Result<(), Error> {
        let link = |ethertype| ethernet::Repr {
            dst: self.dst_mac,
            src: self.src_mac,
            tag: self.tag,
            ethertype,
        };
        let datagram = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::Repr {
                tos: self.tos,
                dont_fragment: self.dont_fragment,
                ttl: self.ttl,
                protocol: Protocol::UDP,
                src,
                dst,
            }
            .emit(link(EtherType::IPV4).emit(frame)?)?,
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Repr {
                traffic_class: self.tos,
                flow_label: 0,
                next_header: Protocol::UDP,
                hop_limit: self.ttl,
                src,
                dst,
            }
            .emit(link(EtherType::IPV6).emit(frame)?)?,
            _ => return Err(Error::BadAddressFormat),
        };
        let header = Repr {
            src_port: self.src_port,
            dst_port: self.dst_port,
        };
        header.emit(datagram).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

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
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Valid);
        packet.payload_mut()[0] = b'B';
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Invalid);
        packet.set_checksum(pseudo().fold());
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Partial);
        packet.set_checksum(0);
        assert_eq!(packet.verify_checksum(pseudo()), Transport::Absent);
    }

    #[test]
    fn writes_the_header() {
        let repr = Repr {
            src_port: 1000,
            dst_port: 2000,
        };
        let mut out = DATAGRAM;
        out[..8].fill(0xa5);
        assert_eq!(repr.emit(&mut out[..12]).unwrap(), b"bora");
        checksum::fill_transport(pseudo(), Protocol::UDP, &mut out[..12]).unwrap();
        assert_eq!(out, DATAGRAM);
        assert_eq!(repr.emit(&mut out[..7]), Err(Error::Truncated));
        assert_eq!(repr.emit(&mut [0; 65536]), Err(Error::BadTotalLength));
    }

    #[test]
    fn writes_whole_frames() {
        let v4 = Frame {
            dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            tag: Some(Tci::new(5, 100)),
            tos: 0xb8,
            src_port: 1000,
            dst_port: 2000,
            ..Frame::new(SRC, DST)
        };
        let mut out = [0xee; 50];
        v4.emit(&mut out).unwrap();
        assert_eq!(out[..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(out[12..18], [0x81, 0x00, 0xa0, 0x64, 0x08, 0x00]);
        let packet = ipv4::Packet::new_checked(&out[18..]).unwrap();
        assert_eq!(packet.verify_checksum(), Ok(()));
        assert_eq!((packet.src(), packet.dst(), packet.tos()), (SRC, DST, 0xb8));
        let datagram = Packet::new_checked(packet.payload()).unwrap();
        assert_eq!((datagram.src_port(), datagram.dst_port()), (1000, 2000));
        assert_eq!(datagram.payload(), [0xee; 4]);
        assert_eq!(v4.emit(&mut [0; 45]), Err(Error::Truncated));

        let [src, dst] =
            ["2001:db8::1", "2001:db8::2"].map(|text| text.parse::<Ipv6Addr>().unwrap());
        let v6 = Frame {
            ttl: 1,
            ..Frame::new(src, dst)
        };
        let mut out = [0xee; 64];
        v6.emit(&mut out).unwrap();
        let packet = ipv6::Packet::new_checked(&out[14..]).unwrap();
        assert_eq!(
            (packet.src(), packet.dst(), packet.hop_limit()),
            (src, dst, 1)
        );
        assert_eq!(
            Packet::new_checked(packet.payload()).unwrap().payload(),
            [0xee; 2]
        );
        let mixed = Frame {
            dst: DST.into(),
            ..v6
        };
        assert_eq!(mixed.emit(&mut out), Err(Error::BadAddressFormat));
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
