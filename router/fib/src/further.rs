//! Further tables, for policy routing and VRFs: trees of the same nodes, from the first bit on.
//!
//! A table's root is one word, so that many tables fit, and its nodes lie beside those of the main table.
//! Where it has no prefix, a look-up finds leaf 0, and goes on with the next table.

use std::sync::atomic::Ordering;

use crate::MAX_TABLES;
use crate::family::{Family, Further};
use crate::node::{NODE, STRIDE};
use crate::publish::Shared;
use crate::stride::Leaf;
use crate::table::{FurtherTable, Route, Table};

impl<F: Family> Table<F> {
    /// Makes an empty table and returns its number; `None` if there are [`MAX_TABLES`].
    pub(crate) fn add_further(&mut self) -> Option<usize> {
        let free = self.further.iter().position(Option::is_none);
        let number = free.unwrap_or(self.further.len());
        if number >= MAX_TABLES || !self.has_strides() {
            return None;
        }
        let table = FurtherTable {
            top: self.add_stride(0),
            default: 0,
            len: 0,
        };
        match self.further.get_mut(number) {
            Some(place) => *place = Some(table),
            None => self.further.push(Some(table)),
        }
        Some(number)
    }

    /// Empties a table and frees its number. Returns the leaves that its prefixes had.
    pub(crate) fn remove_further(&mut self, shared: &Shared, number: usize) -> Vec<Leaf> {
        let routes = self.part_of(number, 0, usize::MAX).0;
        let Some(table) = self.further.get_mut(number).and_then(Option::take) else {
            return vec![];
        };
        let tree = shared.tree::<F>();
        tree.top(number).store(0, Ordering::Release);
        tree.further_default(number).store(0, Ordering::Release);
        let epoch = shared.epochs.advance();
        self.drop_strides(table.top, 0, epoch);
        self.updates += 1;
        routes.into_iter().map(|(_, _, leaf)| leaf).collect()
    }

    /// Removes a stride and all below it; their nodes are free when readers have passed `epoch`.
    fn drop_strides(&mut self, stride: u32, bit: u32, epoch: u64) {
        let state = &self.strides[stride as usize];
        let children: Vec<u32> = state
            .entries()
            .iter()
            .filter(|entry| entry.child_slot().is_some())
            .map(|entry| entry.value())
            .collect();
        if state.word & NODE != 0 {
            self.retired.push_back((epoch, state.word & !NODE));
        }
        for child in children {
            self.drop_strides(child, bit + STRIDE, epoch);
        }
        self.remove_stride(stride, bit);
    }

    pub(crate) fn further(&self, number: usize) -> Option<&FurtherTable> {
        self.further.get(number)?.as_ref()
    }

    /// The first stride of a further table. The caller has checked that there is such.
    pub(crate) fn top_of(&self, number: usize) -> u32 {
        self.further(number).map_or(0, |table| table.top)
    }

    pub(crate) fn default_leaf(&self, further: Further) -> Leaf {
        match further {
            None => self.default,
            Some(number) => self.further(number).map_or(0, |table| table.default),
        }
    }

    pub(crate) fn default_of(&mut self, further: Further) -> &mut Leaf {
        match further.and_then(|number| self.further[number].as_mut()) {
            None => &mut self.default,
            Some(table) => &mut table.default,
        }
    }

    pub(crate) fn len_of(&mut self, further: Further) -> &mut usize {
        match further.and_then(|number| self.further[number].as_mut()) {
            None => &mut self.len,
            Some(table) => &mut table.len,
        }
    }

    /// At least `count` prefixes of a further table from `from` on, if there are as many, and where to
    /// continue; `None` after the last. Start with 0.
    pub(crate) fn part_of(
        &self,
        number: usize,
        from: usize,
        count: usize,
    ) -> (Vec<Route>, Option<usize>) {
        let mut found = vec![];
        let Some(table) = self.further(number) else {
            return (found, None);
        };
        if from == 0 && table.default != 0 {
            found.push((0, 0, table.default));
        }
        let entries = self.strides[table.top as usize].entries();
        let mut at = from;
        while found.len() < count && at < entries.len() {
            self.collect_entry(entries[at], 0, 0, &mut found);
            at += 1;
        }
        (found, (at < entries.len()).then_some(at))
    }
}
