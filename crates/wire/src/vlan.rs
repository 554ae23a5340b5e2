//! VLAN tags: 802.1Q customer tags, priority tags, and 802.1ad service tags around them.

use core::fmt;

use crate::ethernet::{EtherType, Frame, HEADER_LEN as ETHERNET_HEADER_LEN};
use crate::{Error, field};

const TCI: usize = 0;
const ETHERTYPE: usize = 2;

/// Length of a tag: what stands between the EtherType that announces it and the next header.
pub const HEADER_LEN: usize = 4;

/// How many tags are walked through before a frame is refused: a service and a customer tag.
pub const MAX_TAGS: usize = 2;

/// Tag control information: priority, drop eligibility and VLAN identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tci(pub u16);

impl Tci {
    /// Puts the three fields together: `pcp` is 0..=7 and `vid` 0..=4095, more bits are cut off.
    #[must_use]
    pub const fn new(pcp: u8, dei: bool, vid: u16) -> Tci {
        Tci((pcp as u16) << 13 | (dei as u16) << 12 | vid & 0x0fff)
    }

    /// Priority code point, 0..=7.
    #[inline]
    #[must_use]
    pub const fn pcp(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    #[must_use]
    pub const fn dei(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// VLAN identifier, 0..=4095.
    #[inline]
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.0 & 0x0fff
    }

    /// Whether the tag gives a priority and no VLAN: the frame belongs to the untagged one.
    #[inline]
    #[must_use]
    pub const fn is_priority_tag(self) -> bool {
        self.vid() == 0
    }
}

impl fmt::Display for Tci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dei = if self.dei() { " dei" } else { "" };
        write!(f, "vlan {} pcp {}{dei}", self.vid(), self.pcp())
    }
}

/// A view of a tag and what it wraps: the payload of a frame, or of a tag, whose EtherType is
/// [`EtherType::VLAN`] or [`EtherType::QINQ`].
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

    /// A view of a tag that is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`HEADER_LEN`] bytes.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Packet { buffer })
    }

    /// Priority and VLAN.
    #[inline]
    pub fn tci(&self) -> Tci {
        Tci(field::u16(self.buffer.as_ref(), TCI))
    }

    /// What follows: a protocol, or another tag.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(field::u16(self.buffer.as_ref(), ETHERTYPE))
    }

    /// Everything behind the tag, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(HEADER_LEN..).unwrap_or(&[])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets priority and VLAN.
    #[inline]
    pub fn set_tci(&mut self, value: Tci) {
        field::put_u16(self.buffer.as_mut(), TCI, value.0);
    }

    /// Sets what follows.
    #[inline]
    pub fn set_ethertype(&mut self, value: EtherType) {
        field::put_u16(self.buffer.as_mut(), ETHERTYPE, value.0);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tci(), self.ethertype())
    }
}

/// The values of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority and VLAN.
    pub tci: Tci,
    /// What follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a tag.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            tci: packet.tci(),
            ethertype: packet.ethertype(),
        }
    }

    /// Writes the tag at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut packet = Packet::new_checked(buffer)?;
        packet.set_tci(self.tci);
        packet.set_ethertype(self.ethertype);
        Ok(())
    }
}

/// What stands behind a frame's tags, if it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Untagged {
    /// The outermost tag and the EtherType that announced it.
    pub outer: Option<(EtherType, Tci)>,
    /// The tag inside it.
    pub inner: Option<(EtherType, Tci)>,
    /// What follows the last tag.
    pub ethertype: EtherType,
    /// Where that starts, in bytes from the start of the frame.
    pub offset: usize,
}

