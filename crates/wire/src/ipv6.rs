//! IPv6 (RFC 8200): the fixed header, and a walk over extension headers that always ends.

use core::fmt;
use core::net::Ipv6Addr;

use crate::field;
use crate::{Error, Protocol};

const VERSION_CLASS_FLOW: usize = 0;
const PAYLOAD_LEN: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: usize = 8;
const DST: usize = 24;

const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;

/// Every link carries packets of this size (RFC 8200 5).
pub const MIN_MTU: usize = 1280;

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

    /// The buffer back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn version_class_flow(&self) -> u32 {
        field::u32(self.buffer.as_ref(), VERSION_CLASS_FLOW)
    }

    /// The version field; 6 after `new_checked`.
    #[inline]
    pub fn version(&self) -> u8 {
        field::u8(self.buffer.as_ref(), VERSION_CLASS_FLOW) >> 4
    }

    /// The whole traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow() >> 20) as u8
    }

    /// The differentiated services code point, 0..=63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// The ECN field, 0..=3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 0x03
    }

    /// The flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow() & FLOW_LABEL_MASK
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
    /// Sets version 6, traffic class and flow label (its lower 20 bits).
    #[inline]
    pub fn set_traffic_class_and_flow_label(&mut self, traffic_class: u8, flow_label: u32) {
        let value = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & FLOW_LABEL_MASK;
        field::put_u32(self.buffer.as_mut(), VERSION_CLASS_FLOW, value);
    }

    /// Sets the payload length, in bytes.
    #[inline]
    pub fn set_payload_len(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), PAYLOAD_LEN, value);
    }

    /// Sets what follows.
    #[inline]
    pub fn set_next_header(&mut self, value: Protocol) {
        field::put_u8(self.buffer.as_mut(), NEXT_HEADER, value.0);
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, value: u8) {
        field::put_u8(self.buffer.as_mut(), HOP_LIMIT, value);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, value: Ipv6Addr) {
        field::put(self.buffer.as_mut(), SRC, value.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, value: Ipv6Addr) {
        field::put(self.buffer.as_mut(), DST, value.octets());
    }

    /// Takes one from the hop limit, stopping at zero.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        self.set_hop_limit(self.hop_limit().saturating_sub(1));
    }

    /// What follows the fixed header, to write to, without padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..self.total_len();
        field::slice_mut(self.buffer.as_mut(), range)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src(), self.dst(), self.next_header())?;
        write!(
            f,
            " hop limit {} len {}",
            self.hop_limit(),
            self.total_len()
        )
    }
}

/// What a fragment header says (RFC 8200 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where in the original the data belongs, in bytes (a multiple of 8).
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
    /// Identification shared by the fragments.
    pub ident: u32,
}

impl Fragment {
    /// Whether the packet is whole in spite of its fragment header (RFC 6946).
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// What a routing header says (RFC 8200 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Routing {
    /// Routing type; type 0 is forbidden (RFC 5095).
    pub kind: u8,
    /// Listed nodes still to be visited.
    pub segments_left: u8,
}

/// What a walk over the extension headers found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpperLayer {
    /// The first header that is not an extension header Bora knows: the upper layer, or one that
    /// hides it (ESP), or [`Protocol::NO_NEXT_HEADER`].
    pub protocol: Protocol,
    /// Where that header starts, in bytes from the start of the payload. In a fragment that is not
    /// the first, a piece of data stands there and no header.
    pub offset: usize,
    /// Whether there are hop-by-hop options.
    pub hop_by_hop: bool,
    /// The first routing header, if there is one.
    pub routing: Option<Routing>,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
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
            hop_by_hop: false,
            routing: None,
            fragment: None,
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
        match self.protocol {
            Protocol::HOP_BY_HOP => self.hop_by_hop = true,
            Protocol::ROUTING if self.routing.is_none() => {
                self.routing = Some(Routing {
                    kind: header[2],
                    segments_left: header[3],
                });
            }
            Protocol::FRAGMENT if self.fragment.is_none() => {
                let word = field::u16(header, 2);
                self.fragment = Some(Fragment {
                    offset: word & 0xfff8,
                    more: word & 1 != 0,
                    ident: field::u32(header, 4),
                });
            }
            _ => {}
        }
        self.protocol = Protocol(header[0]);
        self.offset += len;
        // Behind the header of a later fragment stands data, whatever its next header says.
        Ok(self.fragment.is_none_or(|fragment| fragment.offset == 0))
    }
}

/// The values of an IPv6 fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DSCP and ECN together.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Length of the payload in bytes, extension headers included.
    pub payload_len: u16,
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
    /// Reads a checked packet's header.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            src: packet.src(),
            dst: packet.dst(),
        }
    }

    /// Writes the header at the start of `buffer`, which has to hold the payload too. The payload
    /// itself is not touched.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the buffer is shorter than header and payload.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        if buffer.len() < HEADER_LEN + usize::from(self.payload_len) {
            return Err(Error::Truncated);
        }
        let mut packet = Packet::new_unchecked(buffer);
        packet.set_traffic_class_and_flow_label(self.traffic_class, self.flow_label);
        packet.set_payload_len(self.payload_len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        Ok(())
    }
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
