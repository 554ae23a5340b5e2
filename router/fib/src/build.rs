//! How a table builds nodes, publishes them and frees old ones.

use std::sync::atomic::Ordering;

use crate::family::{Family, root_len, slot};
use crate::node::{Encoded, MAX_PATH, MIN_PATH, NODE, SLOTS, STRIDE};
use crate::publish::Shared;
use crate::slab::Room;
use crate::stride::{Leaf, MAX_STRIDES, PASSED, Stride, child_place, prefix_place};
use crate::table::{Built, Full, OUTSIDE, Table, Top};

/// Bits, left-aligned, that lead past strides with one child each to the stride `end`.
struct Path {
    bits: u64,
    len: u32,
    end: u32,
}

impl<F: Family> Table<F> {
    /// Whether enough stride indices are free for one more prefix of any length.
    pub(crate) fn has_strides(&self) -> bool {
        let most = self.depths.len();
        self.unused.len() > most || self.strides.len() + most < MAX_STRIDES
    }

    /// Changes the list that a prefix belongs to, and marks the strides above it.
    pub(crate) fn edit(&mut self, top: Top, addr: u128, len: u32, leaf: Leaf) {
        let (mut stride, mut bit) = match top {
            Top::Outside => (OUTSIDE, 0),
            Top::Further(number) => (self.top_of(number), 0),
            Top::Slot(slot) => {
                if self.tops.get(slot) == 0 {
                    let stride = self.add_stride(F::NODES);
                    self.tops.set(slot, stride);
                }
                (self.tops.get(slot), F::NODES)
            }
        };
        while len > bit + STRIDE {
            self.strides[stride as usize].dirty = true;
            let place = child_place(slot(addr, bit));
            bit += STRIDE;
            stride = match self.strides[stride as usize].get(place) {
                Some(child) => child,
                None => {
                    let child = self.add_stride(bit);
                    self.strides[stride as usize].set(place, child);
                    child
                }
            };
        }
        let stride = &mut self.strides[stride as usize];
        stride.dirty = true;
        let place = prefix_place(slot(addr, bit), len - bit);
        match leaf {
            0 => stride.remove(place),
            leaf => stride.set(place, leaf),
        }
    }

    /// Builds the nodes of all marked strides below a root slot.
    pub(crate) fn rebuild(&mut self, shared: &Shared, top: Top, room: Room) -> Result<(), Full> {
        let (stride, base) = match top {
            Top::Outside => (OUTSIDE, 0),
            Top::Further(number) => (self.top_of(number), 0),
            Top::Slot(slot) => (self.tops.get(slot), self.above(root_len::<F>() | slot)),
        };
        let word = self.build(shared, stride, base, room)?;
        self.pending.push((top, word));
        Ok(())
    }

    /// Removes strides without prefixes on the way to a prefix.
    pub(crate) fn prune(&mut self, top: Top, addr: u128, len: u32) {
        match top {
            Top::Outside => {
                self.prune_below(OUTSIDE, 0, addr, len);
            }
            Top::Further(number) => {
                self.prune_below(self.top_of(number), 0, addr, len);
            }
            Top::Slot(slot) => {
                let stride = self.tops.get(slot);
                if self.prune_below(stride, F::NODES, addr, len) {
                    self.tops.set(slot, 0);
                    self.remove_stride(stride, F::NODES);
                }
            }
        }
    }

    fn prune_below(&mut self, stride: u32, bit: u32, addr: u128, len: u32) -> bool {
        if len > bit + STRIDE {
            let (place, below) = (child_place(slot(addr, bit)), bit + STRIDE);
            if let Some(child) = self.strides[stride as usize].get(place)
                && self.prune_below(child, below, addr, len)
            {
                self.strides[stride as usize].remove(place);
                self.remove_stride(child, below);
            }
        }
        self.strides[stride as usize].dirty = false;
        self.strides[stride as usize].is_empty()
    }

    pub(crate) fn add_stride(&mut self, bit: u32) -> u32 {
        self.depths[(bit / STRIDE) as usize] += 1;
        self.unused.pop().unwrap_or_else(|| {
            self.strides.push(Stride::default());
            self.strides.len() as u32 - 1
        })
    }

