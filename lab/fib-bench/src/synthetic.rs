//! Routing tables shaped like the Internet's, from a seed.
//!
//! Lengths follow the histogram of a 2026 union table. Addresses cluster as real ones do: a holder
//! announces adjacent prefixes and more-specifics of its own, all with the next hop of its AS. The
//! same seed and count give the same table on every machine.

use std::collections::HashSet;

use bora_fib::{Prefix4, Prefix6};

use crate::random::Random;

/// Prefixes of each length in 1 168 945 (2026 union table; /8-15 spread evenly here).
const LENGTHS4: [(u8, u64); 18] = [
    (8, 16),
    (9, 13),
    (10, 40),
    (11, 110),
    (12, 330),
    (13, 650),
    (14, 1_284),
    (15, 2_100),
    (16, 14_310),
    (17, 9_053),
    (18, 15_072),
    (19, 27_788),
    (20, 49_815),
    (21, 57_824),
    (22, 122_384),
    (23, 126_268),
    (24, 741_888),
    (32, 1_200),
];
/// Prefixes of each length in 279 855 IPv6 prefixes.
const LENGTHS6: [(u8, u64); 21] = [
    (20, 40),
    (24, 120),
    (28, 380),
    (29, 5_532),
    (30, 700),
    (31, 400),
    (32, 27_182),
    (33, 2_600),
    (34, 2_300),
    (35, 1_400),
    (36, 10_386),
    (38, 2_300),
    (40, 24_765),
    (42, 4_200),
    (44, 26_975),
    (45, 4_200),
    (46, 8_379),
    (47, 9_843),
    (48, 146_000),
    (56, 1_800),
    (64, 353),
];
/// Next hops are numbered 1 to this.
const NEXT_HOPS: usize = 254;

/// A next hop; low numbers are much more frequent (each of the eight octaves equally).
fn next_hop(random: &mut Random) -> u32 {
    let octave = random.below(8);
    let id = (1 << octave) + random.below(1 << octave);
    id.min(NEXT_HOPS) as u32
}

/// A prefix with its holder's next hop; the address is left-aligned.
type Route = (u128, u8, u32);

/// How addresses of a family are assigned.
struct Shape {
    /// Chooses the first address of a new holder's block.
    allocate: fn(&mut Random) -> u128,
    /// Chance, in percent, that a prefix is a more-specific of an earlier one.
    nested: usize,
    /// Chance, in percent, that the next prefix of a length follows the last one directly.
    run: usize,
}

fn table(seed: u64, count: usize, lengths: &[(u8, u64)], shape: &Shape) -> Vec<Route> {
    let mut random = Random::new(seed);
    let total: u64 = lengths.iter().map(|&(_, share)| share).sum();
    let mut routes: Vec<Route> = Vec::with_capacity(count);
    let mut seen = HashSet::with_capacity(count);
    let mut cumulated = 0;
    for &(len, share) in lengths {
        cumulated += share;
        let target = (u128::from(cumulated) * count as u128 / u128::from(total)) as usize;
        let step = 1u128 << (128 - u32::from(len));
        let shorter = routes.len();
        let mut last: Route = (0, 0, 1);
        let mut misses = 0;
        while routes.len() < target && misses < 1000 {
            last = if last.1 == len && random.below(100) < shape.run {
                (last.0.wrapping_add(step), len, last.2)
            } else if shorter > 0 && random.below(100) < shape.nested {
                let (addr, above, id) = routes[random.below(shorter)];
                let room = (len - above).min(24);
                let id = if random.below(100) < 80 {
                    id
                } else {
                    next_hop(&mut random)
                };
                let inside = (random.below(1 << room) as u128) << (128 - u32::from(above + room));
                (addr | inside, len, id)
            } else {
                ((shape.allocate)(&mut random), len, next_hop(&mut random))
            };
            last.0 &= !(step - 1);
            if seen.insert((last.0, len)) {
                routes.push(last);
                misses = 0;
            } else {
                misses += 1;
            }
        }
    }
    routes.sort_unstable();
    routes
}

/// At most `count` IPv4 prefixes with next-hop numbers 1 to 254, by address, then length. The table
/// is a little smaller if there are too few prefixes of a length.
pub fn ipv4(seed: u64, count: usize) -> Vec<(Prefix4, u32)> {
    let shape = Shape {
        // unicast space without the private 10/8 and 127/8
        allocate: |random| {
            let first = 1 + random.below(222);
            let first = if first == 10 || first == 127 {
                11
            } else {
                first
            };
            let rest = random.below(1 << 24);
            ((first << 24 | rest) as u128) << 96
        },
        nested: 75,
        run: 90,
    };
    let routes = table(seed, count, &LENGTHS4, &shape);
    let routes = routes.into_iter();
    routes
        .map(|(addr, len, id)| (Prefix4::masked((addr >> 96) as u32, len), id))
        .collect()
}

/// At most `count` IPv6 prefixes with next-hop numbers 1 to 254, by address, then length; nearly
/// all inside allocated /32s of the registries' blocks.
pub fn ipv6(seed: u64, count: usize) -> Vec<(Prefix6, u32)> {
    /// The registries' blocks: first 12 bits, used /24s in each.
    const BLOCKS: [(usize, usize); 7] = [
        (0x200, 512),
        (0x240, 256),
        (0x260, 512),
        (0x280, 1536),
        (0x2a0, 3840),
        (0x2a1, 1024),
        (0x2c0, 256),
    ];
    let shape = Shape {
        allocate: |random| {
            let (block, used) = BLOCKS[random.below(BLOCKS.len())];
            let slash24 = block << 12 | random.below(used);
            ((slash24 << 8 | random.below(256)) as u128) << 96
        },
        nested: 92,
        run: 45,
    };
    let routes = table(seed, count, &LENGTHS6, &shape);
    let routes = routes.into_iter();
    routes
        .map(|(addr, len, id)| (Prefix6::masked(addr, len), id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_table() {
        assert_eq!(ipv4(7, 2000), ipv4(7, 2000));
        assert_ne!(ipv4(7, 2000), ipv4(8, 2000));
        assert_eq!(ipv6(7, 2000), ipv6(7, 2000));
    }

    #[test]
    fn tables_have_the_asked_size_and_shape() {
        let table = ipv4(1, 100_000);
        assert_eq!(table.len(), 100_000);
        let of24 = table.iter().filter(|(prefix, _)| prefix.len() == 24);
        assert!((60_000..68_000).contains(&of24.count()));
        assert!(table.iter().all(|&(_, id)| (1..=254).contains(&id)));
        let table = ipv6(1, 50_000);
        assert_eq!(table.len(), 50_000);
        assert!(table.iter().all(|(prefix, _)| prefix.addr() >> 125 == 1));
    }
}
