//! Sets of numbers.

/// Disjoint ranges in ascending order, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// One range.
    pub fn one(low: u128, high: u128) -> Self {
        Self(vec![(low, high)])
    }

    /// The union of ranges, which may overlap; those that end before they begin hold nothing.
    pub fn union(mut ranges: Vec<(u128, u128)>) -> Self {
        ranges.retain(|(low, high)| low <= high);
        ranges.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Self(joined)
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&one), Some(&&two)) = (a.peek(), b.peek()) {
            let (low, high) = (one.0.max(two.0), one.1.min(two.1));
            if low <= high {
                both.push((low, high));
            }
            if one.1 < two.1 {
                a.next()
            } else {
                b.next()
            };
        }
        Self(both)
    }

    /// What is not in it, from 0 to `most`.
    pub fn inverted(&self, most: u128) -> Self {
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(low, high) in &self.0 {
            if let Some(from) = next.filter(|&from| from < low) {
                rest.push((from, low - 1));
            }
            next = high.checked_add(1);
        }
        rest.extend(next.filter(|&from| from <= most).map(|from| (from, most)));
        Self(rest)
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a number is in it.
    pub fn has(&self, number: u128) -> bool {
        let behind = self.0.partition_point(|&(low, _)| low <= number);
        behind > 0 && self.0[behind - 1].1 >= number
    }

    /// The ranges, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of small numbers as bits.
    fn bits(ranges: &Ranges) -> u32 {
        (0..32).fold(0, |bits, at| bits | u32::from(ranges.has(at)) << at)
    }

    #[test]
    fn sets_behave_as_sets_do() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut set = || {
            let ranges = (0..random.usize(0..5)).map(|_| (random.u128(..32), random.u128(..32)));
            Ranges::union(ranges.collect())
        };
        for _ in 0..2000 {
            let (a, b) = (set(), set());
            assert_eq!(bits(&a.and(&b)), bits(&a) & bits(&b), "{a:?} {b:?}");
            assert_eq!(bits(&a.inverted(31)), !bits(&a), "{a:?}");
            assert_eq!(a.is_empty(), bits(&a) == 0);
            let borders: Vec<_> = a.iter().flat_map(|(low, high)| [low, high]).collect();
            assert!(borders.is_sorted(), "{a:?}");
        }
        let all = Ranges::one(0, u128::MAX);
        assert!(all.inverted(u128::MAX).is_empty());
        assert_eq!(Ranges::default().inverted(u128::MAX), all);
    }
}
