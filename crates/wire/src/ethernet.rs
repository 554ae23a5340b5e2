//! Ethernet II: addresses, EtherType, and the 14 bytes in front of every packet.

use core::fmt;

use crate::Error;
use crate::field;

const DST: usize = 0;
const SRC: usize = 6;
const ETHERTYPE: usize = 12;

/// Length of the header, without any VLAN tag.
pub const HEADER_LEN: usize = 14;

/// The shortest frame a sender may put on the wire, without the frame check sequence. Shorter
/// payloads are padded, which is why IP has to trim.
pub const MIN_FRAME_LEN: usize = 60;

/// A 48-bit MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Every station on the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// Not an address of anybody: the target of an ARP request.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// Whether the address names a group (multicast or broadcast): the I/G bit is set.
    #[inline]
    #[must_use]
    pub const fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is the broadcast address.
    #[inline]
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        *self == Self::BROADCAST
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

    /// Whether the value is the length of an 802.3 frame and not a type at all.
    #[inline]
    #[must_use]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("IPv4"),
            EtherType::ARP => f.write_str("ARP"),
            EtherType::VLAN => f.write_str("802.1Q"),
            EtherType::IPV6 => f.write_str("IPv6"),
            EtherType::QINQ => f.write_str("802.1ad"),
            EtherType(other) => write!(f, "{other:#06x}"),
        }
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

    /// The buffer back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Who the frame is for.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(field::array(self.buffer.as_ref(), DST))
    }

    /// Who sent it on this link.
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

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src(), self.dst(), self.ethertype())
    }
}

/// The values of an Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// What follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Repr {
        Repr {
            dst: frame.dst(),
            src: frame.src(),
            ethertype: frame.ethertype(),
        }
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut frame = Frame::new_checked(buffer)?;
        frame.set_dst(self.dst);
        frame.set_src(self.src);
        frame.set_ethertype(self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

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
        assert_eq!(
            frame.to_string(),
            "02:00:00:00:00:02 > 02:00:00:00:00:01 IPv6"
        );
    }

    #[test]
    fn emits_what_it_parsed() {
        let repr = Repr::parse(&Frame::new_checked(&FRAME[..]).unwrap());
        let mut out = [0; 14];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, FRAME[..14]);
        assert_eq!(repr.emit(&mut [0; 13]), Err(Error::Truncated));
    }

    #[test]
    fn writes_the_payload() {
        let mut frame = Frame::new_checked(FRAME).unwrap();
        frame.payload_mut()[0] = 0x45;
        assert_eq!(frame.payload(), &[0x45, 1, 2, 3]);
        assert_eq!(frame.into_inner()[..14], FRAME[..14]);
    }

    #[test]
    fn too_short() {
        assert_eq!(Frame::new_checked(&FRAME[..13]), Err(Error::Truncated));
        assert_eq!(Frame::new_unchecked(&FRAME[..13]).ethertype(), EtherType(0));
        assert!(
            Frame::new_checked(&FRAME[..14])
                .unwrap()
                .payload()
                .is_empty()
        );
    }

    #[test]
    fn kinds_of_addresses() {
        assert!(MacAddr::BROADCAST.is_group() && MacAddr::BROADCAST.is_broadcast());
        let all_routers = MacAddr([0x33, 0x33, 0, 0, 0, 2]);
        assert!(all_routers.is_group() && !all_routers.is_broadcast());
        assert!(!all_routers.is_unicast() && !MacAddr::ZERO.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
    }

    #[test]
    fn types_and_lengths() {
        assert!(EtherType(0x05dc).is_length());
        assert!(!EtherType::IPV4.is_length());
        assert_eq!(EtherType(0x88cc).to_string(), "0x88cc");
    }
}
