//! A reader's cache of look-ups in busy /24s.
//!
//! It answers with one load where the tree takes three, if nearly all keys are in it. A call that finds
//! the tables changed forgets all entries. While too many keys are missing, the cache is left alone, so
//! that traffic to many destinations does not pay for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::nexthop::NextHopId;
use crate::tree::Tree;

/// Sets of two entries of 32 bits: 256 KiB, with room for some ten thousand /24s.
pub(crate) const SETS: usize = 1 << 15;
/// The bits of a key that an entry has in the same place. A set's index has the others.
pub(crate) const TAG: u32 = 0xff80_0000;
/// Marks an entry whose lower bits are a next-hop id; the 7 bits above it are the generation.
pub(crate) const VALID: u32 = 1 << 15;
/// Bits below the generation, and the number of generations.
const GENERATION: u32 = 16;
const GENERATIONS: u32 = 1 << 7;
/// Hits that pay for a miss: one saves 0.3 ns, a miss costs 10.
const HITS: i32 = 32;
/// Misses that a cache may have before hits pay for them: more than it takes to fill it.
const CREDIT: i32 = 6144;
/// Keys that the cache is left alone for after that, a 32nd of it at first: so many that far fewer than
/// one vector in a thousand is slower for a trial.
const PAUSE: usize = 1 << 25;

/// The index of a /24's set, from any address in it. With [`TAG`] it names the /24.
#[inline]
pub(crate) fn set(key: u32) -> usize {
    (key >> 8 ^ key >> 23) as usize % SETS
}

/// The cache. Only its reader uses it.
#[derive(Debug)]
pub(crate) struct RouteCache {
    sets: Box<[AtomicU64]>,
    /// [`Tree::changes`] that the entries of this generation have seen.
    seen: Cell<u64>,
    generation: Cell<u32>,
    credit: Cell<i32>,
    pause: Cell<usize>,
}

impl RouteCache {
    pub(crate) fn new() -> Self {
        Self {
            sets: (0..SETS).map(|_| AtomicU64::new(0)).collect(),
            seen: Cell::new(0),
            generation: Cell::new(0),
            credit: Cell::new(CREDIT),
            pause: Cell::new(PAUSE / 32),
        }
    }

    /// Whether a call with this many keys should use the cache.
    #[inline]
    pub(crate) fn begin(&self, tree: &Tree, keys: usize) -> bool {
        let pause = self.pause.get();
        if pause > 0 {
            self.pause.set(pause.saturating_sub(keys));
            return false;
        }
        // acquire: look-ups from here on find at least what these changes published
        let changes = tree.changes.load(Ordering::Acquire);
        if self.seen.replace(changes) != changes {
            self.forget();
        }
        true
    }

    /// Counts a call's keys and how many were missing.
    #[inline]
    pub(crate) fn account(&self, keys: usize, missed: usize) {
        let credit = self.credit.get() + keys as i32 / HITS - missed as i32;
        self.credit.set(credit.min(CREDIT));
        if credit < 0 {
            self.credit.set(CREDIT);
            self.pause.set(PAUSE);
        }
    }

    /// The sets, [`SETS`] of them.
    #[inline]
    pub(crate) fn sets(&self) -> &[AtomicU64] {
        &self.sets
    }

    /// The generation, in its place in an entry.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.get() << GENERATION
    }

    /// Adds what the tree said about a key, which must hold for its whole /24, unless it is there; drops
    /// the older entry of the set. Ids that do not fit are not kept.
    pub(crate) fn add(&self, key: u32, id: NextHopId) {
        if id.0 >= VALID {
            return;
        }
        let (set, entry) = (
            &self.sets[set(key)],
            key & TAG | self.generation() | VALID | id.0,
        );
        let old = set.load(Ordering::Relaxed);
        let same = |old: u32| old ^ entry < VALID;
        if !same(old as u32) && !same((old >> 32) as u32) {
            set.store(old << 32 | u64::from(entry), Ordering::Relaxed);
        }
    }

    #[cold]
    fn forget(&self) {
        self.generation
            .set((self.generation.get() + 1) % GENERATIONS);
        if self.generation.get() == 0 {
            self.sets
                .iter()
                .for_each(|set| set.store(0, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::V4;

    /// A cache after its first pause.
    fn ready() -> (RouteCache, Tree) {
        let (cache, tree) = (RouteCache::new(), Tree::new::<V4>(1 << 20).unwrap());
        while !cache.begin(&tree, 256) {}
        (cache, tree)
    }

    #[test]
    fn set_and_tag_name_a_slash_24() {
        let name = |key: u32| (set(key), key & TAG);
        let mut names: Vec<_> = (0..1 << 16)
            .map(|n: u32| n.wrapping_mul(0x9e37_79b1))
            .map(|key| (name(key), key >> 8))
            .collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.windows(2).all(|pair| pair[0].0 != pair[1].0));
        assert_eq!(name(0x0a01_0203), name(0x0a01_02ff));
    }

    #[test]
    fn misses_pause_it_and_hits_do_not() {
        let (cache, tree) = ready();
        for _ in 0..1000 {
            assert!(cache.begin(&tree, 256));
            cache.account(256, 8);
        }
        let mut calls = 0;
        while cache.begin(&tree, 256) {
            cache.account(256, 256);
            calls += 1;
        }
        assert!((20..30).contains(&calls), "{calls}");
        let mut paused = 1;
        while !cache.begin(&tree, 256) {
            paused += 1;
        }
        assert_eq!(paused, PAUSE / 256);
    }

    #[test]
    fn a_change_forgets_all() {
        let (cache, tree) = ready();
        let entry = |cache: &RouteCache| cache.sets()[set(7)].load(Ordering::Relaxed) as u32;
        for _ in 0..2 * GENERATIONS {
            cache.add(7, NextHopId(5));
            let known = entry(&cache);
            assert_eq!(known, cache.generation() | VALID | 5);
            tree.changes.fetch_add(1, Ordering::Release);
            assert!(cache.begin(&tree, 64));
            let now = cache.generation() | VALID;
            assert!(entry(&cache) == 0 || entry(&cache) & !0x7fff != now);
        }
    }
}
