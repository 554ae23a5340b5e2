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
//!
//! **Paths** (IPv6 only): nodes in a row that would each have one child, and one leaf in all other slots, are one node
//! (path compression; Morrison, PATRICIA, 1968). In place of the bitmap, whose bit 0 is always set, it has twice the number of
//! bits, [`MIN_PATH`] to [`MAX_PATH`]. Then come these bits, left-aligned in 8 octets, the word for addresses that have them, and
//! the leaf of all others.

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
/// The fewest address bits of a path. Shorter ones would be all over the Internet's table, and cost vectors more than the nodes
/// that they spare.
pub(crate) const MIN_PATH: u32 = 4 * STRIDE;
/// The most address bits of a path.
pub(crate) const MAX_PATH: u32 = 60;
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

    /// Encodes a path: the first `len` bits of `bits` lead to `inside`, all others to `outside`.
    pub(crate) fn path(bits: u64, len: u32, inside: u32, outside: u32) -> Self {
        debug_assert!(len.is_multiple_of(STRIDE) && (MIN_PATH..=MAX_PATH).contains(&len));
        let [a, b, c, d, e, f, g, h] = bits.to_ne_bytes();
        let mut node = Self {
            bitmap: u64::from(2 * len),
            body: [0; BODY],
            len: 4,
        };
        let halves = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
        node.body[..4].copy_from_slice(&[halves[0], halves[1], inside, outside]);
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
    let bitmap = region.words64()[offset].load(Ordering::Relaxed);
    let entry = offset * 4 + 3 + rank(bitmap, slot);
    let entry = region.words16()[entry].load(Ordering::Relaxed);
    if entry & FAR == 0 {
        return entry.into();
    }
    let word = usize::from(entry & !FAR);
    region.words32()[offset * 2 + word].load(Ordering::Relaxed)
}

/// The word of a slot in an IPv6 node, and whether it is a path instead, and the word nonsense.
#[inline(always)]
pub(crate) fn wide_slot(region: &Region, offset: u32, slot: u32) -> (u32, bool) {
    let offset = offset as usize;
    let head = region.words64()[offset].load(Ordering::Relaxed);
    let entry = offset * 2 + 1 + rank(head, slot);
    let word = region.words32()[entry].load(Ordering::Relaxed);
    (word, head & 1 == 0)
}

/// The word that the next bits of an address lead to in an IPv6 node; takes these bits, which are first in `rest`.
#[inline(always)]
pub(crate) fn wide_step(region: &Region, offset: u32, rest: &mut u128) -> u32 {
    let next = (*rest >> 64) as u64;
    let (word, is_path) = wide_slot(region, offset, (next >> (64 - STRIDE)) as u32);
    if !is_path {
        *rest <<= STRIDE;
        return word;
    }
    let offset = offset as usize;
    let [head, path] = [offset, offset + 1].map(|at| region.words64()[at].load(Ordering::Relaxed));
    let len = head as u32 / 2;
    let differs = (next ^ path) >> (64 - len) != 0;
    *rest <<= len;
    region.words32()[offset * 2 + 4 + usize::from(differs)].load(Ordering::Relaxed)
}

/// Number of runs that start at or before a slot; at least 1.
#[inline(always)]
fn rank(bitmap: u64, slot: u32) -> usize {
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
                        Entries::Wide => wide_step(&region, 8, &mut (u128::from(slot) << 122)),
                    };
                    assert_eq!(word, slots[slot as usize]);
                }
            }
        }
    }

    #[test]
    fn a_path_leads_where_all_its_bits_are() {
        let region = Region::reserve(4096, Pages::Small).unwrap();
        let step = |bits: u64| {
            let mut rest = u128::from(bits) << 64 | 1;
            (wide_step(&region, 8, &mut rest), rest.trailing_zeros())
        };
        for len in (MIN_PATH..=MAX_PATH).step_by(6) {
            let bits = 0xfedc_ba98_7654_3210 & !(u64::MAX >> len);
            let node = Encoded::path(bits, len, NODE | 77, 5);
            node.write(&region, 8);
            assert!(node.is_at(&region, 8) && node.words() == 3);
            assert_eq!(step(bits), (NODE | 77, len));
            assert_eq!(step(bits | u64::MAX >> len), (NODE | 77, len));
            for other in 64 - len..64 {
                assert_eq!(step(bits ^ 1 << other), (5, len));
            }
        }
    }
}
