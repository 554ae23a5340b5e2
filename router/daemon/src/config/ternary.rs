//! Ternary conditions of rules as text: a value, or `VALUE/MASK` with ones where bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use bora_forward::classify::Ternary;

use bora_config::{as_text, number};

/// An octet's condition of at most `bits` bits: a number, a name, or `0x12/0xf0`.
fn octet(text: &str, bits: u32, name: fn(&str) -> Option<u8>) -> Result<Ternary<u8>, String> {
    let all = (u8::MAX as u16 >> (8 - bits)) as u8;
    let part = |text: &str| match name(text) {
        Some(value) => Ok(value),
        None => match number::<u8>(text) {
            Ok(value) if value & !all == 0 => Ok(value),
            _ => Err(format!(
                "`{text}` is neither a known name nor a number from 0 to {all}"
            )),
        },
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (part(value)?, part(mask)?),
        None => (part(text)?, all),
    };
    if value & !mask != 0 {
        return Err(format!("`{text}`: the value has bits outside the mask"));
    }
    Ok(Ternary { value, mask })
}

/// Declares a condition on an octet: its bits, and its names if it has some.
macro_rules! octet_match {
    ($(#[$doc:meta])* $type:ident, $bits:literal, $name:expr, $shown:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $type(pub Ternary<u8>);

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                octet(text, $bits, $name).map(Self)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Ternary { value, mask } = self.0;
                let shown: fn(u8) -> Option<&'static str> = $shown;
                match (mask == (u8::MAX as u16 >> (8 - $bits)) as u8, shown(value)) {
                    (true, Some(name)) => f.write_str(name),
                    (true, None) => value.fmt(f),
                    (false, _) => write!(f, "{value:#04x}/{mask:#04x}"),
                }
            }
        }

        as_text!($type, $what);
    };
}

octet_match!(
    /// IPv4 TOS octet or IPv6 traffic class, ECN bits included.
    TosMatch, 8, |_| None, |_| None,
    "a TOS octet: a number such as 0x10, or VALUE/MASK such as 0x12/0xf0"
);
octet_match!(
    /// Differentiated services code point (RFC 2474), six bits.
    DscpMatch, 6, super::dscp::code_point, super::dscp::name,
    "a DSCP: a name such as EF, CS6 or AF41, a number from 0 to 63, or VALUE/MASK such as 0x20/0x38"
);
octet_match!(
    /// IPv4 protocol, or what follows IPv6's extension headers.
    ProtocolMatch, 8, protocol, protocol_name,
    "a protocol: a name such as tcp or icmp, a number, or VALUE/MASK"
);
octet_match!(
    /// Priority code point of the outermost VLAN tag (IEEE 802.1Q), three bits.
    PcpMatch, 3, |_| None, |_| None,
    "a VLAN priority from 0 to 7, or VALUE/MASK such as 4/4"
);

impl DscpMatch {
    /// As a condition on the whole octet, whatever the ECN bits.
    pub fn tos(self) -> Ternary<u8> {
        Ternary {
            value: self.0.value << 2,
            mask: self.0.mask << 2,
        }
    }
}

/// Names and numbers, IANA's registry of protocol numbers.
const PROTOCOLS: [(&str, u8); 17] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

fn protocol(text: &str) -> Option<u8> {
    let text = text.to_ascii_lowercase();
    PROTOCOLS
        .iter()
        .find(|(name, _)| *name == text)
        .map(|&(_, number)| number)
}

pub(crate) fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS
        .iter()
        .find(|&&(_, known)| known == number)
        .map(|&(name, _)| name)
}

/// An address condition; says which IP version it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMatch {
    /// IPv4, host order.
    V4(Ternary<u32>),
    /// IPv6, host order.
    V6(Ternary<u128>),
}

impl AddressMatch {
    /// Whether it is for IPv6.
    pub fn is_v6(&self) -> bool {
        matches!(self, Self::V6(_))
    }
}

impl FromStr for AddressMatch {
    type Err = String;

