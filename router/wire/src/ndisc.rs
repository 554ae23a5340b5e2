//! Neighbour discovery (RFC 4861): who has an IPv6 address, and the answer.

use core::net::Ipv6Addr;

use crate::checksum::{self, Transport};
use crate::{Error, MacAddr, Protocol, field};

const TYPE: usize = 0;
const FLAGS: usize = 4;
const TARGET: usize = 8;
const OPTIONS: usize = 24;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Length of a message with a link-layer address.
pub const LEN: usize = OPTIONS + 8;

/// The only hop limit a message may arrive with: it proves that no router passed it on (RFC 4861 3.1). The
/// caller, which has the IPv6 header, checks it.
pub const HOP_LIMIT: u8 = 255;

/// The group of all nodes on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group in which the host that has an address is asked for (RFC 4291 2.7.1).
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// Which message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Who has the target?
    Solicitation,
    /// The sender has it.
    Advertisement {
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces a link-layer address already known.
        overrides: bool,
    },
}

/// The values of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Question or answer.
    pub kind: Kind,
    /// The address asked about or told of.
    pub target: Ipv6Addr,
    /// Link-layer address of the host that asks, or of the target; a host that only wants to know whether an
    /// address is free asks without.
    pub mac: Option<MacAddr>,
}

impl Repr {
    /// Reads a message: the whole payload of an IPv6 packet from `src` to `dst`. What follows an
    /// option of an impossible length is not looked at.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::UnknownType`] for any other ICMPv6 message,
    /// [`Error::BadChecksum`].
    pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Result<Repr, Error> {
        let flags = field::u8(message, FLAGS);
        let (kind, option) = match *message.first().ok_or(Error::Truncated)? {
            SOLICITATION => (Kind::Solicitation, SOURCE_LINK_LAYER),
            ADVERTISEMENT => {
                let kind = Kind::Advertisement {
                    solicited: flags & SOLICITED != 0,
                    overrides: flags & OVERRIDE != 0,
                };
                (kind, TARGET_LINK_LAYER)
            }
            _ => return Err(Error::UnknownType),
        };
        let options = message.get(OPTIONS..).ok_or(Error::Truncated)?;
        if checksum::transport_v6(src, dst, Protocol::ICMPV6, message) != Transport::Valid {
            return Err(Error::BadChecksum);
        }
        Ok(Repr {
            kind,
            target: Ipv6Addr::from(field::array(message, TARGET)),
            mac: link_layer(option, options),
        })
    }

    /// Writes a message and its checksum into `buffer`, which is the payload of a packet from `src`
    /// to `dst`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit, [`Error::BadTotalLength`] beyond 65535 bytes.
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, buffer: &mut [u8]) -> Result<(), Error> {
        if buffer.len() < OPTIONS + self.mac.map_or(0, |_| LEN - OPTIONS) {
            return Err(Error::Truncated);
        }
        buffer.fill(0);
        let (kind, flags, option) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_LAYER),
            Kind::Advertisement {
                solicited,
                overrides,
            } => {
                let solicited = if solicited { SOLICITED } else { 0 };
                let overrides = if overrides { OVERRIDE } else { 0 };
                (ADVERTISEMENT, solicited | overrides, TARGET_LINK_LAYER)
            }
        };
        field::put_u8(buffer, TYPE, kind);
        field::put_u8(buffer, FLAGS, flags);
        field::put(buffer, TARGET, self.target.octets());
        if let Some(mac) = self.mac {
            field::put(buffer, OPTIONS, [option, 1]);
            field::put(buffer, OPTIONS + 2, mac.0);
        }
        checksum::fill_transport_v6(src, dst, Protocol::ICMPV6, buffer)
    }
}

