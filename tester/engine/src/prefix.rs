//! IP prefixes of hosts behind the ports.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its first address.
    pub network: IpAddr,
    /// Its length.
    pub length: u8,
}

/// RFC 2544, C.2.2 (RFC 6890).
pub(crate) const BENCHMARK_V4: Prefix = Prefix {
    network: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)),
    length: 15,
};
/// RFC 5180, 8.
pub(crate) const BENCHMARK_V6: Prefix = Prefix {
    network: IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0)),
    length: 48,
};

/// An address as a number with the bits of its family at the low end.
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a family with these bits.
pub(crate) fn address(v6: bool, bits: u128) -> IpAddr {
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

    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        let v6 = self.network.is_ipv6();
        let differ = bits(self.network) ^ bits(address);
        let beyond = differ.checked_shr((width(v6) - self.length).into());
        address.is_ipv6() == v6 && beyond.unwrap_or(0) == 0
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn addresses_are_in_a_prefix_or_not() {
        let contains = |network: &str, length: u8, address: &str| {
            let network = network.parse().unwrap();
            Prefix { network, length }.contains(address.parse().unwrap())
        };
        assert!(contains("198.18.0.0", 15, "198.19.255.255"));
        assert!(!contains("198.18.0.0", 15, "198.20.0.0"));
        assert!(contains("10.0.0.1", 32, "10.0.0.1") && !contains("10.0.0.1", 32, "10.0.0.0"));
        assert!(contains("0.0.0.0", 0, "192.0.2.1") && !contains("0.0.0.0", 0, "::1"));
        assert!(contains("::", 0, "2001:db8::1") && contains("2001:2::", 48, "2001:2:0:1::"));
    }
}
