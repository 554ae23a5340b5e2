//! DIR-24-8 (Gupta, Lin, McKeown 1998): one entry for each /24 before the tree.
//!
//! It takes 32 MiB that readers touch and stores up to 64 entries for an update of one /18, but
//! flows that stay in the cache need one load each. Prefixes longer than /24 are the tree's.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::node::{FAR, NODE, SLOTS, narrow_slot};
use crate::region::{PAGE, Pages, Region};

/// The leaf of each /24, or [`FAR`]: the tree knows.
#[derive(Debug)]
pub(crate) struct Dir24(Region);

impl Dir24 {
    /// An empty table; `None` if the system refuses the memory.
    pub(crate) fn new() -> Option<Self> {
        Region::reserve((2 << 24) + PAGE, Pages::Huge).map(Self)
    }

    /// Octets readers touch.
    pub(crate) fn octets(&self) -> usize {
        2 << 24
    }

    /// Stores the entries of a root slot whose word has been published.
    pub(crate) fn store(&self, nodes: &Region, slot: usize, word: u32) {
        let entries = &self.0.words16()[slot * SLOTS..][..SLOTS];
        for (slot, entry) in entries.iter().enumerate() {
            let found = match word & NODE {
                0 => word,
                _ => narrow_slot(nodes, word & !NODE, slot as u32),
            };
            let new = if found < FAR.into() {
                found as u16
            } else {
                FAR
            };
            if entry.load(Ordering::Relaxed) != new {
                entry.store(new, Ordering::Release);
            }
        }
    }

    /// The entries, and some behind them.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[AtomicU16] {
        self.0.words16()
    }
}
