//! The writer's side of one family: prefixes, and how their changes reach readers.
//!
//! A change edits one list of prefixes, makes new nodes for it bottom-up in memory no reader can
//! reach, and hooks them in with one release store for each root word that changes. If a node finds
//! no room, everything is undone, and readers have seen nothing.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::family::{Family, Further, Place, place, place_in, root_len, slot};
use crate::node::STRIDE;
use crate::publish::Shared;
use crate::region::{PAGE, Pages, Region};
use crate::slab::{Room, Slab};
use crate::sparse::Sparse;
use crate::stride::{Entry, Leaf, Stride, child_place, prefix_place};

/// No room for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Prefixes gathered at a time.
const PART: usize = 4096;

/// The first stride of the tree outside the root's range.
pub(crate) const OUTSIDE: u32 = 0;

/// What the first stride of a tree is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// A slot of the root.
    Slot(usize),
    /// What is outside the root's range.
    Outside,
    /// A further table.
    Further(usize),
}

/// A further table: a tree of the same nodes, from the first bit on.
#[derive(Debug)]
pub(crate) struct FurtherTable {
    /// Its first stride.
    pub(crate) top: u32,
    /// Leaf of its prefix of length 0.
    pub(crate) default: Leaf,
    pub(crate) len: usize,
}

/// The state of a stride before it was rebuilt.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) stride: u32,
    pub(crate) word: u32,
    pub(crate) base: Leaf,
}

/// Prefixes and nodes of a family.
#[derive(Debug)]
pub(crate) struct Table<F> {
    pub(crate) strides: Vec<Stride>,
    pub(crate) unused: Vec<u32>,
    /// Strides in use at each depth.
    pub(crate) depths: [u32; 24],
    /// Index of the stride of each root slot; 0 for none.
    pub(crate) tops: Sparse,
    /// Leaves of the prefixes within the root's bits, by [`Place::Short`].
    pub(crate) short: Sparse,
    /// Leaf of `::/0`.
    pub(crate) default: Leaf,
    pub(crate) root: Sparse,
    pub(crate) slab: Slab,
    /// Number of changes.
    pub(crate) updates: u64,
    /// Insertions that found no room.
    pub(crate) refused: u64,
    /// Prefixes of the main table.
    pub(crate) len: usize,
    /// Further tables by number.
    pub(crate) further: Vec<Option<FurtherTable>>,
    /// Nodes that readers may still hold, with the epoch that readers must pass.
    pub(crate) retired: VecDeque<(u64, u32)>,
    pub(crate) built: Vec<Built>,
    /// Words to publish.
    pub(crate) pending: Vec<(Top, u32)>,
    family: PhantomData<F>,
}

impl<F: Family> Table<F> {
    /// An empty table; `None` if the system refuses the memory.
    pub(crate) fn new(shared: &Shared, limit: usize) -> Option<Self> {
        let tree = shared.tree::<F>();
        let sparse = |words: usize| {
            let region = Region::reserve(words * 4, Pages::Small)?;
            Some(Sparse::new(Arc::new(region)))
        };
        // the last page keeps wide loads of the last node inside
        let reserved = tree.nodes.words64().len() * 8 / PAGE - 1;
        Some(Self {
            strides: vec![Stride::default()],
            unused: vec![],
            depths: [0; 24],
            tops: sparse(root_len::<F>())?,
            short: sparse(2 * root_len::<F>())?,
            default: 0,
            root: Sparse::new(tree.root.clone()),
            slab: Slab::new(limit / PAGE, reserved),
            updates: 0,
            refused: 0,
            len: 0,
            further: vec![],
            retired: VecDeque::new(),
            built: vec![],
            pending: vec![],
            family: PhantomData,
        })
    }

