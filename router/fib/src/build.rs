//! How a table builds nodes, publishes them and frees old ones.

use std::sync::atomic::Ordering;

use crate::family::{Family, root_len, slot};
use crate::node::{Encoded, NODE, SLOTS, STRIDE};
use crate::publish::Shared;
use crate::slab::Room;
use crate::stride::{Leaf, MAX_STRIDES, Stride, child_place, prefix_place};
use crate::table::{Built, Full, OUTSIDE, Table, Top};

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
        let mut slots = [base; SLOTS];
        let children = self.strides[index as usize].paint(&mut slots);
        for at in children..self.strides[index as usize].entries().len() {
            let entry = self.strides[index as usize].entries()[at];
            let Some(slot) = entry.child_slot() else {
                continue;
            };
            let (child, inherited) = (entry.value(), slots[slot]);
            let known = &self.strides[child as usize];
            slots[slot] = if known.dirty || known.base != inherited {
                self.build(shared, child, inherited, room)?
            } else {
                known.word
            };
        }
        let word = self.word_of(shared, self.strides[index as usize].word, &slots, room)?;
        let stride = &mut self.strides[index as usize];
        stride.dirty = false;
        self.built.push(Built {
            stride: index,
            word: std::mem::replace(&mut stride.word, word),
            base: std::mem::replace(&mut stride.base, base),
        });
        Ok(word)
    }

    /// The word for these slots: a leaf if all are equal, the old node if it has the same content,
    /// else a new node.
    fn word_of(
        &mut self,
        shared: &Shared,
        old: u32,
        slots: &[u32; SLOTS],
        room: Room,
    ) -> Result<u32, Full> {
        if slots.iter().all(|&word| word == slots[0]) {
            return Ok(slots[0]);
        }
        let nodes = &shared.tree::<F>().nodes;
        let node = Encoded::new(slots, &F::ENTRIES);
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
