//! Nodes of the tree: 64 slots, run-length coded.
//!
//! A word is a leaf (0: inherit the family's default route, else next-hop id + 1) or [`NODE`] and
//! the offset of a node in units of 8 octets. A node is a bitmap of where runs of equal slots
//! start, then one entry a run; the entry of a slot is the one whose rank is the number of bits
//! set up to the slot. A node never changes after its publication.
//!
//! IPv4 entries are 16 bits wide, for leaves below [`FAR`]; the rare child, and the leaf that is not
//! below, is an entry with [`FAR`] set whose other bits say which 32-bit word of the node, behind the
//! entries, holds its word. IPv6 entries are words.

use std::sync::atomic::Ordering;

use crate::region::Region;

/// Marks a word that leads to a node.
pub(crate) const NODE: u32 = 1 << 31;
/// Marks a 16-bit entry whose word is behind the entries.
pub(crate) const FAR: u16 = 1 << 15;
/// Address bits that a node consumes.
pub(crate) const STRIDE: u32 = 6;
/// Slots of a node.
pub(crate) const SLOTS: usize = 1 << STRIDE;
/// 32-bit words of the longest body: 64 16-bit entries and 64 words behind them.
const BODY: usize = SLOTS / 2 + SLOTS;

/// An encoded node that has no place in memory yet.
pub(crate) struct Encoded {
    bitmap: u64,
    body: [u32; BODY],
    len: usize,
}

/// Width of a family's entries.
pub(crate) enum Entries {
    /// IPv4.
    Narrow,
    /// IPv6.
    Wide,
}

impl Encoded {
    /// Encodes these slots, which must not all be equal.
    pub(crate) fn new(slots: &[u32; SLOTS], entries: &Entries) -> Self {
        let mut bitmap = 1;
        for slot in 1..SLOTS {
            bitmap |= u64::from(slots[slot] != slots[slot - 1]) << slot;
        }
        let mut node = Self {
            bitmap,
            body: [0; BODY],
            len: 0,
        };
        match entries {
            Entries::Narrow => node.narrow(slots),
            Entries::Wide => node.wide(slots),
        }
        node
    }

    fn wide(&mut self, slots: &[u32; SLOTS]) {
        for slot in ones(self.bitmap) {
            self.body[self.len] = slots[slot];
            self.len += 1;
        }
    }

    fn narrow(&mut self, slots: &[u32; SLOTS]) {
        self.len = self.bitmap.count_ones().div_ceil(2) as usize;
        for (rank, slot) in ones(self.bitmap).enumerate() {
            let mut entry = slots[slot] as u16;
            if slots[slot] >= FAR.into() {
                entry = FAR | (2 + self.len) as u16;
                self.body[self.len] = slots[slot];
                self.len += 1;
            }
            let half = if cfg!(target_endian = "little") {
                rank % 2
            } else {
                1 - rank % 2
            };
            self.body[rank / 2] |= u32::from(entry) << (16 * half);
        }
    }

    /// Its size in words of 8 octets.
    pub(crate) fn words(&self) -> usize {
        1 + self.len.div_ceil(2)
    }

    /// Whether the node at `offset` has the same content.
    pub(crate) fn is_at(&self, region: &Region, offset: u32) -> bool {
        let offset = offset as usize;
        let body = &region.words32()[offset * 2 + 2..];
        region.words64()[offset].load(Ordering::Relaxed) == self.bitmap
            && self.body[..self.len]
                .iter()
                .zip(body)
                .all(|(new, old)| *new == old.load(Ordering::Relaxed))
    }

    /// Writes the node into a block that no reader can reach.
    pub(crate) fn write(&self, region: &Region, offset: u32) {
        let offset = offset as usize;
        region.words64()[offset].store(self.bitmap, Ordering::Relaxed);
        let body = &region.words32()[offset * 2 + 2..];
        for (new, old) in self.body[..self.len].iter().zip(body) {
            old.store(*new, Ordering::Relaxed);
        }
    }
}

fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(bit)
    })
}

/// The word of a slot in an IPv4 node.
#[inline(always)]
pub(crate) fn narrow_slot(region: &Region, offset: u32, slot: u32) -> u32 {
    let offset = offset as usize;
    let entry = offset * 4 + 3 + rank(region, offset, slot);
    let entry = region.words16()[entry].load(Ordering::Relaxed);
    if entry & FAR == 0 {
        return entry.into();
    }
    let word = usize::from(entry & !FAR);
    region.words32()[offset * 2 + word].load(Ordering::Relaxed)
}

/// The word of a slot in an IPv6 node.
#[inline(always)]
pub(crate) fn wide_slot(region: &Region, offset: u32, slot: u32) -> u32 {
    let offset = offset as usize;
    let entry = offset * 2 + 1 + rank(region, offset, slot);
    region.words32()[entry].load(Ordering::Relaxed)
}

/// Number of runs that start at or before a slot; at least 1.
#[inline(always)]
fn rank(region: &Region, offset: usize, slot: u32) -> usize {
    let bitmap = region.words64()[offset].load(Ordering::Relaxed);
    (bitmap & (u64::MAX >> (63 - slot))).count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Pages;

    #[test]
    fn every_slot_comes_back() {
        let region = Region::reserve(4096, Pages::Small).unwrap();
        let mut slots = [7; SLOTS];
        slots[3..9].fill(5);
        slots[61] = FAR.into();
        slots[62] = (1 << 22) + 1;
        for children in [0, 2, SLOTS] {
            for (slot, word) in slots.iter_mut().enumerate().take(children) {
                *word = NODE | slot as u32;
            }
            for entries in [Entries::Narrow, Entries::Wide] {
                let node = Encoded::new(&slots, &entries);
                assert!(!node.is_at(&region, 8));
                node.write(&region, 8);
                assert!(node.is_at(&region, 8) && node.words() <= 49);
                for slot in 0..SLOTS as u32 {
                    let word = match entries {
                        Entries::Narrow => narrow_slot(&region, 8, slot),
                        Entries::Wide => wide_slot(&region, 8, slot),
                    };
                    assert_eq!(word, slots[slot as usize]);
                }
            }
        }
    }
}
