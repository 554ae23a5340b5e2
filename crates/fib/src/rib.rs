//! The control side's list of prefixes, to find what covers what.

use std::collections::HashMap;

use crate::nexthop::NextHopId;
use crate::trie::Key;

/// All prefixes of one family with their next hops.
#[derive(Debug)]
pub(crate) struct Rib<K> {
    prefixes: HashMap<(K, u8), NextHopId>,
    /// Prefixes of each length, so that absent lengths are not asked for.
    of_length: [u32; 129],
}

impl<K: Key> Rib<K> {
    pub(crate) fn new() -> Self {
        Self {
            prefixes: HashMap::new(),
            of_length: [0; 129],
        }
    }

    pub(crate) fn insert(&mut self, addr: K, len: u8, id: NextHopId) -> Option<NextHopId> {
        let old = self.prefixes.insert((addr, len), id);
        self.of_length[usize::from(len)] += u32::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, addr: K, len: u8) -> Option<NextHopId> {
        let old = self.prefixes.remove(&(addr, len))?;
        self.of_length[usize::from(len)] -= 1;
        Some(old)
    }

    pub(crate) fn get(&self, addr: K, len: u8) -> Option<NextHopId> {
        self.prefixes.get(&(addr, len)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        self.prefixes.capacity() * (size_of::<((K, u8), NextHopId)>() + 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((K, u8), NextHopId)> {
        self.prefixes.iter().map(|(&prefix, &id)| (prefix, id))
    }

    /// The longest prefix of at most `longest` bits that holds `addr`.
    pub(crate) fn longest_match(&self, addr: K, longest: u8) -> Option<((K, u8), NextHopId)> {
        (0..=longest)
            .rev()
            .filter(|&len| self.of_length[usize::from(len)] > 0)
            .find_map(|len| {
                let prefix = (addr.mask(len), len);
                self.prefixes.get(&prefix).map(|&id| (prefix, id))
            })
    }
}
