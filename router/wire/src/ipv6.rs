//! IPv6 (RFC 8200): the fixed header, and a walk over extension headers that always ends.

use core::net::Ipv6Addr;

use crate::field;
use crate::{Error, Protocol};

const VERSION_CLASS_FLOW: usize = 0;
const PAYLOAD_LEN: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: usize = 8;
const DST: usize = 24;

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;

/// How many extension headers are walked through before a packet is refused. RFC 8200 4.1 knows
/// of seven places for one.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// A view of an IPv6 packet, in a buffer that may be longer (Ethernet padding).
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

    /// A view of a packet whose fixed header is sound. Extension headers are not looked at:
    /// [`Packet::upper_layer`] does.
    ///
    /// A jumbogram (RFC 2675) has payload length zero, and so no payload here.
    ///
    /// # Errors
    /// [`Error::Truncated`] if header or payload length reach beyond the buffer,
    /// [`Error::BadVersion`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Packet { buffer };
        let available = packet.buffer.as_ref().len();
        if available < HEADER_LEN {
            return Err(Error::Truncated);
        }
        if packet.version() != 6 {
            return Err(Error::BadVersion);
        }
        if packet.total_len() > available {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// The version field; 6 after `new_checked`.
    #[inline]
    pub fn version(&self) -> u8 {
        field::u8(self.buffer.as_ref(), VERSION_CLASS_FLOW) >> 4
    }

    /// The whole traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (field::u32(self.buffer.as_ref(), VERSION_CLASS_FLOW) >> 20) as u8
    }

    /// The differentiated services code point, 0..=63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Length of what follows the fixed header, extension headers included, in bytes.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        field::u16(self.buffer.as_ref(), PAYLOAD_LEN)
    }

    /// Length of fixed header and payload, in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the fixed header: an extension header or the upper layer.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(field::u8(self.buffer.as_ref(), NEXT_HEADER))
    }

    /// Hops left.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        field::u8(self.buffer.as_ref(), HOP_LIMIT)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array::<16>(self.buffer.as_ref(), SRC))
    }

    /// Destination address; with a routing header, the next one on the way.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array::<16>(self.buffer.as_ref(), DST))
    }

    /// Everything behind the fixed header, without the padding of a short Ethernet frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        field::slice(self.buffer.as_ref(), HEADER_LEN..self.total_len())
    }

    /// Walks the extension headers to the upper layer.
    ///
    /// # Errors
    /// [`Error::Truncated`] if one reaches beyond the payload, [`Error::TooManyHeaders`] beyond
    /// [`MAX_EXTENSION_HEADERS`].
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer, Error> {
        UpperLayer::find(self.next_header(), self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Takes one from the hop limit, stopping at zero.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        let hops = self.hop_limit().saturating_sub(1);
        field::put_u8(self.buffer.as_mut(), HOP_LIMIT, hops);
    }

    /// What follows the fixed header, to write to, without padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..self.total_len();
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

/// What a walk over the extension headers found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpperLayer {
    /// The first header that is not an extension header Bora knows: the upper layer, or one that
    /// hides it (ESP), or "no next header".
    pub protocol: Protocol,
    /// Where that header starts, in bytes from the start of the payload. In a fragment that is not
    /// the first, a piece of data stands there and no header.
    pub offset: usize,
    /// Where in the original the data belongs, in bytes, if there is a fragment header.
    pub fragment_offset: Option<u16>,
}

impl UpperLayer {
    /// The walk itself: `first` is the next header of the fixed header, `payload` what follows it.
    ///
    /// # Errors
    /// As for [`Packet::upper_layer`].
    #[inline]
    pub fn find(first: Protocol, payload: &[u8]) -> Result<UpperLayer, Error> {
        let mut found = UpperLayer {
            protocol: first,
            offset: 0,
            fragment_offset: None,
        };
        for _ in 0..=MAX_EXTENSION_HEADERS {
            if !found.step(payload)? {
                return Ok(found);
            }
        }
        Err(Error::TooManyHeaders)
    }

    /// Moves over one extension header, or says that there is none.
    fn step(&mut self, payload: &[u8]) -> Result<bool, Error> {
        if !matches!(
            self.protocol,
            Protocol::HOP_BY_HOP
                | Protocol::ROUTING
                | Protocol::FRAGMENT
                | Protocol::AH
                | Protocol::DESTINATION_OPTIONS
        ) {
            return Ok(false);
        }
        let rest = payload.get(self.offset..).unwrap_or(&[]);
        // No extension header is shorter than eight bytes.
        let header: &[u8; 8] = rest.first_chunk().ok_or(Error::Truncated)?;
        let len = match self.protocol {
            Protocol::FRAGMENT => 8,
            // RFC 4302 2.2: in words of four bytes, minus two.
            Protocol::AH => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if len > rest.len() {
            return Err(Error::Truncated);
        }
        if self.protocol == Protocol::FRAGMENT && self.fragment_offset.is_none() {
            self.fragment_offset = Some(field::u16(header, 2) & 0xfff8);
        }
        self.protocol = Protocol(header[0]);
        self.offset += len;
        // Behind the header of a later fragment stands data, whatever its next header says.
        Ok(self.fragment_offset.is_none_or(|offset| offset == 0))
    }
}

/// The values of an IPv6 fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DSCP and ECN together.
    pub traffic_class: u8,
    /// Flow label, 20 bits (RFC 6437).
    pub flow_label: u32,
    /// What follows.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Repr {
    /// Writes the header at the start of `buffer`; all behind it is the payload, and returned.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit, [`Error::BadTotalLength`] for a payload above 65535
    /// bytes.
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let (header, payload) = buffer
            .split_first_chunk_mut::<HEADER_LEN>()
            .ok_or(Error::Truncated)?;
        let payload_len = u16::try_from(payload.len()).map_err(|_| Error::BadTotalLength)?;
        let version_class_flow =
            6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        field::put_u32(header, VERSION_CLASS_FLOW, version_class_flow);
        field::put_u16(header, PAYLOAD_LEN, payload_len);
        field::put(header, NEXT_HEADER, [self.next_header.0, self.hop_limit]);
        field::put(header, SRC, self.src.octets());
        field::put(header, DST, self.dst.octets());
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;
