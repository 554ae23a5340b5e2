//! VLAN tags: 802.1Q customer tags, priority tags, and 802.1ad service tags around them.

pub use crate::ethernet::Tci;

use crate::ethernet::{self, EtherType, Frame};
use crate::{Error, field};

const TCI: usize = 0;
const ETHERTYPE: usize = 2;

/// Length of a tag: what stands between the EtherType that announces it and the next header.
pub const HEADER_LEN: usize = ethernet::TAG_LEN;

/// How many tags are walked through before a frame is refused: a service and a customer tag.
pub const MAX_TAGS: usize = 2;

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

/// What stands behind a frame's tags, if it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Untagged {
    /// The outermost tag.
    pub tci: Option<Tci>,
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
            tci: None,
            ethertype: frame.ethertype(),
            offset: ethernet::HEADER_LEN,
        };
        let mut rest = frame.payload();
        for _ in 0..=MAX_TAGS {
            if !matches!(found.ethertype, EtherType::VLAN | EtherType::QINQ) {
                return Ok(found);
            }
            let (tag, payload) = rest
                .split_first_chunk::<HEADER_LEN>()
                .ok_or(Error::Truncated)?;
            let tag = Packet::new_unchecked(tag);
            found.tci = found.tci.or(Some(tag.tci()));
            found.ethertype = tag.ethertype();
            found.offset += HEADER_LEN;
            rest = payload;
        }
        Err(Error::TooManyHeaders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn reads_a_tag() {
        let packet = Packet::new_checked(TAG).unwrap();
        let tci = packet.tci();
        assert_eq!((tci.pcp(), tci.vid()), (5, 100));
        assert_eq!(tci, Tci::new(5, 100));
        assert_eq!(packet.ethertype(), EtherType::IPV4);
        assert_eq!(packet.payload(), &[0x45, 0]);
        assert_eq!(Packet::new_checked(&TAG[..3]), Err(Error::Truncated));
    }

    #[test]
    fn untagged_is_its_own_inside() {
        let found = find(&[0x86, 0xdd, 0x60]).unwrap();
        assert_eq!(found.tci, None);
        assert_eq!((found.ethertype, found.offset), (EtherType::IPV6, 14));
    }

    #[test]
    fn one_tag_and_two() {
        let found = find(&[0x81, 0x00, 0x60, 0x00, 0x08, 0x00]).unwrap();
        assert_eq!(found.tci, Some(Tci::new(3, 0)));
        assert_eq!((found.ethertype, found.offset), (EtherType::IPV4, 18));
        let found = find(&[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x09, 0x08, 0x06]).unwrap();
        assert_eq!(found.tci, Some(Tci(7)));
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
