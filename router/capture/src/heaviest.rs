//! What has the most weight in a stream, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;

/// Most keys that are kept.
const KEPT: usize = 512;
/// What weighs less than this, relative to a sample of weight 1, is forgotten.
const FORGOTTEN: f64 = 0.01;

/// The heaviest keys of a stream whose past fades: Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient Computation
/// of Frequent and Top-k Elements in Data Streams", 2005) with weights that [`Heaviest::fade`] lessens. Every key with
/// more than 1/512 of the whole weight is among them.
#[derive(Clone, Debug)]
pub struct Heaviest<K> {
    known: HashMap<K, Weight>,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Weight {
    /// Added for this key; it may have been more before it was known.
    certain: f64,
    /// Added to what is counted beside the weight.
    beside: f64,
    /// Weight of the key whose place it took: no more than that is missing.
    missing: f64,
}

impl Weight {
    fn most(&self) -> f64 {
        self.certain + self.missing
    }
}

impl<K> Default for Heaviest<K> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Heaviest<K> {
    /// Adds to the weight of a key, and to what is counted beside it.
    pub fn add(&mut self, key: &K, weight: f64, beside: f64) {
        if let Some(known) = self.known.get_mut(key) {
            known.certain += weight;
            known.beside += beside;
            return;
        }
        let missing = match self.known.len() < KEPT {
            true => 0.0,
            false => self.remove_lightest(),
        };
        let new = Weight {
            certain: weight,
            beside,
            missing,
        };
        self.known.insert(key.clone(), new);
    }

    /// Returns what it may have weighed.
    fn remove_lightest(&mut self) -> f64 {
        let lightest = self
            .known
            .iter()
            .min_by(|(_, one), (_, other)| one.most().total_cmp(&other.most()));
        let Some((key, weight)) = lightest.map(|(key, weight)| (key.clone(), *weight)) else {
            return 0.0;
        };
        self.known.remove(&key);
        weight.most()
    }

    /// Multiplies all weights by a factor below 1, and forgets what is too light.
    pub fn fade(&mut self, factor: f64) {
        for weight in self.known.values_mut() {
            weight.certain *= factor;
            weight.beside *= factor;
            weight.missing *= factor;
        }
        self.known.retain(|_, weight| weight.most() > FORGOTTEN);
    }

    /// The heaviest keys, the heaviest first, each with its certain weight and what is counted beside it.
    pub fn top(&self, count: usize) -> Vec<(&K, f64, f64)> {
        let all = self.known.iter();
        let mut all: Vec<_> = all
            .map(|(key, weight)| (key, weight.certain, weight.beside))
            .collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is heavy is found, never overrated, and underrated by at most 1/512 of the whole.
        #[test]
        fn the_heavy_are_found(
            stream in (
                proptest::collection::vec((0u32..20, 1u32..2000), 0..400),
                proptest::collection::vec((20u32..100_000, 1u32..100), 0..1500),
            )
                .prop_flat_map(|(heavy, light)| Just([heavy, light].concat()).prop_shuffle()),
        ) {
            let (mut heaviest, mut exact) = (Heaviest::default(), BTreeMap::new());
            for (key, weight) in &stream {
                heaviest.add(key, (*weight).into(), 1.0);
                *exact.entry(*key).or_insert(0.0) += f64::from(*weight);
            }
            let bound = exact.values().sum::<f64>() / KEPT as f64;
            prop_assert!(heaviest.known.len() <= KEPT);
            let found: BTreeMap<u32, f64> =
                heaviest.top(KEPT).into_iter().map(|(key, weight, _)| (*key, weight)).collect();
            for (key, weight) in &exact {
                match found.get(key) {
                    Some(certain) => prop_assert!(certain <= weight && certain + bound >= *weight),
                    None => prop_assert!(*weight <= bound),
                }
            }
        }
    }

    #[test]
    fn the_past_fades() {
        let mut heaviest = Heaviest::default();
        heaviest.add(&"old", 1000.0, 1.0);
        for _ in 0..10 {
            heaviest.fade(0.5);
            heaviest.add(&"new", 10.0, 1.0);
        }
        let top = heaviest.top(2);
        assert_eq!((*top[0].0, *top[1].0), ("new", "old"));
        assert!(
            (19.9..20.0).contains(&top[0].1) && (1.99..2.0).contains(&top[0].2),
            "{top:?}"
        );
        (0..30).for_each(|_| heaviest.fade(0.5));
        assert!(heaviest.top(9).is_empty());
    }
}
