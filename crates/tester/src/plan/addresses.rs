//! Addresses and UDP ports of flows.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use bora_config::TextVisitor;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::traffic::Values;

/// IP addresses of the flows of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Addresses {
    /// The port's own address.
    Port,
    /// Of the routes that `[router] routes` gives each port, drawn with the seed.
    Routes,
    /// The port's share of a prefix; `None`: of RFC 2544's, C.2.2, or RFC 5180's, 8.
    Prefix(Option<Prefix>, Order),
    /// The same for all ports.
    Range(IpAddr, IpAddr, Order),
    /// The same for all ports.
    List(Vec<IpAddr>),
}

/// The order in which flows take addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    InTurn,
    /// Drawn with the seed (RFC 4814).
    Random,
}

/// An IP prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its first address.
    pub network: IpAddr,
    /// Its length.
    pub length: u8,
}

/// RFC 2544, C.2.2 (RFC 6890).
pub(super) const BENCHMARK_V4: Prefix = Prefix {
    network: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)),
    length: 15,
};
/// RFC 5180, 8.
pub(super) const BENCHMARK_V6: Prefix = Prefix {
    network: IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0)),
    length: 48,
};

/// An address as a number with the bits of its family at the low end.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a family with these bits.
pub(super) fn address(v6: bool, bits: u128) -> IpAddr {
    if v6 {
        Ipv6Addr::from_bits(bits).into()
    } else {
        Ipv4Addr::from_bits(bits as u32).into()
    }
}

/// Bits of an address of the family.
fn width(v6: bool) -> u8 {
    if v6 { 128 } else { 32 }
}

impl Prefix {
    /// The share of port `index` of `count`: the prefix is cut in a power of two of equal parts.
    ///
    /// # Errors
    /// If the parts are too small to hold hosts.
    pub fn share(self, index: usize, count: usize) -> Result<Self, String> {
        let v6 = self.network.is_ipv6();
        let more = count.next_power_of_two().trailing_zeros() as u8;
        let length = self.length + more;
        if length + 2 > width(v6) {
            return Err(format!("{self} is too small for {count} ports"));
        }
        let network = bits(self.network) + ((index as u128) << (width(v6) - length));
        let network = address(v6, network);
        Ok(Self { network, length })
    }

    /// First and last address that can be a host's.
    pub fn hosts(self) -> (IpAddr, IpAddr) {
        let v6 = self.network.is_ipv6();
        let last = address(v6, bits(self.last()) - 1);
        (address(v6, bits(self.network) + 1), last)
    }

    /// Its last address.
    pub fn last(self) -> IpAddr {
        let v6 = self.network.is_ipv6();
        address(
            v6,
            bits(self.network) + ((1 << (width(v6) - self.length)) - 1),
        )
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a prefix such as 198.18.0.0/15");
        let (network, length) = text.split_once('/').ok_or_else(wrong)?;
        let network: IpAddr = network.trim().parse().map_err(|_| wrong())?;
        let length: u8 = length.trim().parse().map_err(|_| wrong())?;
        let width = width(network.is_ipv6());
        if length == 0 || length + 2 > width {
            return Err(format!("`{text}`: a length is from 1 to {}", width - 2));
        }
        if bits(network) & ((1 << (width - length)) - 1) != 0 {
            return Err(format!("`{text}` has bits set behind its length"));
        }
        Ok(Self { network, length })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

impl FromStr for Addresses {
    type Err = String;

    /// `port`, `routes`, `benchmark`, `198.18.0.0/15`, `10.0.0.1-10.0.0.9`, or one address; `random`
    /// before the last four.
    fn from_str(text: &str) -> Result<Self, String> {
        let (order, rest) = match text.strip_prefix("random ") {
            Some(rest) => (Order::Random, rest.trim()),
            None => (Order::InTurn, text.trim()),
        };
        if order == Order::InTurn && rest == "port" {
            return Ok(Self::Port);
        }
        if order == Order::InTurn && rest == "routes" {
            return Ok(Self::Routes);
        }
        if rest == "benchmark" {
            return Ok(Self::Prefix(None, order));
        }
        if rest.contains('/') {
            return Ok(Self::Prefix(Some(rest.parse()?), order));
        }
        let one = |text: &str| {
            let wrong = |_| format!("`{text}` is not an address, a prefix or a range of addresses");
            text.trim().parse::<IpAddr>().map_err(wrong)
        };
        let (first, last) = rest.split_once('-').unwrap_or((rest, rest));
        let (first, last) = (one(first)?, one(last)?);
        if first.is_ipv6() != last.is_ipv6() || last < first {
            return Err(format!("`{text}` runs backwards or between IP versions"));
        }
        Ok(Self::Range(first, last, order))
    }
}

/// UDP ports of the flows of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers(pub Vec<u16>, pub Option<(u16, Order)>);

impl Numbers {
    /// As the generator wants them.
    pub fn values(&self, seed: u64) -> Values<u16> {
        match (&self.0[..], self.1) {
            (&[first], Some((last, Order::InTurn))) => Values::Range(first, last),
            (&[first], Some((last, Order::Random))) => Values::Random { first, last, seed },
            (list, _) => Values::List(list.to_vec()),
        }
    }
}

impl FromStr for Numbers {
    type Err = String;

    /// `7`, `1024-65535`, `random 1024-65535`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (order, rest) = match text.strip_prefix("random ") {
            Some(rest) => (Order::Random, rest.trim()),
            None => (Order::InTurn, text.trim()),
        };
        let one = |text: &str| {
            let wrong = |_| format!("`{text}` is not a UDP port or a range of them");
            text.trim().parse::<u16>().map_err(wrong)
        };
        match rest.split_once('-') {
            None => Ok(Self(vec![one(rest)?], None)),
            Some((first, last)) => {
                let (first, last) = (one(first)?, one(last)?);
                if last < first {
                    return Err(format!("`{text}` runs backwards"));
                }
                Ok(Self(vec![first], Some((last, order))))
            }
        }
    }
}

