//! Neighbour discovery (RFC 4861): the targets, flags and link-layer addresses of its five
//! messages. Bora's kernel speaks it; Bora only watches and checks.

use core::fmt;
use core::net::Ipv6Addr;

use crate::icmpv6::Type;
use crate::{Error, MacAddr, field};

const TYPE: usize = 0;
const FLAGS: usize = 4;
const HOP_LIMIT: usize = 4;
const RA_FLAGS: usize = 5;
const ROUTER_LIFETIME: usize = 6;
const TARGET: usize = 8;
const DESTINATION: usize = 24;

/// The only hop limit a message may arrive with: it proves that no router passed it on
/// (RFC 4861 3.1). Checking it is up to whoever has the IPv6 header.
pub const HOP_LIMIT_REQUIRED: u8 = 255;

/// Flags of a neighbour advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NeighbourFlags {
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation.
    pub solicited: bool,
    /// It replaces a link-layer address already known.
    pub overrides: bool,
}

/// Flags of a router advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouterFlags {
    /// Addresses come from DHCPv6.
    pub managed: bool,
    /// Other configuration comes from DHCPv6.
    pub other: bool,
}

/// A view of a neighbour discovery message: the buffer is exactly the ICMPv6 message.
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

    /// A view of a message of one of the five types whose fixed part is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::UnknownType`] for any other ICMPv6 message.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Packet { buffer };
        let available = packet.buffer.as_ref().len();
        if available == 0 {
            return Err(Error::Truncated);
        }
        let fixed = packet.fixed_len().ok_or(Error::UnknownType)?;
        if available < fixed {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Length of what stands in front of the options.
    fn fixed_len(&self) -> Option<usize> {
        match self.kind() {
            Type::ROUTER_SOLICITATION => Some(8),
            Type::ROUTER_ADVERTISEMENT => Some(16),
            Type::NEIGHBOUR_SOLICITATION | Type::NEIGHBOUR_ADVERTISEMENT => Some(24),
            Type::REDIRECT => Some(40),
            _ => None,
        }
    }

    /// Which of the five messages it is.
    #[inline]
    pub fn kind(&self) -> Type {
        Type(field::u8(self.buffer.as_ref(), TYPE))
    }

    /// The address asked about or told of, or the better first hop of a redirect; unspecified in
    /// router messages, which have none.
    pub fn target(&self) -> Ipv6Addr {
        match self.kind() {
            Type::NEIGHBOUR_SOLICITATION | Type::NEIGHBOUR_ADVERTISEMENT | Type::REDIRECT => {
                Ipv6Addr::from(field::array::<16>(self.buffer.as_ref(), TARGET))
            }
            _ => Ipv6Addr::UNSPECIFIED,
        }
    }

    /// The destination a redirect is about, and unspecified in other messages.
    pub fn destination(&self) -> Ipv6Addr {
        match self.kind() {
            Type::REDIRECT => Ipv6Addr::from(field::array::<16>(self.buffer.as_ref(), DESTINATION)),
            _ => Ipv6Addr::UNSPECIFIED,
        }
    }

    /// The flags, of a neighbour advertisement.
    pub fn neighbour_flags(&self) -> Option<NeighbourFlags> {
        if self.kind() != Type::NEIGHBOUR_ADVERTISEMENT {
            return None;
        }
        let bits = field::u8(self.buffer.as_ref(), FLAGS);
        Some(NeighbourFlags {
            router: bits & 0x80 != 0,
            solicited: bits & 0x40 != 0,
            overrides: bits & 0x20 != 0,
        })
    }

    /// The flags, of a router advertisement.
    pub fn router_flags(&self) -> Option<RouterFlags> {
        if self.kind() != Type::ROUTER_ADVERTISEMENT {
            return None;
        }
        let bits = field::u8(self.buffer.as_ref(), RA_FLAGS);
        Some(RouterFlags {
            managed: bits & 0x80 != 0,
            other: bits & 0x40 != 0,
        })
    }

    /// The hop limit hosts are told to send with (zero: not told), of a router advertisement.
    pub fn advertised_hop_limit(&self) -> Option<u8> {
        let data = self.buffer.as_ref();
        (self.kind() == Type::ROUTER_ADVERTISEMENT).then(|| field::u8(data, HOP_LIMIT))
    }

    /// For how many seconds the sender is a default router, of a router advertisement.
    pub fn router_lifetime(&self) -> Option<u16> {
        let data = self.buffer.as_ref();
        (self.kind() == Type::ROUTER_ADVERTISEMENT).then(|| field::u16(data, ROUTER_LIFETIME))
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'_> {
        let fixed = self.fixed_len().unwrap_or(usize::MAX);
        Options {
            rest: self.buffer.as_ref().get(fixed..).unwrap_or(&[]),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ND {}", self.kind())?;
        match self.kind() {
            Type::ROUTER_SOLICITATION | Type::ROUTER_ADVERTISEMENT => Ok(()),
            _ => write!(f, " {}", self.target()),
        }
    }
}

/// An option of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opt<'a> {
    /// Link-layer address of the sender.
    SourceLinkLayer(MacAddr),
    /// Link-layer address of the target.
    TargetLinkLayer(MacAddr),
    /// Any other: its type, and what follows type and length.
    Other(u8, &'a [u8]),
}

/// The options of a message in their order. After an error there is nothing more.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        // The length counts units of eight bytes; zero is forbidden (RFC 4861 4.6).
        let len = match field::u8(self.rest, 1) {
            0 => usize::MAX,
            units => usize::from(units) * 8,
        };
        let Some((option, rest)) = self.rest.split_at_checked(len) else {
            self.rest = &[];
            return Some(Err(Error::BadOption));
        };
        self.rest = rest;
        // An Ethernet address fills one unit (RFC 2464 6).
        Some(Ok(match (field::u8(option, 0), len) {
            (1, 8) => Opt::SourceLinkLayer(MacAddr(field::array(option, 2))),
            (2, 8) => Opt::TargetLinkLayer(MacAddr(field::array(option, 2))),
            (kind, _) => Opt::Other(kind, option.get(2..).unwrap_or(&[])),
        }))
    }
}

