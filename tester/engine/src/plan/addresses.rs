//! Addresses and UDP ports of flows.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use bora_config::TextVisitor;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::prefix::Prefix;
use crate::traffic::Values;

/// IP addresses of the flows of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Addresses {
    /// The port's own address.
    Port,
    /// Addresses of the routes that `[router] routes` gives each port, drawn with the seed.
    Routes,
    /// The port's share of a prefix; `None`: the prefix of RFC 2544, C.2.2, or of RFC 5180, 8.
    Prefix(Option<Prefix>, Order),
    /// A range for all ports.
    Range(IpAddr, IpAddr, Order),
    /// A list for all ports.
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
    /// The values that the generator takes.
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
    use crate::prefix::BENCHMARK_V4;

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
