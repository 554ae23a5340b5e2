//! How long look-ups take.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use crate::random::Random;
use crate::subject::Reader;

/// Keys between two readings of the clock, with warm caches.
const SLICE: usize = 16 * 1024;
/// Vectors of one pass, with disturbed caches.
const DISTURBED_VECTORS: usize = 4000;

/// Nanoseconds per look-up with warm caches: the median slice of a pass over the keys, after a
/// warm-up pass.
pub fn warm<K>(reader: &mut dyn Reader<K>, keys: &[K], vector: usize) -> f64 {
    let mut pass = || -> Vec<f64> {
        let slice = |slice: &[K]| {
            let start = Instant::now();
            slice.chunks(vector).for_each(|keys| reader.look_up(keys));
            start.elapsed().as_nanos() as f64 / slice.len() as f64
        };
        keys.chunks(SLICE).map(slice).collect()
    };
    pass();
    quantile(&mut pass(), 0.5)
}

/// Packet memory that is touched between vectors, so that it evicts tables from the caches, as in a
/// router.
pub struct Disturbance {
    words: Vec<u64>,
    random: Random,
}

impl Disturbance {
    /// Octets of packet memory.
    const SIZE: usize = 64 << 20;
    /// Octets of a frame.
    const FRAME: usize = 2048;

    /// Allocates packet memory; it is larger than the caches.
    pub fn new(seed: u64) -> Self {
        Self {
            words: vec![1; Self::SIZE / 8],
            random: Random::new(seed),
        }
    }

    /// Reads and writes the first two cache lines of a random frame for each packet.
    fn touch(&mut self, packets: usize) {
        for _ in 0..packets {
            let frame = self.random.below(Self::SIZE / Self::FRAME) * (Self::FRAME / 8);
            self.words[frame] = self.words[frame].wrapping_add(1);
            self.words[frame + 8] = self.words[frame + 8].wrapping_add(self.words[frame]);
        }
    }
}

/// Nanoseconds per look-up when packets pass through the caches between vectors. Only the look-up
/// is timed, and the cost of reading the clock is subtracted. The result is a [`trimmed_mean`],
/// because a vector may take only a few ticks of the clock.
pub fn disturbed<K>(
    reader: &mut dyn Reader<K>,
    keys: &[K],
    vector: usize,
    disturbance: &mut Disturbance,
) -> f64 {
    let clock = clock_cost();
    let time = |keys: &[K]| {
        disturbance.touch(vector);
        fence(Ordering::SeqCst);
        let start = Instant::now();
        reader.look_up(keys);
        start.elapsed().as_nanos() as f64
    };
    let mut times: Vec<f64> = keys
        .chunks_exact(vector)
        .take(DISTURBED_VECTORS)
        .map(time)
        .collect();
    (trimmed_mean(&mut times) - clock) / vector as f64
}

/// Time between two readings of the clock, ns.
fn clock_cost() -> f64 {
    let look = |_| Instant::now().elapsed().as_nanos() as f64;
    trimmed_mean(&mut (0..10_000).map(look).collect::<Vec<_>>())
}

/// The mean without the lowest and the highest twentieth; sorts the values. 0 if there are none.
pub fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let cut = values.len() / 20;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// The quantile `q` of the values; sorts them. 0 if there are none.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = (values.len() as f64 * q) as usize;
    values
        .get(index.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_mean_ignores_outliers() {
        let mut values = vec![1.0; 50];
        values.extend([2.0; 50]);
        (values[0], values[99]) = (-1e9, 1e9);
        assert!((trimmed_mean(&mut values) - 1.5).abs() < 0.02);
        assert_eq!(trimmed_mean(&mut []), 0.0);
    }

    #[test]
    fn quantiles() {
        let mut values: Vec<f64> = (0..1000).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.5), 500.0);
        assert_eq!(quantile(&mut values, 0.999), 999.0);
        assert_eq!(quantile(&mut values, 1.0), 999.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
