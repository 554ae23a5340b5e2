//! Ethernet II: addresses, EtherType, and the 14 bytes in front of every packet.

use core::fmt;
use core::net::Ipv6Addr;

use crate::{Error, field};

const DST: usize = 0;
const SRC: usize = 6;
const ETHERTYPE: usize = 12;

/// Length of the header, without any VLAN tag.
pub const HEADER_LEN: usize = 14;

/// Length of a VLAN tag, which follows the header.
pub const TAG_LEN: usize = 4;

/// The shortest frame a sender may put on the wire, without the frame check sequence. Shorter
/// payloads are padded, which is why IP has to trim.
pub const MIN_FRAME_LEN: usize = 60;

/// A 48-bit MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Every station on the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// No station's address: the target of an ARP request.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The address of an IPv6 multicast group (RFC 2464 7).
    #[must_use]
    pub const fn of_group(group: Ipv6Addr) -> MacAddr {
        let [.., a, b, c, d] = group.octets();
        MacAddr([0x33, 0x33, a, b, c, d])
    }

    /// Whether it is for several stations: the I/G bit is set, as in broadcast.
    #[inline]
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether one station can own the address: neither a group nor zero.
    #[inline]
    #[must_use]
    pub fn is_unicast(&self) -> bool {
        !self.is_group() && *self != Self::ZERO
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What the payload of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// An 802.1Q customer tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// An 802.1ad service tag.
    pub const QINQ: EtherType = EtherType(0x88a8);
}

/// Tag control information: priority, drop eligibility and VLAN identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tci(pub u16);

impl Tci {
    /// The value for a frame that is not drop eligible: `pcp` is 0..=7 and `vid` 0..=4095, more bits are cut
    /// off.
    #[must_use]
    pub const fn new(pcp: u8, vid: u16) -> Tci {
        Tci((pcp as u16) << 13 | vid & 0x0fff)
    }

    /// Priority code point, 0..=7.
    #[inline]
    #[must_use]
    pub const fn pcp(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// VLAN identifier, 0..=4095.
    #[inline]
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.0 & 0x0fff
    }
}

/// A view of an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// A view that has seen no check; see the crate's page.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Frame { buffer }
    }

    /// A view of a frame whose header is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`HEADER_LEN`] bytes.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Frame { buffer })
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(field::array(self.buffer.as_ref(), DST))
    }

    /// The source address.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(field::array(self.buffer.as_ref(), SRC))
    }

    /// What follows: a protocol, or a VLAN tag.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(field::u16(self.buffer.as_ref(), ETHERTYPE))
    }

    /// Everything behind the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(HEADER_LEN..).unwrap_or(&[])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the destination.
    #[inline]
    pub fn set_dst(&mut self, value: MacAddr) {
        field::put(self.buffer.as_mut(), DST, value.0);
    }

    /// Sets the source.
    #[inline]
    pub fn set_src(&mut self, value: MacAddr) {
        field::put(self.buffer.as_mut(), SRC, value.0);
    }

    /// Sets the EtherType.
    #[inline]
    pub fn set_ethertype(&mut self, value: EtherType) {
        field::put_u16(self.buffer.as_mut(), ETHERTYPE, value.0);
    }

    /// Everything behind the header, to write to.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.buffer
            .as_mut()
            .get_mut(HEADER_LEN..)
            .unwrap_or(&mut [])
    }
}

/// The values of an Ethernet header, with or without a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// A customer tag.
    pub tag: Option<Tci>,
    /// What follows header and tag.
    pub ethertype: EtherType,
}

impl Repr {
    /// Length of header and tag, in bytes.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        match self.tag {
            Some(_) => HEADER_LEN + TAG_LEN,
            None => HEADER_LEN,
        }
    }

    /// Writes header and tag at the start of `buffer`; returns what is behind them.
    ///
    /// # Errors
    /// [`Error::Truncated`] if they do not fit.
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let (header, payload) = buffer
            .split_at_mut_checked(self.header_len())
            .ok_or(Error::Truncated)?;
        let mut frame = Frame::new_unchecked(header);
        frame.set_dst(self.dst);
        frame.set_src(self.src);
        frame.set_ethertype(self.tag.map_or(self.ethertype, |_| EtherType::VLAN));
        if let Some(tci) = self.tag {
            let tag = frame.payload_mut();
            field::put_u16(tag, 0, tci.0);
            field::put_u16(tag, 2, self.ethertype.0);
        }
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 18] = [
        0x02, 0x00, 0x00, 0x00, 0x00, 0x01, // dst
        0x02, 0x00, 0x00, 0x00, 0x00, 0x02, // src
        0x86, 0xdd, // IPv6
        0x60, 0x01, 0x02, 0x03,
    ];

    #[test]
    fn reads_fields() {
        let frame = Frame::new_checked(&FRAME[..]).unwrap();
        assert_eq!(frame.dst(), MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(frame.src(), MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(frame.ethertype(), EtherType::IPV6);
        assert_eq!(frame.payload(), &[0x60, 1, 2, 3]);
    }

    #[test]
    fn writes_header_and_tag() {
        let repr = Repr {
            dst: MacAddr([2, 0, 0, 0, 0, 1]),
            src: MacAddr([2, 0, 0, 0, 0, 2]),
            tag: None,
            ethertype: EtherType::IPV6,
        };
        let mut out = FRAME;
        out[..14].fill(0);
        assert_eq!(repr.emit(&mut out).unwrap(), &FRAME[14..]);
        assert_eq!(out, FRAME);
        assert_eq!(repr.emit(&mut [0; 13]), Err(Error::Truncated));
        let tagged = Repr {
            tag: Some(Tci::new(5, 100)),
            ..repr
        };
        assert!(tagged.emit(&mut out).unwrap().is_empty());
        assert_eq!(out[..12], FRAME[..12]);
        assert_eq!(out[12..], [0x81, 0x00, 0xa0, 0x64, 0x86, 0xdd]);
        assert_eq!(tagged.emit(&mut [0; 17]), Err(Error::Truncated));
    }

    #[test]
    fn writes_the_payload() {
        let mut frame = Frame::new_checked(FRAME).unwrap();
        frame.payload_mut()[0] = 0x45;
        assert_eq!(frame.payload(), &[0x45, 1, 2, 3]);
        assert_eq!(frame.buffer[..14], FRAME[..14]);
    }

    #[test]
    fn too_short() {
        assert_eq!(Frame::new_checked(&FRAME[..13]), Err(Error::Truncated));
        assert_eq!(Frame::new_unchecked(&FRAME[..13]).ethertype(), EtherType(0));
        let header = Frame::new_checked(&FRAME[..14]).unwrap();
        assert!(header.payload().is_empty());
    }

    #[test]
    fn kinds_of_addresses() {
        assert!(!MacAddr::BROADCAST.is_unicast() && !MacAddr::ZERO.is_unicast());
        assert!(!MacAddr([0x33, 0x33, 0, 0, 0, 2]).is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
    }
}
