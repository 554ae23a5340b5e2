//! Counting by reason.

use std::ops::{AddAssign, Index, IndexMut, SubAssign};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Reason;

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the thread that owns the counter may call it.
    #[inline]
    pub fn add(&self, count: u64) {
        // there is one writer, so no atomic addition is needed
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    /// Adds. Any thread may call it, if all use this.
    #[inline]
    pub fn add_shared(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Subtracts what was counted too early. Any thread may call it, if all use this and
    /// [`Self::add_shared`].
    #[inline]
    pub fn take_back(&self, count: u64) {
        self.0.fetch_sub(count, Relaxed);
    }

    /// Sets the value. Only the thread that owns the counter may call it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A counter for each reason.
#[derive(Debug)]
pub struct Counters([Counter; Reason::COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counters {
    /// The values now. They are read one after the other.
    pub fn read(&self) -> Counts {
        Counts(std::array::from_fn(|number| self.0[number].get()))
    }

    /// Adds all counters of another. Only the thread that owns the counters may call it.
    pub fn absorb(&self, other: &Self) {
        for (own, other) in self.0.iter().zip(&other.0) {
            own.add(other.get());
        }
    }
}

impl Index<Reason> for Counters {
    type Output = Counter;

    #[inline]
    fn index(&self, reason: Reason) -> &Counter {
        &self.0[reason as usize]
    }
}

/// A number for each reason, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Reason::COUNT]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Reason::COUNT])
    }
}

impl Counts {
    /// All reasons with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0)
    }

    /// Names and values of those that are not zero.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let some = self.iter().filter(|&(_, count)| count > 0);
        some.map(|(reason, count)| (reason.name(), count))
    }

    /// The sum over all reasons.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Reason> for Counts {
    type Output = u64;

    fn index(&self, reason: Reason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl IndexMut<Reason> for Counts {
    fn index_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}

/// Subtracts earlier counts.
impl SubAssign for Counts {
    fn sub_assign(&mut self, earlier: Self) {
        for (own, earlier) in self.0.iter_mut().zip(earlier.0) {
            *own -= earlier;
        }
    }
}
