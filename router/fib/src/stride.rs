//! The writer's prefixes, in one list for each node.

use crate::node::{NODE, SLOTS, STRIDE};

const VALUE_BITS: u32 = 23;
const FIRST_CHILD: u32 = 2 * SLOTS as u32;

/// A leaf word, at most [`MAX_LEAF`]: next-hop id + 1, or 0 for none.
pub(crate) type Leaf = u32;

/// A prefix or a child: place and value in one word, so that a sorted list is ordered by length.
///
/// The place of a prefix that ends in this stride is its number in a binary heap (2 and 3 have one
/// bit, 64 to 127 have six), its value the leaf. The place of a child is 128 + slot, its value the
/// index of the child's stride.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(u32);

impl Entry {
    pub(crate) fn place(self) -> u32 {
        self.0 >> VALUE_BITS
    }

    pub(crate) fn value(self) -> u32 {
        self.0 & ((1 << VALUE_BITS) - 1)
    }

    /// The slot, if this is a child.
    pub(crate) fn child_slot(self) -> Option<usize> {
        self.place()
            .checked_sub(FIRST_CHILD)
            .map(|slot| slot as usize)
    }

    /// Bits and number of bits of a prefix.
    pub(crate) fn bits(self) -> (u32, u32) {
        let len = self.place().ilog2();
        (self.place() - (1 << len), len)
    }
}

/// Most strides a table can have.
pub(crate) const MAX_STRIDES: usize = 1 << VALUE_BITS;
/// The word of a stride that a path passes over, so that readers see none of it; no leaf, and no node.
pub(crate) const PASSED: u32 = NODE - 1;
/// The largest leaf that an entry can hold.
pub(crate) const MAX_LEAF: Leaf = (1 << VALUE_BITS) - 1;

/// The place of the first `len` (1 to 6) bits of a slot's number.
pub(crate) fn prefix_place(slot: u32, len: u32) -> u32 {
    (SLOTS as u32 | slot) >> (STRIDE - len)
}

/// The place of a slot's child.
pub(crate) fn child_place(slot: u32) -> u32 {
    FIRST_CHILD + slot
}

/// Six bits of an address: the prefixes that end there, the strides of longer ones, and the word
/// that readers see.
#[derive(Debug, Default)]
pub(crate) struct Stride {
    entries: Vec<Entry>,
    /// The word in the parent: a leaf if all slots are equal, else the node; or [`PASSED`].
    pub(crate) word: u32,
    /// The leaf that slots without a prefix inherit in `word`.
    pub(crate) base: Leaf,
    /// The lists have changed since `word` was made.
    pub(crate) dirty: bool,
}

impl Stride {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn capacity_octets(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    pub(crate) fn get(&self, place: u32) -> Option<u32> {
        self.find(place).ok().map(|at| self.entries[at].value())
    }

    pub(crate) fn set(&mut self, place: u32, value: u32) {
        let entry = Entry(place << VALUE_BITS | value);
        match self.find(place) {
            Ok(at) => self.entries[at] = entry,
            Err(at) => {
                if self.entries.len() == self.entries.capacity() {
                    // grow by little, because there are many lists
                    self.entries.reserve_exact(2 + self.entries.len() / 4);
                }
                self.entries.insert(at, entry);
            }
        }
    }

    pub(crate) fn remove(&mut self, place: u32) {
        if let Ok(at) = self.find(place) {
            self.entries.remove(at);
            if self.entries.len() < self.entries.capacity() / 2 {
                self.entries.shrink_to(self.entries.len() + 2);
            }
        }
    }

    /// The longest prefix here of at most `longest` bits that contains a slot: bits and leaf.
    pub(crate) fn longest_match(&self, slot: u32, longest: u32) -> Option<(u32, Leaf)> {
        (1..=longest)
            .rev()
            .find_map(|len| Some((len, self.get(prefix_place(slot, len))?)))
    }

    /// Writes the leaves of the prefixes into slots that hold the inherited leaf; returns where the
    /// children start in the list.
    pub(crate) fn paint(&self, slots: &mut [u32; SLOTS]) -> usize {
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.place() >= FIRST_CHILD {
                return at;
            }
            let (bits, len) = entry.bits();
            let first = (bits << (STRIDE - len)) as usize;
            let count = SLOTS >> len;
            debug_assert_eq!(entry.value() & NODE, 0);
            slots[first..first + count].fill(entry.value());
        }
        self.entries.len()
    }

    fn find(&self, place: u32) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&place, |entry| entry.place())
    }
}