impl Untagged {
    /// Looks behind the tags of a checked frame.
    ///
    /// # Errors
    /// [`Error::Truncated`] if a tag is cut off, [`Error::TooManyHeaders`] beyond [`MAX_TAGS`].
    #[inline]
    pub fn find<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Untagged, Error> {
        let mut found = Untagged {
            outer: None,
            inner: None,
            ethertype: frame.ethertype(),
            offset: ETHERNET_HEADER_LEN,
        };
        let mut rest = frame.payload();
        while matches!(found.ethertype, EtherType::VLAN | EtherType::QINQ) {
            if found.inner.is_some() {
                return Err(Error::TooManyHeaders);
            }
            let (tag, payload) = rest
                .split_first_chunk::<HEADER_LEN>()
                .ok_or(Error::Truncated)?;
            let tag = Packet::new_unchecked(tag);
            let here = Some((found.ethertype, tag.tci()));
            if found.outer.is_none() {
                found.outer = here;
            } else {
                found.inner = here;
            }
            found.ethertype = tag.ethertype();
            found.offset += HEADER_LEN;
            rest = payload;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// Priority 5, VLAN 100, IPv4 inside.
    const TAG: [u8; 6] = [0xa0, 0x64, 0x08, 0x00, 0x45, 0x00];

    fn frame(behind_addresses: &[u8]) -> Vec<u8> {
        let mut bytes = std::vec![0x02; 12];
        bytes.extend(behind_addresses);
        bytes
    }

    fn find(behind_addresses: &[u8]) -> Result<Untagged, Error> {
        Untagged::find(&Frame::new_checked(frame(behind_addresses)).unwrap())
    }

    #[test]
    fn reads_and_emits() {
        let packet = Packet::new_checked(TAG).unwrap();
        let tci = packet.tci();
        assert_eq!((tci.pcp(), tci.dei(), tci.vid()), (5, false, 100));
        assert!(!tci.is_priority_tag());
        assert_eq!(packet.ethertype(), EtherType::IPV4);
        assert_eq!(packet.payload(), &[0x45, 0]);
        assert_eq!(packet.to_string(), "vlan 100 pcp 5 IPv4");
        let mut out = [0; 4];
        Repr::parse(&packet).emit(&mut out).unwrap();
        assert_eq!(out, TAG[..4]);
        assert_eq!(
            Repr::parse(&packet).emit(&mut out[..3]),
            Err(Error::Truncated)
        );
        assert_eq!(Packet::new_checked(&TAG[..3]), Err(Error::Truncated));
    }

    #[test]
    fn control_information() {
        let tci = Tci::new(7, true, 0x0fff);
        assert_eq!(tci, Tci(0xffff));
        assert_eq!(tci.to_string(), "vlan 4095 pcp 7 dei");
        assert!(Tci::new(3, false, 0).is_priority_tag());
    }

    #[test]
    fn untagged_is_its_own_inside() {
        let found = find(&[0x86, 0xdd, 0x60]).unwrap();
        assert_eq!((found.outer, found.inner), (None, None));
        assert_eq!((found.ethertype, found.offset), (EtherType::IPV6, 14));
    }

    #[test]
    fn one_tag_and_two() {
        let found = find(&[0x81, 0x00, 0x60, 0x00, 0x08, 0x00]).unwrap();
        assert_eq!(found.outer, Some((EtherType::VLAN, Tci::new(3, false, 0))));
        assert_eq!(found.inner, None);
        assert_eq!((found.ethertype, found.offset), (EtherType::IPV4, 18));
        let found = find(&[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x09, 0x08, 0x06]).unwrap();
        assert_eq!(found.outer, Some((EtherType::QINQ, Tci(7))));
        assert_eq!(found.inner, Some((EtherType::VLAN, Tci(9))));
        assert_eq!((found.ethertype, found.offset), (EtherType::ARP, 22));
    }

    #[test]
    fn cut_off_and_too_many() {
        assert_eq!(find(&[0x81, 0x00, 0x60, 0x00, 0x08]), Err(Error::Truncated));
        let tags = [
            0x81, 0x00, 0x00, 0x01, 0x81, 0x00, 0x00, 0x02, 0x81, 0x00, 0x00, 0x03, 8, 0,
        ];
        assert_eq!(find(&tags), Err(Error::TooManyHeaders));
        assert_eq!(find(&tags[..8]), Err(Error::Truncated));
    }
}
