//! Digests of tables: equal tables have equal digests, in whatever order they are read.
//!
//! A table's entries are spread over buckets, each of which holds the sum of its entries' hashes and
//! when it last changed. So a dump can be compared while events change other buckets.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::message::{Neighbour, Target};
use crate::rib::{Key, Prefix, Route, number, spread};

const BITS: u32 = 12;

/// A hash that is stable within this process.
pub(crate) fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Sums of hashes, one for each bucket.
#[derive(Clone, Debug)]
pub(crate) struct Sums(Vec<u64>);

impl Default for Sums {
    fn default() -> Self {
        Self(vec![0; 1 << BITS])
    }
}

impl Sums {
    /// Adds the hash of an entry to the bucket of its address.
    pub(crate) fn add(&mut self, address: u128, hash: u64) {
        let sum = &mut self.0[spread(address, BITS)];
        *sum = sum.wrapping_add(hash);
    }
}

/// The digest of a table that changes.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    sums: Sums,
    /// When each bucket last changed, counted in changes of the table.
    changed: Vec<u64>,
    changes: u64,
}

impl Digest {
    /// Replaces the hash of an entry of this address.
    pub(crate) fn replace(&mut self, address: u128, old: u64, new: u64) {
        if self.changed.is_empty() {
            self.changed = vec![0; 1 << BITS];
        }
        self.changes += 1;
        self.changed[spread(address, BITS)] = self.changes;
        self.sums.add(address, new.wrapping_sub(old));
    }

    /// The current time, counted in changes of the table; for [`Self::differs`].
    pub(crate) fn now(&self) -> u64 {
        self.changes
    }

    /// Whether a dump that began at `since` or later differs. Ignores buckets that have changed
    /// since.
    pub(crate) fn differs(&self, dumped: &Sums, since: u64) -> bool {
        let pairs = self.sums.0.iter().zip(&dumped.0);
        let changed = self.changed.iter().copied().chain(std::iter::repeat(0));
        pairs
            .zip(changed)
            .any(|((ours, dumped), changed)| ours != dumped && changed <= since)
    }
}

/// The hash of a route, the `index`th of its prefix's routes with the same key. `marks`: its protocol and
/// preference.
pub(crate) fn of_route<P: Prefix>(
    prefix: P,
    key: Key,
    marks: (u8, u8),
    target: u64,
    index: usize,
) -> u64 {
    hash(&(prefix, key, marks, target, index))
}

/// The sum of the hashes of a prefix's routes, each with the hash of its target.
pub(crate) fn of_routes<P: Prefix>(
    prefix: P,
    routes: &[Route],
    target: impl Fn(&Route) -> u64,
) -> u64 {
    let hash = |route: &Route, index| {
        let key = route.key();
        let marks = (route.protocol, route.preference);
        of_route(prefix, key, marks, target(route), index)
    };
    if let [only] = routes {
        return hash(only, 0);
    }
    // every link has a route to fe80::/64, so there may be thousands
    let mut seen: HashMap<Key, usize> = HashMap::new();
    let each = routes.iter().map(|route| {
        let index = seen.entry(route.key()).or_default();
        *index += 1;
        hash(route, *index - 1)
    });
    each.fold(0, u64::wrapping_add)
}

/// The hash of a target, for [`of_routes`].
pub(crate) fn of_target(target: &Target) -> u64 {
    hash(target)
}

/// The address that decides a neighbour's bucket, and the neighbour's hash; 0 while the neighbour
/// is unusable, or Linux has deleted it.
pub(crate) fn of_neighbour(neighbour: &Neighbour) -> (u128, u64) {
    let (device, address): (u32, IpAddr) = (neighbour.device, neighbour.address);
    let usable = neighbour.usable().filter(|_| !neighbour.held);
    let hash = usable.map(|mac| hash(&(device, address, mac)));
    (number(address), hash.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_unless_they_are_newer() {
        let (mut table, mut dumped) = (Digest::default(), Sums::default());
        assert!(!table.differs(&dumped, 0));
        for address in 0..100 {
            table.replace(address, 0, hash(&address));
            dumped.add(99 - address, hash(&(99 - address)));
        }
        let since = table.now();
        assert!(!table.differs(&dumped, since));
        table.replace(7, hash(&7u128), 0);
        assert!(
            !table.differs(&dumped, since),
            "the change is newer than the dump"
        );
        assert!(table.differs(&dumped, table.now()));
        table.replace(7, 0, hash(&7u128));
        assert!(!table.differs(&dumped, table.now()));
        dumped.add(7, 1);
        assert!(table.differs(&dumped, table.now()));
    }
}