    /// Sets a prefix's leaf, or removes the prefix with leaf 0; returns the leaf it had.
    pub(crate) fn set(
        &mut self,
        shared: &Shared,
        further: Further,
        (addr, len): (u128, u32),
        leaf: Leaf,
    ) -> Result<Leaf, Full> {
        let old = self.get(further, addr, len);
        if old == leaf {
            return Ok(old);
        }
        let room = if leaf == 0 {
            Room::Reserve
        } else {
            Room::Limited
        };
        match place_in::<F>(further, addr, len) {
            Place::Default => *self.default_of(further) = leaf,
            Place::Short(1) => self.short.set(1, leaf),
            Place::Short(at) => {
                self.short.set(at, leaf);
                if let Err(full) = self.repaint(shared, at, self.above(at), room) {
                    self.short.set(at, old);
                    self.roll_back(shared);
                    self.refused += 1;
                    return Err(full);
                }
            }
            Place::Long(slot) => {
                self.set_long(shared, Top::Slot(slot), (addr, len), (old, leaf), room)?;
            }
            Place::Outside => {
                self.set_long(shared, Top::Outside, (addr, len), (old, leaf), room)?;
            }
            Place::Further(number) => {
                let top = Top::Further(number);
                self.set_long(shared, top, (addr, len), (old, leaf), room)?;
            }
        }
        self.commit(shared);
        match further {
            None => self.publish_defaults(shared),
            Some(number) => {
                let word = shared.tree::<F>().further_default(number);
                word.store(*self.default_of(further), Ordering::Release);
            }
        }
        let count = self.len_of(further);
        *count = *count + usize::from(old == 0) - usize::from(leaf == 0);
        Ok(old)
    }

    fn set_long(
        &mut self,
        shared: &Shared,
        top: Top,
        (addr, len): (u128, u32),
        (old, leaf): (Leaf, Leaf),
        room: Room,
    ) -> Result<(), Full> {
        if leaf != 0 && !self.has_strides() {
            self.refused += 1;
            return Err(Full);
        }
        self.edit(top, addr, len, leaf);
        let built = self.rebuild(shared, top, room);
        if built.is_err() {
            self.roll_back(shared);
            self.refused += 1;
            self.edit(top, addr, len, old);
        }
        if leaf == 0 || built.is_err() {
            self.prune(top, addr, len);
        }
        built
    }

    /// Publishes the next hops of addresses that match no prefix in their tree.
    fn publish_defaults(&mut self, shared: &Shared) {
        let tree = shared.tree::<F>();
        let id = |leaf: Leaf| leaf.saturating_sub(1);
        let mut inherit = self.short.get(1);
        if F::FIRST > 0 {
            tree.default().store(id(self.default), Ordering::Release);
            if inherit == 0 {
                inherit = self.outer().map_or(self.default, |(_, leaf)| leaf);
            }
        }
        tree.inherit().store(id(inherit), Ordering::Release);
    }

    /// The longest prefix that is shorter than the root's range and covers it.
    fn outer(&self) -> Option<(u32, Leaf)> {
        let first = slot(1 << (128 - F::FIRST), 0);
        self.strides[OUTSIDE as usize].longest_match(first, F::FIRST - 1)
    }

    /// The leaf of exactly this prefix, 0 for none.
    pub(crate) fn get(&self, further: Further, addr: u128, len: u32) -> Leaf {
        match place_in::<F>(further, addr, len) {
            Place::Default => self.default_leaf(further),
            Place::Short(at) => self.short.get(at),
            Place::Long(root) => self.get_long(self.tops.get(root), F::NODES, addr, len),
            Place::Outside => self.get_long(OUTSIDE, 0, addr, len),
            Place::Further(number) => {
                let table = self.further(number);
                table.map_or(0, |table| self.get_long(table.top, 0, addr, len))
            }
        }
    }

    fn get_long(&self, top: u32, first: u32, addr: u128, len: u32) -> Leaf {
        if first > 0 && top == 0 {
            return 0;
        }
        let (mut stride, mut bit) = (&self.strides[top as usize], first);
        while len > bit + STRIDE {
            let Some(child) = stride.get(child_place(slot(addr, bit))) else {
                return 0;
            };
            stride = &self.strides[child as usize];
            bit += STRIDE;
        }
        let place = prefix_place(slot(addr, bit), len - bit);
        stride.get(place).unwrap_or(0)
    }

    /// The longest prefix of a table that contains an address: length and leaf.
    pub(crate) fn longest_match(&self, further: Further, addr: u128) -> Option<(u32, Leaf)> {
        if let Some(number) = further {
            let table = self.further(number)?;
            let found = self.longest_below(table.top, 0, addr);
            return found.or_else(|| (table.default != 0).then_some((0, table.default)));
        }
        match place::<F>(addr, 128) {
            Place::Long(slot) => self
                .longest_below(self.tops.get(slot), F::NODES, addr)
                .or_else(|| self.longest_short(root_len::<F>() | slot)),
            _ => self.longest_below(OUTSIDE, 0, addr),
        }
        .or_else(|| (self.default != 0).then_some((0, self.default)))
    }