impl core::iter::FusedIterator for Options<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// What scapy sends: type, code, checksum and four bytes; addresses; one option.
    fn message(head: [u8; 8], addresses: &[[u8; 16]], option: u8) -> Vec<u8> {
        let mut bytes = head.to_vec();
        bytes.extend(addresses.iter().flatten());
        bytes.extend([option, 1, 2, 0, 0, 0, 0, 1]);
        bytes
    }

    fn link_local(last: u8) -> [u8; 16] {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
    }

    fn solicitation() -> Vec<u8> {
        message([135, 0, 0x7a, 0x97, 0, 0, 0, 0], &[link_local(2)], 1)
    }

    fn router_advertisement() -> Vec<u8> {
        let mut bytes = std::vec![134, 0, 0x31, 0xd5, 0x40, 0x48, 0x07, 0x08];
        bytes.extend([0; 8]);
        bytes.extend([1, 1, 2, 0, 0, 0, 0, 1]);
        bytes
    }

    #[test]
    fn neighbour_solicitation() {
        let packet = Packet::new_checked(solicitation()).unwrap();
        assert_eq!(packet.kind(), Type::NEIGHBOUR_SOLICITATION);
        assert_eq!(packet.target(), Ipv6Addr::from(link_local(2)));
        assert_eq!(
            (packet.neighbour_flags(), packet.router_flags()),
            (None, None)
        );
        assert_eq!(
            packet.options().collect::<Vec<_>>(),
            [Ok(Opt::SourceLinkLayer(ROUTER))]
        );
        assert_eq!(packet.to_string(), "ND neighbour solicitation fe80::2");
    }

    #[test]
    fn neighbour_advertisement() {
        let head = [136, 0, 0x98, 0x1b, 0xe0, 0, 0, 0];
        let packet = Packet::new_checked(message(head, &[link_local(1)], 2)).unwrap();
        let flags = packet.neighbour_flags().unwrap();
        assert!(flags.router && flags.solicited && flags.overrides);
        assert_eq!(
            packet.options().collect::<Vec<_>>(),
            [Ok(Opt::TargetLinkLayer(ROUTER))]
        );
        let mut bytes = packet.buffer;
        bytes[4] = 0x40;
        let flags = Packet::new_checked(bytes)
            .unwrap()
            .neighbour_flags()
            .unwrap();
        assert!(!flags.router && flags.solicited && !flags.overrides);
    }

    #[test]
    fn router_messages() {
        let packet = Packet::new_checked(router_advertisement()).unwrap();
        let flags = RouterFlags {
            managed: false,
            other: true,
        };
        assert_eq!(packet.router_flags(), Some(flags));
        assert_eq!(packet.advertised_hop_limit(), Some(64));
        assert_eq!(packet.router_lifetime(), Some(1800));
        assert_eq!(packet.target(), Ipv6Addr::UNSPECIFIED);
        assert_eq!(
            packet.options().next(),
            Some(Ok(Opt::SourceLinkLayer(ROUTER)))
        );
        let solicitation = message([133, 0, 0x7a, 0x2c, 0, 0, 0, 0], &[], 1);
        let packet = Packet::new_checked(solicitation).unwrap();
        assert_eq!(
            (packet.router_lifetime(), packet.advertised_hop_limit()),
            (None, None)
        );
        assert_eq!(
            packet.options().next(),
            Some(Ok(Opt::SourceLinkLayer(ROUTER)))
        );
        assert_eq!(packet.to_string(), "ND router solicitation");
    }

    #[test]
    fn redirect() {
        let head = [137, 0, 0x4c, 0x54, 0, 0, 0, 0];
        let bytes = message(head, &[link_local(2), link_local(9)], 2);
        let packet = Packet::new_checked(&bytes[..40]).unwrap();
        assert_eq!(packet.target(), Ipv6Addr::from(link_local(2)));
        assert_eq!(packet.destination(), Ipv6Addr::from(link_local(9)));
        assert_eq!(packet.options().next(), None);
        assert_eq!(Packet::new_checked(&bytes[..39]), Err(Error::Truncated));
    }

    #[test]
    fn every_refusal() {
        let bytes = solicitation();
        assert_eq!(Packet::new_checked(&bytes[..23]), Err(Error::Truncated));
        assert_eq!(
            Packet::new_checked(&router_advertisement()[..15]),
            Err(Error::Truncated)
        );
        assert_eq!(Packet::new_checked(&[133][..]), Err(Error::Truncated));
        assert_eq!(Packet::new_checked(&[][..]), Err(Error::Truncated));
        assert_eq!(Packet::new_checked(&[128; 64][..]), Err(Error::UnknownType));
        for (units, len) in [(0, 32), (2, 32), (1, 31)] {
            let mut bytes = bytes.clone();
            bytes[25] = units;
            let packet = Packet::new_checked(&bytes[..len]).unwrap();
            let options: Vec<_> = packet.options().collect();
            assert_eq!(
                options,
                [Err(Error::BadOption)],
                "{units} units in {len} bytes"
            );
        }
    }

    #[test]
    fn other_options() {
        let mut bytes = solicitation();
        bytes.extend([1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // not an Ethernet address
        let packet = Packet::new_checked(bytes).unwrap();
        assert_eq!(packet.options().nth(1), Some(Ok(Opt::Other(1, &[0; 14]))));
    }
}