    /// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.1/255.0.0.255`, and the same for IPv6.
    fn from_str(text: &str) -> Result<Self, String> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (value, Some(mask)),
            None => (text, None),
        };
        let value: IpAddr = value
            .parse()
            .map_err(|error| format!("`{value}` is not an IPv4 or IPv6 address: {error}"))?;
        let bits = if value.is_ipv4() { 32 } else { 128 };
        let mask = match mask {
            None => ones(bits, bits),
            Some(mask) => mask_of(mask, value, bits)?,
        };
        let beyond = || format!("`{text}`: the address has bits outside the mask");
        match value {
            IpAddr::V4(value) => {
                let (value, mask) = (value.to_bits(), mask as u32);
                (value & !mask == 0)
                    .then_some(Self::V4(Ternary { value, mask }))
                    .ok_or_else(beyond)
            }
            IpAddr::V6(value) => {
                let value = value.to_bits();
                (value & !mask == 0)
                    .then_some(Self::V6(Ternary { value, mask }))
                    .ok_or_else(beyond)
            }
        }
    }
}

/// `length` ones and zeros up to `bits`.
fn ones(length: u32, bits: u32) -> u128 {
    let all = u128::MAX >> (128 - bits);
    all & !all.checked_shr(length).unwrap_or(0)
}

fn mask_of(text: &str, value: IpAddr, bits: u32) -> Result<u128, String> {
    // what is no number may be a mask
    if let Ok(length) = text.parse::<u32>()
        && length <= bits
    {
        return Ok(ones(length, bits));
    }
    match (text.parse(), value) {
        (Ok(IpAddr::V4(mask)), IpAddr::V4(_)) => Ok(mask.to_bits().into()),
        (Ok(IpAddr::V6(mask)), IpAddr::V6(_)) => Ok(mask.to_bits()),
        _ => Err(format!(
            "`{text}` is neither a prefix length from 0 to {bits} nor a mask of the same IP version"
        )),
    }
}

impl fmt::Display for AddressMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, mask, bits): (IpAddr, IpAddr, u32) = match *self {
            Self::V4(Ternary { value, mask }) => (
                Ipv4Addr::from_bits(value).into(),
                Ipv4Addr::from_bits(mask).into(),
                mask.leading_ones(),
            ),
            Self::V6(Ternary { value, mask }) => (
                Ipv6Addr::from_bits(value).into(),
                Ipv6Addr::from_bits(mask).into(),
                mask.leading_ones(),
            ),
        };
        let prefix = match *self {
            Self::V4(one) => u128::from(one.mask) == ones(bits, 32),
            Self::V6(one) => one.mask == ones(bits, 128),
        };
        if prefix {
            write!(f, "{value}/{bits}")
        } else {
            write!(f, "{value}/{mask}")
        }
    }
}

as_text!(
    AddressMatch,
    "an address, a prefix such as 10.0.0.0/8, or ADDRESS/MASK such as 10.0.0.1/255.0.0.255"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets() {
        let tos = |text: &str| text.parse::<TosMatch>().map(|found| found.0);
        let ternary = |value, mask| Ternary { value, mask };
        assert_eq!(tos("0x10/0xf0"), Ok(ternary(0x10, 0xf0)));
        assert_eq!(tos("16"), Ok(ternary(16, 255)));
        assert_eq!(
            "AF41".parse::<DscpMatch>().unwrap().tos(),
            Ternary::dscp(34)
        );
        assert_eq!("0x20/0x38".parse::<DscpMatch>().unwrap().tos().mask, 0xe0);
        assert_eq!("UDP".parse::<ProtocolMatch>().unwrap().0.value, 17);
        assert_eq!("4/4".parse::<PcpMatch>().unwrap().0, ternary(4, 4));
        for wrong in ["0x12/0xf0", "256", "-1", "", "1/", "0x", "+1", "1/2/3"] {
            assert!(tos(wrong).is_err(), "{wrong}");
        }
        assert!("64".parse::<DscpMatch>().is_err());
        assert!("8".parse::<PcpMatch>().is_err());
        assert!("tpc".parse::<ProtocolMatch>().is_err());
    }

    #[test]
    fn addresses_text_and_back() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "192.0.2.1/32",
            "10.0.0.1/255.0.0.255",
            "2001:db8::/32",
            "::/0",
            "::1/128",
            "::1/::ffff",
        ] {
            assert_eq!(text.parse::<AddressMatch>().unwrap().to_string(), text);
        }
        assert_eq!(
            "192.0.2.1".parse::<AddressMatch>(),
            "192.0.2.1/32".parse::<AddressMatch>()
        );
        for wrong in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/::1",
            "::/129",
            "10.0.0",
            "10.0.0.0/",
            "",
        ] {
            assert!(wrong.parse::<AddressMatch>().is_err(), "{wrong}");
        }
    }
}