    pub(crate) fn remove_stride(&mut self, stride: u32, bit: u32) {
        self.depths[(bit / STRIDE) as usize] -= 1;
        self.strides[stride as usize] = Stride::default();
        self.unused.push(stride);
    }

    /// The leaf of the longest prefix at or above a place within the root's bits, 0 for none.
    /// Ignores place 1, whose leaf look-ups take from [`Tree::inherit`].
    pub(crate) fn above(&self, mut place: usize) -> Leaf {
        while place > 1 {
            match self.short.get(place) {
                0 => place >>= 1,
                leaf => return leaf,
            }
        }
        0
    }

    /// Gives the root slots below a place a new leaf to inherit, except where a longer prefix is.
    pub(crate) fn repaint(
        &mut self,
        shared: &Shared,
        place: usize,
        leaf: Leaf,
        room: Room,
    ) -> Result<(), Full> {
        if let Some(slot) = place.checked_sub(root_len::<F>()) {
            return self.repaint_slot(shared, slot, leaf, room);
        }
        for below in [2 * place, 2 * place + 1] {
            if self.short.get(below) == 0 {
                self.repaint(shared, below, leaf, room)?;
            }
        }
        Ok(())
    }

    fn repaint_slot(
        &mut self,
        shared: &Shared,
        slot: usize,
        leaf: Leaf,
        room: Room,
    ) -> Result<(), Full> {
        let word = match self.tops.get(slot) {
            0 => leaf,
            top if self.strides[top as usize].base == leaf => return Ok(()),
            top => self.build(shared, top, leaf, room)?,
        };
        self.pending.push((Top::Slot(slot), word));
        Ok(())
    }

    /// Builds the word of a stride whose lists or inherited leaf have changed.
    fn build(&mut self, shared: &Shared, index: u32, base: Leaf, room: Room) -> Result<u32, Full> {
        let word = match self.path(index) {
            Some(path) => self.build_path(shared, index, &path, base, room)?,
            None => self.build_node(shared, index, base, room)?,
        };
        self.replace(index, word, base);
        Ok(word)
    }

    /// Gives a stride its word, and keeps the old one until it is clear whether all found room.
    fn replace(&mut self, index: u32, word: u32, base: Leaf) {
        let stride = &mut self.strides[index as usize];
        stride.dirty = false;
        self.built.push(Built {
            stride: index,
            word: std::mem::replace(&mut stride.word, word),
            base: std::mem::replace(&mut stride.base, base),
        });
    }

    fn build_node(
        &mut self,
        shared: &Shared,
        index: u32,
        base: Leaf,
        room: Room,
    ) -> Result<u32, Full> {
        let mut slots = [base; SLOTS];
        let children = self.strides[index as usize].paint(&mut slots);
        for at in children..self.strides[index as usize].entries().len() {
            let entry = self.strides[index as usize].entries()[at];
            let Some(slot) = entry.child_slot() else {
                continue;
            };
            slots[slot] = self.word_below(shared, entry.value(), slots[slot], room)?;
        }
        if slots.iter().all(|&word| word == slots[0]) {
            return Ok(slots[0]);
        }
        let node = Encoded::new(&slots, &F::ENTRIES);
        self.place_node(shared, self.strides[index as usize].word, &node, room)
    }

    /// The word of a child, which is built if need be.
    fn word_below(
        &mut self,
        shared: &Shared,
        child: u32,
        inherited: Leaf,
        room: Room,
    ) -> Result<u32, Full> {
        let known = &self.strides[child as usize];
        if known.dirty || known.base != inherited || known.word == PASSED {
            self.build(shared, child, inherited, room)
        } else {
            Ok(known.word)
        }
    }

    /// The path from a stride, if there is only one way on, long enough for one.
    fn path(&self, index: u32) -> Option<Path> {
        let (mut bits, mut len, mut end) = (0, 0, index);
        while F::IS_V6
            && len < MAX_PATH
            && let Some((slot, child)) = self.only_child(end)
        {
            bits |= (slot as u64) << (64 - STRIDE - len);
            len += STRIDE;
            end = child;
        }
        (len >= MIN_PATH).then_some(Path { bits, len, end })
    }

