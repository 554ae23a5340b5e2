//! Where answers may change: the borders of prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAddress, RouteAttribute};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

use crate::exchange::ProveError;
use crate::linux::Linux;

/// Octets of `struct rtmsg` and `struct fib_rule_hdr`.
const HEAD: usize = 12;
/// Prefixes that Linux's code itself treats in its own way (ipv4_is_multicast() and the like, ipv6_addr_type()).
const SPECIAL4: [(u128, u8); 6] = [
    (0, 8),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xe000_0000, 4),
    (0xf000_0000, 4),
    (0xffff_ffff, 32),
];
const SPECIAL6: [(u128, u8); 6] = [
    (0, 128),
    (1, 128),
    (0xffff << 32, 96),
    (0xfc << 120, 7),
    (0xfe80 << 112, 10),
    (0xff << 120, 8),
];

/// First addresses of the intervals within which all addresses have one answer, of one IP version; ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Borders {
    v6: bool,
    firsts: Vec<u128>,
}

impl Borders {
    /// None but the whole, and what Linux's code treats in its own way.
    pub(crate) fn new(v6: bool) -> Self {
        let mut borders = Self {
            v6,
            firsts: vec![0],
        };
        for (first, length) in if v6 { SPECIAL6 } else { SPECIAL4 } {
            borders.add(first, length);
        }
        borders
    }

    /// Bits of an address.
    fn bits(&self) -> u32 {
        if self.v6 { 128 } else { 32 }
    }

    /// Adds those of a prefix; IPv4 addresses are in the low 32 bits.
    fn add(&mut self, first: u128, length: u8) {
        let (_, behind) = self.end(first, length);
        self.firsts.push(first);
        self.firsts.extend(behind);
    }

    /// The last address of a prefix, and the one behind it, if there is one.
    fn end(&self, first: u128, length: u8) -> (u128, Option<u128>) {
        let free = self.bits() - u32::from(length).min(self.bits());
        let span = 1u128.checked_shl(free).map_or(u128::MAX, |span| span - 1);
        let last = first | span;
        (last, (last < self.highest()).then(|| last + 1))
    }

    /// The highest address.
    fn highest(&self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// Adds those of a prefix, if it is of this IP version.
    pub(crate) fn add_prefix(&mut self, address: IpAddr, length: u8) {
        if address.is_ipv6() == self.v6 {
            self.add(number(address), length);
        }
    }

    /// Adds those of all routes of Linux, in all tables. `further` gets those of all tables but the main one.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub(crate) fn add_routes(
        &mut self,
        further: &mut Self,
        linux: &mut Linux,
    ) -> Result<(), ProveError> {
        let body = self.head();
        linux.exchange().dump(libc::RTM_GETROUTE, &body, |message| {
            let RouteNetlinkMessage::NewRoute(route) = message else {
                return;
            };
            // numbers above 255 are in an attribute
            let is_main = route.header.table == libc::RT_TABLE_MAIN;
            let length = route.header.destination_prefix_length;
            let first = route.attributes.iter().find_map(|one| match one {
                RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                    Some(address.to_bits().into())
                }
                RouteAttribute::Destination(RouteAddress::Inet6(address)) => {
                    Some(address.to_bits())
                }
                _ => None,
            });
            self.add(first.unwrap_or(0), length);
            if !is_main {
                further.add(first.unwrap_or(0), length);
            }
        })
    }

    /// The rules of Linux.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub(crate) fn rules(&self, linux: &mut Linux) -> Result<Vec<RuleMessage>, ProveError> {
        let mut rules = Vec::new();
        let body = self.head();
        linux.exchange().dump(libc::RTM_GETRULE, &body, |message| {
            if let RouteNetlinkMessage::NewRule(rule) = message {
                rules.push(rule);
            }
        })?;
        Ok(rules)
    }

    /// Adds those of the prefixes that rules look at.
    pub(crate) fn add_rules(&mut self, rules: &[RuleMessage]) {
        for rule in rules {
            for one in &rule.attributes {
                match one {
                    RuleAttribute::Destination(address) => {
                        self.add_prefix(*address, rule.header.dst_len);
                    }
                    RuleAttribute::Source(address) => {
                        self.add_prefix(*address, rule.header.src_len);
                    }
                    _ => {}
                }
            }
        }
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[0] = (if self.v6 {
            libc::AF_INET6
        } else {
            libc::AF_INET
        }) as u8;
        head
    }

    /// Sorts them, each once. To be called when all are there.
    pub(crate) fn settle(&mut self) {
        self.firsts.sort_unstable();
        self.firsts.dedup();
        self.firsts.shrink_to_fit();
    }

    /// How many intervals there are.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// The first and the last address of an interval.
    pub(crate) fn interval(&self, at: usize) -> (u128, u128) {
        let next = self.firsts.get(at + 1);
        let last = next.map_or(self.highest(), |next| next - 1);
        (self.firsts[at], last)
    }

    /// The first address of an interval, and one inside.
    pub(crate) fn two(&self, at: usize) -> [IpAddr; 2] {
        let (first, last) = self.interval(at);
        let inside = first + mixed(first) % (last - first).saturating_add(1).max(1);
        [first, inside].map(|number| self.address(number))
    }

    /// Adds some of others, evenly, at most `count`.
    pub(crate) fn add_some(&mut self, all: &Self, count: usize) {
        let step = all.firsts.len().div_ceil(count.max(1)).max(1);
        self.firsts.extend(all.firsts.iter().step_by(step));
    }

    /// An address of this IP version.
    pub(crate) fn address(&self, number: u128) -> IpAddr {
        match self.v6 {
            false => Ipv4Addr::from_bits(number as u32).into(),
            true => Ipv6Addr::from_bits(number).into(),
        }
    }
}

