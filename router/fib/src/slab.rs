//! The allocator of node memory.
//!
//! A page of 4 KiB holds blocks of one size. A page whose blocks are all free goes back to the
//! system. Blocks of up to 64 octets never cross a cache line.

use std::collections::BTreeSet;

use crate::region::PAGE;

/// Unit of block sizes and of the free maps, octets.
const UNIT: usize = 16;
/// Block sizes in units: 16 to 400 octets. There is no size of 48, because such blocks would cross
/// cache lines.
const SIZES: [u8; 13] = [1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 25];
/// Empty pages that are kept, so that alternating updates do not release and reuse a page each
/// time.
const WARM: usize = 64;

#[derive(Clone, Debug)]
struct Page {
    /// A bit for each free block.
    free: [u64; 4],
    free_count: u16,
    class: u8,
}

/// How much memory an update may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Pages up to the user's limit.
    Limited,
    /// All of the address space, because removals must not fail, and soon free more than they take.
    Reserve,
}

/// The allocator of one family's nodes. Offsets count words of 8 octets.
#[derive(Debug)]
pub(crate) struct Slab {
    pages: Vec<Page>,
    /// Pages with free blocks, for each size. The first one is used, so that the last ones become
    /// empty.
    partial: [BTreeSet<u32>; SIZES.len()],
    empty: Vec<u32>,
    in_use: usize,
    blocks: usize,
    limit: usize,
    reserved: usize,
}

impl Slab {
    /// An allocator over `reserved` pages that hands out `limit` of them before it refuses.
    pub(crate) fn new(limit: usize, reserved: usize) -> Self {
        Self {
            pages: vec![],
            partial: Default::default(),
            empty: vec![],
            in_use: 0,
            blocks: 0,
            limit,
            reserved,
        }
    }

    /// Octets of the pages that hold blocks.
    pub(crate) fn octets(&self) -> usize {
        self.in_use * PAGE
    }

    /// Octets of the pages that hold blocks, from this page on.
    pub(crate) fn octets_from(&self, first: usize) -> usize {
        let empty = self.empty.iter().filter(|&&page| page as usize >= first);
        (self.pages.len().saturating_sub(first) - empty.count()) * PAGE
    }

    /// Blocks handed out.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(crate) fn control_octets(&self) -> usize {
        self.pages.capacity() * size_of::<Page>() + self.empty.capacity() * 4
    }

    /// Whether the next block of this size needs another page.
    pub(crate) fn must_grow(&self, words: usize) -> bool {
        self.partial[class(words)].is_empty()
    }

    /// A block of `words` words; `None` if there is no room.
    pub(crate) fn allocate(&mut self, words: usize, room: Room) -> Option<u32> {
        let class = class(words);
        let index = match self.partial[class].first() {
            Some(&index) => index,
            None => self.open(class, room)?,
        };
        let page = &mut self.pages[index as usize];
        let quarter = page.free.iter().position(|&free| free != 0)?;
        let bit = page.free[quarter].trailing_zeros();
        page.free[quarter] &= page.free[quarter] - 1;
        page.free_count -= 1;
        if page.free_count == 0 {
            self.partial[class].remove(&index);
        }
        self.blocks += 1;
        let block = quarter * 64 + bit as usize;
        let octets = index as usize * PAGE + block * usize::from(SIZES[class]) * UNIT;
        Some((octets / 8) as u32)
    }

    /// Frees a block; returns the page to release, if any.
    pub(crate) fn free(&mut self, offset: u32) -> Option<usize> {
        let octets = offset as usize * 8;
        let index = octets / PAGE;
        let page = &mut self.pages[index];
        let size = usize::from(SIZES[usize::from(page.class)]) * UNIT;
        let block = octets % PAGE / size;
        debug_assert_eq!(page.free[block / 64] >> (block % 64) & 1, 0, "freed twice");
        page.free[block / 64] |= 1 << (block % 64);
        page.free_count += 1;
        self.blocks -= 1;
        let partial = &mut self.partial[usize::from(page.class)];
        if usize::from(page.free_count) < PAGE / size {
            if page.free_count == 1 {
                partial.insert(index as u32);
            }
            return None;
        }
        partial.remove(&(index as u32));
        self.in_use -= 1;
        self.empty.push(index as u32);
        (self.empty.len() > WARM).then_some(index)
    }

    /// Opens a page for a class of blocks.
    fn open(&mut self, class: usize, room: Room) -> Option<u32> {
        if self.in_use >= self.limit && room == Room::Limited {
            return None;
        }
        let index = match self.empty.pop() {
            Some(index) => index,
            None if self.pages.len() < self.reserved => {
                self.pages.push(Page {
                    free: [0; 4],
                    free_count: 0,
                    class: 0,
                });
                self.pages.len() as u32 - 1
            }
            None => return None,
        };
        let blocks = PAGE / (usize::from(SIZES[class]) * UNIT);
        let page = &mut self.pages[index as usize];
        page.class = class as u8;
        page.free_count = blocks as u16;
        for (quarter, free) in page.free.iter_mut().enumerate() {
            let bits = blocks.saturating_sub(quarter * 64).min(64) as u32;
            *free = 1u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
        }
        self.in_use += 1;
        self.partial[class].insert(index);
        Some(index)
    }
}

fn class(words: usize) -> usize {
    let units = (words * 8).div_ceil(UNIT);
    SIZES.partition_point(|&size| usize::from(size) < units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_pages_come_back() {
        let mut slab = Slab::new(400, 400);
        let mut taken = std::collections::BTreeMap::new();
        for round in 0..3000 {
            let words = 2 + round * 7 % 48;
            let offset = slab.allocate(words, Room::Limited).unwrap();
            assert!(taken.insert(offset, words).is_none());
            if words <= 8 {
                assert_eq!(
                    offset / 8,
                    (offset + words as u32 - 1) / 8,
                    "one cache line"
                );
            }
        }
        let ends = taken.iter().map(|(&at, &words)| at + words as u32);
        assert!(
            ends.zip(taken.keys().skip(1))
                .all(|(end, &next)| end <= next)
        );
        let released = taken.keys().filter_map(|&offset| slab.free(offset)).count();
        assert!(released > 0);
        assert_eq!(slab.octets(), 0);
    }

    #[test]
    fn the_limit_holds_for_insertions_only() {
        let mut slab = Slab::new(1, 2);
        for _ in 0..256 {
            assert!(slab.allocate(2, Room::Limited).is_some());
        }
        assert_eq!(slab.allocate(2, Room::Limited), None);
        assert!(slab.allocate(2, Room::Reserve).is_some());
        assert_eq!(slab.allocate(50, Room::Reserve), None);
    }
}