    /// Slot and index of the only child with prefixes, if a stride has no prefix itself. Children without are about to go.
    fn only_child(&self, index: u32) -> Option<(usize, u32)> {
        let mut only = None;
        for entry in self.strides[index as usize].entries() {
            let child = (entry.child_slot()?, entry.value());
            if self.has_prefix(child.1) && only.replace(child).is_some() {
                return None;
            }
        }
        only
    }

    /// Whether a prefix is in a stride or below it.
    fn has_prefix(&self, index: u32) -> bool {
        let mut entries = self.strides[index as usize].entries().iter();
        entries.any(|entry| entry.child_slot().is_none() || self.has_prefix(entry.value()))
    }

    fn build_path(
        &mut self,
        shared: &Shared,
        index: u32,
        path: &Path,
        base: Leaf,
        room: Room,
    ) -> Result<u32, Full> {
        let inside = self.word_below(shared, path.end, base, room)?;
        self.pass_below(index, path.end);
        if inside == base {
            return Ok(base);
        }
        let node = Encoded::path(path.bits, path.len, inside, base);
        self.place_node(shared, self.strides[index as usize].word, &node, room)
    }

    /// Takes their nodes from the strides below one, down to the end of a path.
    fn pass_below(&mut self, index: u32, end: u32) {
        for at in 0..self.strides[index as usize].entries().len() {
            let child = self.strides[index as usize].entries()[at].value();
            if child != end {
                self.replace(child, PASSED, self.strides[child as usize].base);
                self.pass_below(child, end);
            }
        }
    }

    /// Where a node is: the old place if it has the same content, else a new one.
    fn place_node(
        &mut self,
        shared: &Shared,
        old: u32,
        node: &Encoded,
        room: Room,
    ) -> Result<u32, Full> {
        let nodes = &shared.tree::<F>().nodes;
        if old & NODE != 0 && node.is_at(nodes, old & !NODE) {
            return Ok(old);
        }
        if self.slab.must_grow(node.words()) {
            self.reclaim(shared);
        }
        let offset = self.slab.allocate(node.words(), room).ok_or(Full)?;
        node.write(nodes, offset);
        Ok(NODE | offset)
    }

    /// Publishes what was built and retires what it replaces.
    pub(crate) fn commit(&mut self, shared: &Shared) {
        let tree = shared.tree::<F>();
        self.updates += 1;
        for (top, word) in self.pending.drain(..) {
            match top {
                Top::Slot(slot) if self.root.get(slot) != word => {
                    self.root.set(slot, word);
                    if let Some(dir24) = &tree.dir24 {
                        dir24.store(&tree.nodes, slot, word);
                    }
                }
                Top::Slot(_) => {}
                Top::Outside => tree.outside().store(word, Ordering::Release),
                Top::Further(number) => tree.top(number).store(word, Ordering::Release),
            }
        }
        let mut epoch = None;
        for built in self.built.drain(..) {
            let now = self.strides[built.stride as usize].word;
            if built.word & NODE != 0 && built.word != now {
                let epoch = *epoch.get_or_insert_with(|| shared.epochs.advance());
                self.retired.push_back((epoch, built.word & !NODE));
            }
        }
    }

    /// Frees what was built since the last commit.
    pub(crate) fn roll_back(&mut self, shared: &Shared) {
        self.pending.clear();
        while let Some(built) = self.built.pop() {
            let stride = &mut self.strides[built.stride as usize];
            let made = std::mem::replace(&mut stride.word, built.word);
            stride.base = built.base;
            if made & NODE != 0 && made != built.word {
                self.free(shared, made & !NODE);
            }
        }
    }

    /// Frees the retired nodes that no reader can hold any more; returns how many.
    pub(crate) fn reclaim(&mut self, shared: &Shared) -> usize {
        let Some(&(oldest, _)) = self.retired.front() else {
            return 0;
        };
        let passed = shared.epochs.passed();
        let before = self.retired.len();
        if oldest > passed {
            return 0;
        }
        while let Some(&(epoch, offset)) = self.retired.front()
            && epoch <= passed
        {
            self.retired.pop_front();
            self.free(shared, offset);
        }
        before - self.retired.len()
    }

    fn free(&mut self, shared: &Shared, offset: u32) {
        if let Some(page) = self.slab.free(offset) {
            shared.tree::<F>().nodes.release(page);
        }
    }
}
