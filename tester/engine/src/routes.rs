//! Made-up routes: many, side by side, of the lengths of the Internet's table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::prefix::{Prefix, address};

/// Most routes there is room for.
pub const MAX_ROUTES: u32 = 2_000_000;
/// Where they begin: public addresses, far from those of links and test networks.
const FIRST_V4: Ipv4Addr = Ipv4Addr::new(16, 0, 0, 0);
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 0, 0);

/// Routes of one family without gaps between: lengths 16 to 24, or 32 to 48, the longest most often.
#[derive(Debug)]
pub struct Routes {
    v6: bool,
    left: u32,
    random: fastrand::Rng,
    /// First free address.
    next: u128,
    /// Prefixes still to be cut or given out: address and length, the next one last.
    parts: Vec<(u128, u8)>,
}

impl Routes {
    /// Makes room for this many; equal seeds give equal routes.
    pub fn new(v6: bool, count: u32, seed: u64) -> Self {
        Self {
            v6,
            left: count,
            random: fastrand::Rng::with_seed(seed),
            next: if v6 {
                FIRST_V6.to_bits()
            } else {
                u128::from(FIRST_V4.to_bits())
            },
            parts: Vec::new(),
        }
    }

    /// Width of an address, shortest and longest prefix.
    fn lengths(&self) -> (u8, u8, u8) {
        if self.v6 { (128, 32, 48) } else { (32, 16, 24) }
    }
}

impl Iterator for Routes {
    type Item = Prefix;

    fn next(&mut self) -> Option<Prefix> {
        self.left = self.left.checked_sub(1)?;
        let (width, shortest, longest) = self.lengths();
        let (bits, mut length) = self.parts.pop().unwrap_or_else(|| {
            let part = (self.next, shortest);
            self.next += 1 << (width - shortest);
            part
        });
        loop {
            let whole = match longest - length {
                0 => true,
                1 | 2 => self.random.f32() < 0.25,
                _ => self.random.f32() < 0.06,
            };
            if whole {
                let network = address(self.v6, bits);
                return Some(Prefix { network, length });
            }
            length += 1;
            self.parts.push((bits + (1 << (width - length)), length));
        }
    }
}

/// For each of `shares` equal shares of the routes, its first and last address.
pub fn shares(v6: bool, count: u32, seed: u64, shares: usize) -> Vec<(IpAddr, IpAddr)> {
    let mut found: Vec<(IpAddr, IpAddr)> = Vec::new();
    for (index, route) in Routes::new(v6, count, seed).enumerate() {
        let last = route.last();
        if found.len() <= share_of(index, count, shares) {
            found.push((route.network, last));
        } else if let Some(share) = found.last_mut() {
            share.1 = last;
        }
    }
    found
}

/// Which share the route with this index is of.
pub fn share_of(index: usize, count: u32, shares: usize) -> usize {
    index * shares / (count.max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_lie_side_by_side() {
        for v6 in [false, true] {
            let routes: Vec<Prefix> = Routes::new(v6, 20_000, 7).collect();
            assert_eq!(routes.len(), 20_000);
            for pair in routes.windows(2) {
                let next = match pair[0].last() {
                    IpAddr::V4(last) => IpAddr::from(Ipv4Addr::from_bits(last.to_bits() + 1)),
                    IpAddr::V6(last) => IpAddr::from(Ipv6Addr::from_bits(last.to_bits() + 1)),
                };
                assert_eq!(next, pair[1].network, "{} {}", pair[0], pair[1]);
            }
            let longest = if v6 { 48 } else { 24 };
            let many = routes.iter().filter(|one| one.length == longest).count();
            assert!((8_000..16_000).contains(&many), "{many}");
            assert!(routes.iter().any(|one| one.length <= longest - 4));
        }
    }

    #[test]
    fn each_port_gets_as_many() {
        let all = shares(false, 1000, 1, 3);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].0, FIRST_V4);
        assert!(all[0].1 < all[1].0 && all[1].1 < all[2].0);
        let counts = (0..1000)
            .filter(|&index| share_of(index, 1000, 3) == 1)
            .count();
        assert_eq!(counts, 333);
    }

    #[test]
    fn the_most_routes_stay_below_loopback() {
        let last = Routes::new(false, MAX_ROUTES, 1).last().unwrap();
        assert!(last.network < Ipv4Addr::new(100, 0, 0, 0), "{last}");
    }
}
