//! Addresses to look up.

use crate::random::Random;
use crate::{Prefix, Route};

/// How the addresses are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Over all addresses (IPv6: over 2000::/3).
    Uniform,
    /// A random address of a random prefix.
    Inside,
    /// 8192 flows inside prefixes; the n-th has 1/n of the packets of the first.
    Zipf,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Inside, Self::Zipf];

    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Inside => "inside prefixes",
            Self::Zipf => "Zipf, 8 k flows",
        }
    }
}

const FLOWS: usize = 8192;

/// Makes `count` keys.
pub fn generate<P: Prefix>(
    pattern: Pattern,
    routes: &[Route<P>],
    count: usize,
    seed: u64,
) -> Vec<P::Key> {
    let mut random = Random::new(seed);
    let inside = |random: &mut Random| routes[random.below(routes.len())].prefix.inside(random);
    match pattern {
        Pattern::Uniform => (0..count).map(|_| P::anywhere(&mut random)).collect(),
        Pattern::Inside => (0..count).map(|_| inside(&mut random)).collect(),
        Pattern::Zipf => {
            let flows: Vec<P::Key> = (0..FLOWS).map(|_| inside(&mut random)).collect();
            let shares = zipf(FLOWS);
            let mut flow = || {
                let drawn = random.fraction();
                shares
                    .partition_point(|&share| share <= drawn)
                    .min(FLOWS - 1)
            };
            (0..count).map(|_| flows[flow()]).collect()
        }
    }
}

/// Cumulative probabilities of a Zipf distribution with exponent 1.
fn zipf(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (1..=count).map(|rank| 1.0 / rank as f64);
    let mut shares: Vec<f64> = weights
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bora_fib::Prefix4;

    use super::*;

    #[test]
    fn the_first_flow_is_the_most_frequent() {
        let routes = [Route {
            prefix: Prefix4::masked(0, 0),
            next_hop: 1,
        }];
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for key in generate(Pattern::Zipf, &routes, 1 << 17, 1) {
            *counts.entry(key).or_default() += 1;
        }
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // the harmonic number of 8192 is 9.6
        assert!((12_000..16_000).contains(&counts[0]), "{}", counts[0]);
        assert!(counts.len() > FLOWS / 2);
    }
}