    fn longest_below(&self, top: u32, first: u32, addr: u128) -> Option<(u32, Leaf)> {
        if first > 0 && top == 0 {
            return None;
        }
        let stride = &self.strides[top as usize];
        let slot = slot(addr, first);
        stride
            .get(child_place(slot))
            .and_then(|child| self.longest_below(child, first + STRIDE, addr))
            .or_else(|| {
                let (len, leaf) = stride.longest_match(slot, STRIDE)?;
                Some((first + len, leaf))
            })
    }

    fn longest_short(&self, mut place: usize) -> Option<(u32, Leaf)> {
        while place > 0 {
            match self.short.get(place) {
                0 => place >>= 1,
                leaf => return Some((F::FIRST + place.ilog2(), leaf)),
            }
        }
        if F::FIRST > 0 { self.outer() } else { None }
    }

    /// All prefixes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Route> {
        let mut next = Some(0);
        let parts = std::iter::from_fn(move || {
            let (part, after) = self.part(next?, PART);
            next = after;
            Some(part)
        });
        parts.flatten()
    }

    /// About `count` prefixes from `from` on, and where to continue; `None` after the last. Start
    /// with 0.
    pub(crate) fn part(&self, from: usize, count: usize) -> (Vec<Route>, Option<usize>) {
        // in this order: prefixes outside the root's range, short ones, the root's slots
        let mut found = vec![];
        if from == 0 {
            self.collect(OUTSIDE, 0, 0, &mut found);
            found.extend((self.default != 0).then_some((0, 0, self.default)));
        }
        let (slots, mut place) = (self.short.len(), from.max(1));
        let end = slots + self.tops.len();
        while found.len() < count && place < end {
            if place < slots {
                found.extend(self.short_route(place));
                place = self.short.next_live(place + 1);
            } else {
                self.collect_slot(place - slots, &mut found);
                place = slots + self.tops.next_live(place + 1 - slots);
            }
        }
        (found, (place < end).then_some(place))
    }

    fn short_route(&self, place: usize) -> Option<Route> {
        let leaf = self.short.get(place);
        let len = place.ilog2();
        let bits = (place - (1 << len)) as u128;
        let range = u128::from(F::FIRST > 0) << (128 - F::FIRST.max(1));
        let addr = bits.checked_shl(128 - F::FIRST - len).unwrap_or(0) | range;
        (leaf != 0).then_some((addr, F::FIRST + len, leaf))
    }

    fn collect_slot(&self, slot: usize, found: &mut Vec<Route>) {
        let top = self.tops.get(slot);
        if top != 0 {
            let range = (1u128 << (F::NODES - F::FIRST)) * u128::from(F::FIRST > 0);
            let addr = (range | slot as u128) << (128 - F::NODES);
            self.collect(top, F::NODES, addr, found);
        }
    }

    /// Whether a longer prefix lies within this one. For a prefix not longer than the root's bits
    /// this may check every prefix.
    pub(crate) fn has_more_specific(&self, addr: u128, len: u32) -> bool {
        let differs = |other: u128| (other ^ addr).checked_shr(128 - len).unwrap_or(0) != 0;
        let inside = |&(other, longer, _): &Route| longer > len && !differs(other);
        let Place::Long(slot) = place::<F>(addr, len) else {
            return self.iter().any(|route| inside(&route));
        };
        let (mut found, top) = (vec![], self.tops.get(slot));
        if top != 0 {
            let first = addr & !(u128::MAX >> F::NODES);
            self.collect(top, F::NODES, first, &mut found);
        }
        found.iter().any(inside)
    }

    fn collect(&self, stride: u32, bit: u32, addr: u128, found: &mut Vec<Route>) {
        for &entry in self.strides[stride as usize].entries() {
            self.collect_entry(entry, bit, addr, found);
        }
    }

    pub(crate) fn collect_entry(&self, entry: Entry, bit: u32, addr: u128, found: &mut Vec<Route>) {
        if let Some(slot) = entry.child_slot() {
            let inside = addr | (slot as u128) << (122 - bit.min(122));
            self.collect(entry.value(), bit + STRIDE, inside, found);
        } else {
            let (bits, len) = entry.bits();
            let inside = addr | u128::from(bits) << (128 - bit - len);
            found.push((inside, bit + len, entry.value()));
        }
    }
}

/// A prefix, left-aligned, with its length and leaf.
pub(crate) type Route = (u128, u32, Leaf);