/// The Ethernet address in the first option of type `kind` that has one.
fn link_layer(kind: u8, mut options: &[u8]) -> Option<MacAddr> {
    loop {
        // The length counts units of eight bytes; zero is forbidden (RFC 4861 4.6).
        let units = usize::from(*options.get(1)?);
        let (option, rest) = options.split_at_checked(units * 8)?;
        match option {
            [] => return None,
            // An Ethernet address fills one unit (RFC 2464 6).
            [first, 1, ..] if *first == kind => return Some(MacAddr(field::array(option, 2))),
            _ => options = rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const HERE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const THERE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

    /// What scapy sends: type, code, checksum and four bytes; target; one option.
    fn message(head: [u8; 8], target: Ipv6Addr, option: u8) -> Vec<u8> {
        let mut bytes = head.to_vec();
        bytes.extend(target.octets());
        bytes.extend([option, 1, 2, 0, 0, 0, 0, 1]);
        bytes
    }

    fn solicitation() -> Vec<u8> {
        message([135, 0, 0x7a, 0x97, 0, 0, 0, 0], THERE, 1)
    }

    fn advertisement() -> Vec<u8> {
        message([136, 0, 0x98, 0x1b, 0xe0, 0, 0, 0], HERE, 2)
    }

    /// The message with a right checksum, as read.
    fn repaired(mut bytes: Vec<u8>) -> Result<Repr, Error> {
        checksum::fill_transport_v6(HERE, THERE, Protocol::ICMPV6, &mut bytes).unwrap();
        Repr::parse(HERE, THERE, &bytes)
    }

    #[test]
    fn reads_and_writes_a_solicitation() {
        let asked = Repr {
            kind: Kind::Solicitation,
            target: THERE,
            mac: Some(ROUTER),
        };
        let group = solicited_node(THERE);
        assert_eq!(Repr::parse(HERE, group, &solicitation()), Ok(asked));
        let mut out = [0xee; LEN];
        asked.emit(HERE, group, &mut out).unwrap();
        assert_eq!(out[..], solicitation());
        let probe = Repr { mac: None, ..asked };
        let mut out = [0xee; OPTIONS];
        probe.emit(HERE, group, &mut out).unwrap();
        assert_eq!(Repr::parse(HERE, group, &out), Ok(probe));
        assert_eq!(asked.emit(HERE, group, &mut out), Err(Error::Truncated));
    }

    #[test]
    fn reads_and_writes_an_advertisement() {
        let told = |solicited, overrides| Repr {
            kind: Kind::Advertisement {
                solicited,
                overrides,
            },
            target: HERE,
            mac: Some(ROUTER),
        };
        assert_eq!(repaired(advertisement()), Ok(told(true, true)));
        for (flags, solicited, overrides) in
            [(0, false, false), (0x40, true, false), (0x20, false, true)]
        {
            let mut bytes = advertisement();
            bytes[4] = flags;
            assert_eq!(repaired(bytes), Ok(told(solicited, overrides)));
            let mut out = [0; LEN];
            told(solicited, overrides)
                .emit(HERE, THERE, &mut out)
                .unwrap();
            assert_eq!(
                Repr::parse(HERE, THERE, &out),
                Ok(told(solicited, overrides))
            );
            assert_eq!(out[4], flags);
        }
    }

    #[test]
    fn every_refusal() {
        let parse = |bytes: &[u8]| Repr::parse(HERE, solicited_node(THERE), bytes);
        assert_eq!(parse(&[]), Err(Error::Truncated));
        assert_eq!(parse(&solicitation()[..23]), Err(Error::Truncated));
        assert_eq!(parse(&[134; 64]), Err(Error::UnknownType));
        for at in 1..LEN {
            let mut bytes = solicitation();
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes), Err(Error::BadChecksum), "byte {at}");
        }
    }

    #[test]
    fn options_of_all_lengths() {
        let mac = |bytes: Vec<u8>| repaired(bytes).unwrap().mac;
        for (units, len) in [(0, 32), (2, 32), (1, 31)] {
            let mut bytes = solicitation();
            bytes[25] = units;
            bytes.truncate(len);
            assert_eq!(mac(bytes), None, "{units} units in {len} bytes");
        }
        let mut behind = solicitation();
        behind.splice(24..24, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            mac(behind),
            Some(ROUTER),
            "the first is not an Ethernet address"
        );
        let mut wrong = solicitation();
        wrong[24] = 2;
        assert_eq!(mac(wrong), None, "of the target, in a question");
    }

    #[test]
    fn groups() {
        let address = "2001:db8::1234:5678".parse().unwrap();
        let group = solicited_node(address);
        assert_eq!(group, "ff02::1:ff34:5678".parse::<Ipv6Addr>().unwrap());
        assert_eq!(
            MacAddr::of_group(group),
            MacAddr([0x33, 0x33, 0xff, 0x34, 0x56, 0x78])
        );
    }
}