/// First and last address of a prefix, and the one behind it, if there is one.
pub fn ends(address: IpAddr, length: u8) -> Vec<IpAddr> {
    let borders = Borders {
        v6: address.is_ipv6(),
        firsts: Vec::new(),
    };
    let first = number(address);
    let (last, behind) = borders.end(first, length);
    let ends = [first, last].into_iter().chain(behind);
    ends.map(|number| borders.address(number)).collect()
}

/// An address as a number; IPv4 in the low 32 bits.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A number that looks random (SplitMix64), the same each time.
pub(crate) fn mixed(number: u128) -> u128 {
    let mix = |word: u64| {
        let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    };
    let low = mix(number as u64 ^ (number >> 64) as u64 ^ 0x9e37_79b9_7f4a_7c15);
    u128::from(mix(low)) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prefixes: &[&str]) -> Borders {
        let mut borders = Borders {
            v6: prefixes.iter().any(|prefix| prefix.contains(':')),
            firsts: vec![0],
        };
        for prefix in prefixes {
            let (address, length) = prefix.split_once('/').unwrap();
            borders.add_prefix(address.parse().unwrap(), length.parse().unwrap());
        }
        borders.settle();
        borders
    }

    #[test]
    fn each_prefix_has_two() {
        let borders = of(&[
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.255.255.255/32",
            "0.0.0.0/0",
        ]);
        let expected = [
            0,
            0x0a00_0000,
            0x0a01_0000,
            0x0a02_0000,
            0x0aff_ffff,
            0x0b00_0000,
        ];
        assert_eq!(borders.firsts, expected);
        assert_eq!(borders.interval(3), (0x0a02_0000, 0x0aff_fffe));
        assert_eq!(borders.interval(5), (0x0b00_0000, u32::MAX.into()));
        assert_eq!(of(&["255.255.255.255/32"]).firsts, [0, u32::MAX.into()]);
        assert_eq!(of(&["::/0", "8000::/1"]).firsts, [0, 1 << 127]);
        let mut some = of(&["10.0.0.0/8"]);
        some.add_some(&borders, 2);
        some.settle();
        assert_eq!(some.firsts, [0, 0x0a00_0000, 0x0a02_0000, 0x0b00_0000]);
    }

    #[test]
    fn ends_of_prefixes() {
        let ends = |address: &str, length| {
            let ends = ends(address.parse().unwrap(), length).into_iter();
            ends.map(|end| end.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            ends("10.0.0.0", 8),
            ["10.0.0.0", "10.255.255.255", "11.0.0.0"]
        );
        assert_eq!(ends("255.255.255.255", 32), ["255.255.255.255"; 2]);
        assert_eq!(ends("0.0.0.0", 0), ["0.0.0.0", "255.255.255.255"]);
        assert_eq!(
            ends("2001:db8::", 127),
            ["2001:db8::", "2001:db8::1", "2001:db8::2"]
        );
        let all = ["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];
        assert_eq!(ends("::", 0), all);
    }
}
