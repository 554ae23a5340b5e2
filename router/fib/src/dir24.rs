//! DIR-24-8 (Gupta, Lin, McKeown 1998): one entry for each /24 before the tree.
//!
//! Readers touch up to 32 MiB, and an update of a /18 stores 64 entries, but a look-up is one load,
//! which is fast while the flows fit into the cache. Prefixes longer than /24 are in the tree.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::node::{FAR, NODE, SLOTS, narrow_slot};
use crate::region::{PAGE, Pages, Region};

/// The leaf of each /24, or [`FAR`]: look it up in the tree.
#[derive(Debug)]
pub(crate) struct Dir24(Region);

impl Dir24 {
    /// An empty table; `None` if the system refuses the memory.
    pub(crate) fn new() -> Option<Self> {
        Region::reserve((2 << 24) + PAGE, Pages::Huge).map(Self)
    }

    /// Octets that readers may touch.
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

    /// The entries, and spare words behind them for wide loads.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[AtomicU16] {
        self.0.words16()
    }
}
