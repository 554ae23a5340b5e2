//! Prefixes: an address and how many of its leading bits count.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::num::ParseIntError;
use std::str::FromStr;

/// Why a text or value is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Longer than the address.
    #[error("prefix length {0} is more than {1}")]
    Length(u8, u8),
    /// Bits beyond the length are set.
    #[error("{0} has bits set beyond its length")]
    HostBits(String),
    /// No `/`.
    #[error("`{0}` is not of the form ADDRESS/LENGTH")]
    Form(String),
    /// The address part is wrong.
    #[error(transparent)]
    Address(#[from] AddrParseError),
    /// The length part is wrong.
    #[error("prefix length: {0}")]
    Number(#[from] ParseIntError),
}

macro_rules! prefix {
    ($(#[$doc:meta])* $name:ident, $int:ty, $address:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            addr: $int,
            len: u8,
        }

        impl $name {
            const BITS: u8 = <$int>::BITS as u8;

            /// A prefix; its address must have no bits set beyond `len`.
            pub fn new(addr: $int, len: u8) -> Result<Self, PrefixError> {
                if len > Self::BITS {
                    return Err(PrefixError::Length(len, Self::BITS));
                }
                let prefix = Self::masked(addr, len);
                if prefix.addr != addr {
                    let text = format!("{}/{len}", <$address>::from_bits(addr));
                    return Err(PrefixError::HostBits(text));
                }
                Ok(prefix)
            }

            /// The prefix of this length that contains `addr`; a length beyond the address is
            /// reduced to it.
            pub fn masked(addr: $int, len: u8) -> Self {
                let len = len.min(Self::BITS);
                let mask = <$int>::MAX.checked_shl(u32::from(Self::BITS - len)).unwrap_or(0);
                Self { addr: addr & mask, len }
            }

            /// The address, host order.
            pub fn addr(&self) -> $int {
                self.addr
            }

            /// The length in bits.
            #[allow(clippy::len_without_is_empty)] // a length, not a container's
            pub fn len(&self) -> u8 {
                self.len
            }

            /// Whether an address is inside.
            pub fn contains(&self, addr: $int) -> bool {
                Self::masked(addr, self.len).addr == self.addr
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", <$address>::from_bits(self.addr), self.len)
            }
        }

        impl FromStr for $name {
            type Err = PrefixError;

            fn from_str(text: &str) -> Result<Self, PrefixError> {
                let (addr, len) =
                    text.split_once('/').ok_or_else(|| PrefixError::Form(text.into()))?;
                Self::new(addr.parse::<$address>()?.to_bits(), len.parse()?)
            }
        }
    };
}

prefix!(
    /// An IPv4 prefix, /0 to /32.
    Prefix4,
    u32,
    Ipv4Addr
);
prefix!(
    /// An IPv6 prefix, /0 to /128.
    Prefix6,
    u128,
    Ipv6Addr
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["0.0.0.0/0", "192.0.2.0/24", "255.255.255.255/32"] {
            assert_eq!(text.parse::<Prefix4>().unwrap().to_string(), text);
        }
        for text in ["::/0", "2001:db8::/32", "::1/128"] {
            assert_eq!(text.parse::<Prefix6>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_prefixes_are_refused() {
        assert!(matches!(
            "10.0.0.1/24".parse::<Prefix4>(),
            Err(PrefixError::HostBits(_))
        ));
        assert!(matches!(
            "10.0.0.0/33".parse::<Prefix4>(),
            Err(PrefixError::Length(33, 32))
        ));
        assert!(matches!(
            "10.0.0.0".parse::<Prefix4>(),
            Err(PrefixError::Form(_))
        ));
        assert!(matches!(
            "x/8".parse::<Prefix4>(),
            Err(PrefixError::Address(_))
        ));
        assert!(matches!(
            "::/y".parse::<Prefix6>(),
            Err(PrefixError::Number(_))
        ));
    }
}