/// Makes a type readable from text, from a number where the text may be one, and from a list.
macro_rules! text_or_list {
    ($type:ident, $item:ty, $from:expr, $what:literal) => {
        impl<'a> Deserialize<'a> for $type {
            fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
                struct Either;
                impl<'a> Visitor<'a> for Either {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
                        TextVisitor::new($what).visit_str(text)
                    }

                    fn visit_i64<E: Error>(self, number: i64) -> Result<$type, E> {
                        TextVisitor::new($what).visit_i64(number)
                    }

                    fn visit_seq<A: SeqAccess<'a>>(self, list: A) -> Result<$type, A::Error> {
                        let list: Vec<$item> =
                            Deserialize::deserialize(SeqAccessDeserializer::new(list))?;
                        if list.is_empty() {
                            return Err(A::Error::custom("an empty list"));
                        }
                        Ok(($from)(list))
                    }

                    fn visit_map<A: MapAccess<'a>>(self, map: A) -> Result<$type, A::Error> {
                        // for the error's text
                        String::deserialize(MapAccessDeserializer::new(map))?.parse().map_err(A::Error::custom)
                    }
                }
                from.deserialize_any(Either)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": ["string", "integer", "array"], "description": $what})
            }
        }
    };
}

text_or_list!(
    Addresses,
    IpAddr,
    Addresses::List,
    "`port`, `routes`, `benchmark`, a prefix, a range, an address, or a list of addresses"
);
text_or_list!(
    Numbers,
    u16,
    |list| Numbers(list, None),
    "a UDP port, a range such as 1024-65535, `random 1024-65535`, or a list"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text: &str| text.parse::<Addresses>();
        assert_eq!(parse("port"), Ok(Addresses::Port));
        assert_eq!(
            parse("random benchmark"),
            Ok(Addresses::Prefix(None, Order::Random))
        );
        assert_eq!(
            parse("198.18.0.0/15"),
            Ok(Addresses::Prefix(Some(BENCHMARK_V4), Order::InTurn))
        );
        let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap());
        assert_eq!(
            parse("random 10.0.0.1-10.0.0.9"),
            Ok(Addresses::Range(a, b, Order::Random))
        );
        for wrong in [
            "random port",
            "198.18.0.1/15",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1-fd00::1",
            "0.0.0.0/0",
            "10.0.0.0/31",
            "x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_port_has_its_share_of_a_prefix() {
        let shares: Vec<String> = (0..3)
            .map(|index| BENCHMARK_V4.share(index, 3).unwrap().to_string())
            .collect();
        assert_eq!(
            shares,
            ["198.18.0.0/17", "198.18.128.0/17", "198.19.0.0/17"]
        );
        let (first, last) = BENCHMARK_V4.share(1, 2).unwrap().hosts();
        assert_eq!(first.to_string(), "198.19.0.1");
        assert_eq!(last.to_string(), "198.19.255.254");
        let (first, _) = BENCHMARK_V6.share(1, 2).unwrap().hosts();
        assert_eq!(first.to_string(), "2001:2:0:8000::1");
        let small: Prefix = "10.0.0.0/30".parse().unwrap();
        assert!(small.share(0, 2).is_err());
    }

    #[test]
    fn udp_ports() {
        let values = |text: &str| text.parse::<Numbers>().map(|numbers| numbers.values(9));
        assert_eq!(values("7"), Ok(Values::List(vec![7])));
        assert_eq!(values("1024-65535"), Ok(Values::Range(1024, 65535)));
        assert!(matches!(values("random 1-2"), Ok(Values::Random { .. })));
        for wrong in ["65536", "2-1", "-1", "x"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
