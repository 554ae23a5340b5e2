//! The table: a root array indexed by the first bits, then nodes of 256 entries.
//!
//! An entry is one word: either the index of a node, or a leaf with the length of the prefix it
//! belongs to and its next hop. Leaves are pushed down, so a look-up ends at the first leaf. With
//! 24 root bits this is DIR-24-8; the stored length tells an update which entries it may paint.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::FibError;
use crate::nexthop::NextHopId;
use crate::publish::Entries;

pub(crate) const NODE: u32 = 1 << 31;
const LENGTH_SHIFT: u32 = 16;

/// An address as the table needs it.
pub(crate) trait Key: Copy + Eq + Hash + Debug {
    const ROOT_BITS: u8;
    /// `count` bits from bit `from`, counted from the most significant.
    fn bits(self, from: u8, count: u8) -> usize;
    /// The first `len` bits, the rest zero.
    fn mask(self, len: u8) -> Self;
}

macro_rules! key {
    ($int:ty, $root:literal) => {
        impl Key for $int {
            const ROOT_BITS: u8 = $root;

            fn bits(self, from: u8, count: u8) -> usize {
                (self << from >> (<$int>::BITS - u32::from(count))) as usize
            }

            fn mask(self, len: u8) -> Self {
                self & <$int>::MAX
                    .checked_shl(<$int>::BITS - u32::from(len))
                    .unwrap_or(0)
            }
        }
    };
}
key!(u32, 24);
key!(u128, 16);

/// A leaf entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) len: u8,
    pub(crate) id: NextHopId,
}

impl Leaf {
    fn word(self) -> u32 {
        u32::from(self.len) << LENGTH_SHIFT | self.id.0
    }
}

/// The next hop of a leaf word.
#[inline]
pub(crate) fn id_of(word: u32) -> NextHopId {
    NextHopId(word & 0xffff)
}

fn len_of(word: u32) -> u8 {
    (word >> LENGTH_SHIFT) as u8
}

/// The writer's side of one table: which nodes are free and which are waiting to be.
#[derive(Debug)]
pub(crate) struct Nodes {
    unused: u32,
    limit: u32,
    free: Vec<u32>,
    /// Unlinked nodes with the epoch that readers must have passed.
    retired: VecDeque<(u64, u32)>,
    /// Unlinked since the last [`Nodes::retire`].
    unlinked: Vec<u32>,
}

impl Nodes {
    pub(crate) fn new(entries: &Entries) -> Self {
        let limit = (entries.nodes.len() / 256) as u32;
        Self {
            unused: 0,
            limit,
            free: vec![],
            retired: VecDeque::new(),
            unlinked: vec![],
        }
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.unused - self.free.len() as u32
    }

    /// Tags what the last update unlinked with an epoch.
    pub(crate) fn retire(&mut self, advance: impl FnOnce() -> u64) {
        if !self.unlinked.is_empty() {
            let epoch = advance();
            self.retired
                .extend(self.unlinked.drain(..).map(|node| (epoch, node)));
        }
    }

    /// Frees nodes that all readers have passed; returns how many.
    pub(crate) fn reclaim(&mut self, passed: u64) -> usize {
        let mut count = 0;
        while self
            .retired
            .front()
            .is_some_and(|&(epoch, _)| epoch <= passed)
        {
            self.free
                .extend(self.retired.pop_front().map(|(_, node)| node));
            count += 1;
        }
        count
    }

    pub(crate) fn waiting(&self) -> usize {
        self.retired.len()
    }

    fn available(&self) -> u32 {
        self.free.len() as u32 + self.limit - self.unused
    }

    fn allocate(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            (self.unused < self.limit).then(|| {
                self.unused += 1;
                self.unused - 1
            })
        })
    }
}

fn node(entries: &Entries, index: u32) -> &[AtomicU32] {
    &entries.nodes[index as usize * 256..][..256]
}

/// Paints a prefix: entries of its range that belong to prefixes no longer than itself become
/// `leaf`. Fails before any change if there are too few nodes.
pub(crate) fn insert<K: Key>(
    entries: &Entries,
    nodes: &mut Nodes,
    addr: K,
    leaf: Leaf,
) -> Result<(), FibError> {
    let levels = u32::from(leaf.len.saturating_sub(K::ROOT_BITS).div_ceil(8));
    if nodes.available() < levels {
        return Err(FibError::TableFull(nodes.limit));
    }
    let paint = &mut |entry: &AtomicU32, word: u32| {
        if len_of(word) <= leaf.len {
            entry.store(leaf.word(), Ordering::Release);
        }
    };
    let (mut slots, mut base, mut width) = (&entries.root[..], 0, K::ROOT_BITS);
    while leaf.len > base + width {
        let entry = &slots[addr.bits(base, width)];
        let word = entry.load(Ordering::Relaxed);
        let child = if word & NODE != 0 {
            word & !NODE
        } else {
            let child = nodes.allocate().ok_or(FibError::TableFull(nodes.limit))?;
            node(entries, child)
                .iter()
                .for_each(|slot| slot.store(word, Ordering::Relaxed));
            entry.store(NODE | child, Ordering::Release);
            child
        };
        slots = node(entries, child);
        base += width;
        width = 8;
    }
    for_each_leaf(entries, range(slots, addr, base, width, leaf.len), paint);
    Ok(())
}

/// Unpaints a prefix: its entries go to the prefix that covers it. Nodes that hold nothing longer
/// than their parent's entry could are unlinked.
pub(crate) fn remove<K: Key>(entries: &Entries, nodes: &mut Nodes, addr: K, len: u8, cover: Leaf) {
    let mut path: [Option<(&AtomicU32, u32, u8)>; 16] = [None; 16];
    let (mut slots, mut base, mut width, mut depth) = (&entries.root[..], 0, K::ROOT_BITS, 0);
    while len > base + width {
        let entry = &slots[addr.bits(base, width)];
        let word = entry.load(Ordering::Relaxed);
        if word & NODE == 0 {
            return;
        }
        path[depth] = Some((entry, word & !NODE, base + width));
        depth += 1;
        slots = node(entries, word & !NODE);
        base += width;
        width = 8;
    }
    for_each_leaf(
        entries,
        range(slots, addr, base, width, len),
        &mut |entry, word| {
            if len_of(word) == len {
                entry.store(cover.word(), Ordering::Release);
            }
        },
    );
    for &(entry, child, reach) in path[..depth].iter().rev().flatten() {
        let slots = node(entries, child);
        let first = slots[0].load(Ordering::Relaxed);
        // equal leaves that reach no further than the parent's bits say what one entry can
        let same = slots
            .iter()
            .all(|slot| slot.load(Ordering::Relaxed) == first);
        if first & NODE != 0 || len_of(first) > reach || !same {
            return;
        }
        entry.store(first, Ordering::Release);
        nodes.unlinked.push(child);
    }
}

fn range<K: Key>(slots: &[AtomicU32], addr: K, base: u8, width: u8, len: u8) -> &[AtomicU32] {
    let count = 1usize << (base + width - len);
    &slots[addr.bits(base, width)..][..count]
}

/// Visits the leaves at and below some entries.
fn for_each_leaf(entries: &Entries, slots: &[AtomicU32], visit: &mut impl FnMut(&AtomicU32, u32)) {
    for entry in slots {
        let word = entry.load(Ordering::Relaxed);
        if word & NODE == 0 {
            visit(entry, word);
        } else {
            for_each_leaf(entries, node(entries, word & !NODE), visit);
        }
    }
}
