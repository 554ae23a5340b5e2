//! The differences between IPv4 and IPv6.

use std::fmt::Display;
use std::str::FromStr;

use bora_fib::{Prefix4, Prefix6, PrefixError};

use crate::random::Random;

/// A prefix of one family.
pub trait Prefix:
    Copy + Display + Send + Sync + 'static + FromStr<Err = PrefixError> + PartialEq
{
    /// An address as subjects take it.
    type Key: Copy + Default + Send + Sync + 'static;
    /// Name for reports.
    const FAMILY: &str;
    /// Name in file names.
    const TAG: &str;

    /// Prefixes in the Internet's table, 2026.
    const INTERNET: usize;

    /// The commonest length in the Internet's table, and the name of 256 such prefixes in reports.
    const COMMONEST: (u8, &str);

    /// The length.
    fn length(self) -> u8;

    /// Networks that a router has itself, by name: hosts on link in one network of 256 hosts and one of 60 000, and for
    /// IPv6 networks outside 2000::/3.
    fn own() -> Vec<(&'static str, Vec<Self>)>;

    /// A random address of this prefix.
    fn inside(self, random: &mut Random) -> Self::Key;

    /// A random address; for IPv6 in 2000::/3, as nothing else is in use.
    fn anywhere(random: &mut Random) -> Self::Key;

    /// A seeded table in the shape of the Internet's: prefixes and next hops, from 1.
    fn synthetic(seed: u64, count: usize) -> Vec<(Self, u32)>;
}

const HOSTS: (&str, u32) = ("256 hosts on link", 256);
const MANY_HOSTS: (&str, u32) = ("60 000 hosts on link", 60_000);

impl Prefix for Prefix4 {
    type Key = u32;
    const FAMILY: &str = "IPv4";
    const TAG: &str = "v4";
    const INTERNET: usize = 1_168_945;
    const COMMONEST: (u8, &str) = (24, "256 of /24");

    fn length(self) -> u8 {
        self.len()
    }

    fn own() -> Vec<(&'static str, Vec<Self>)> {
        let hosts = |network: u32, count| {
            let host = move |host| Self::masked(network + host, 32);
            (0..count).map(host).collect()
        };
        vec![
            (HOSTS.0, hosts(0x0a00_0000, HOSTS.1)),
            (MANY_HOSTS.0, hosts(0x0a80_0000, MANY_HOSTS.1)),
        ]
    }

    fn inside(self, random: &mut Random) -> u32 {
        let host = u32::MAX.checked_shr(u32::from(self.len())).unwrap_or(0);
        self.addr() | random.bits() as u32 & host
    }

    fn anywhere(random: &mut Random) -> u32 {
        (random.bits() >> 32) as u32
    }

    fn synthetic(seed: u64, count: usize) -> Vec<(Self, u32)> {
        crate::synthetic::ipv4(seed, count)
    }
}

impl Prefix for Prefix6 {
    type Key = [u8; 16];
    const FAMILY: &str = "IPv6";
    const TAG: &str = "v6";
    const INTERNET: usize = 279_855;
    const COMMONEST: (u8, &str) = (48, "256 of /48");

    fn length(self) -> u8 {
        self.len()
    }

    fn own() -> Vec<(&'static str, Vec<Self>)> {
        let hosts = |network: u128, count| {
            let host = move |host| Self::masked(network << 64 | u128::from(host), 128);
            (0..count).map(host).collect()
        };
        let site = |site: u128| Self::masked((0xfd12_3456_0000 + (site << 8)) << 80, 48);
        vec![
            (HOSTS.0, hosts(0x2001_0db8_0001_0001, HOSTS.1)),
            (MANY_HOSTS.0, hosts(0x2001_0db8_0001_0002, MANY_HOSTS.1)),
            ("256 of /48 in fc00::/7", (0..256).map(site).collect()),
            ("256 hosts in fc00::/7", hosts(0xfd12_3456_789a_0001, 256)),
        ]
    }

    fn inside(self, random: &mut Random) -> [u8; 16] {
        let host = u128::MAX.checked_shr(u32::from(self.len())).unwrap_or(0);
        (self.addr() | bits128(random) & host).to_be_bytes()
    }

    fn anywhere(random: &mut Random) -> [u8; 16] {
        (bits128(random) >> 3 | 1 << 125).to_be_bytes()
    }

    fn synthetic(seed: u64, count: usize) -> Vec<(Self, u32)> {
        crate::synthetic::ipv6(seed, count)
    }
}

fn bits128(random: &mut Random) -> u128 {
    u128::from(random.bits()) << 64 | u128::from(random.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_where_they_should_be() {
        let mut random = Random::new(1);
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.1/32"] {
            let prefix: Prefix4 = text.parse().unwrap();
            assert!((0..100).all(|_| prefix.contains(prefix.inside(&mut random))));
        }
        let global: Prefix6 = "2000::/3".parse().unwrap();
        for text in ["::/0", "2001:db8::/32", "2001:db8::1/128"] {
            let prefix: Prefix6 = text.parse().unwrap();
            let inside = |random: &mut Random| u128::from_be_bytes(prefix.inside(random));
            assert!((0..100).all(|_| prefix.contains(inside(&mut random))));
            let key = u128::from_be_bytes(Prefix6::anywhere(&mut random));
            assert!(global.contains(key));
        }
    }
}
