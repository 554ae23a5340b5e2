//! The readers' side of one family: words and nodes as described in `node`.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::MAX_TABLES;
use crate::dir24::Dir24;
use crate::family::{Family, root_len};
use crate::program::ProgramMap;
use crate::region::{PAGE, Pages, Region};

/// The published side of one family.
#[derive(Debug)]
pub(crate) struct Tree {
    /// A word for each value of the first bits.
    pub(crate) root: Arc<Region>,
    /// The nodes.
    pub(crate) nodes: Region,
    /// Three words.
    header: Region,
    /// The table in front of the tree, if so configured.
    pub(crate) dir24: Option<Dir24>,
    /// Two words for each further table.
    further: Region,
}

impl Tree {
    pub(crate) fn new<F: Family>(nodes: usize, map: Option<ProgramMap<'_>>) -> Option<Self> {
        // huge pages were not faster here, and would fill the sparse root
        let reserve = |octets| Region::reserve(octets, Pages::Small);
        let [header, root, nodes] = match map {
            Some(map) => map.regions::<F>(nodes)?,
            None => [
                reserve(PAGE)?,
                reserve(root_len::<F>() * 4)?,
                reserve(nodes)?,
            ],
        };
        Some(Self {
            root: Arc::new(root),
            nodes,
            header,
            dir24: None,
            further: reserve(MAX_TABLES * 8)?,
        })
    }

    /// Next hop of addresses in the root's range whose leaf is 0.
    #[inline(always)]
    pub(crate) fn inherit(&self) -> &AtomicU32 {
        &self.header.words32()[0]
    }

    /// Next hop of other addresses whose leaf is 0.
    #[inline(always)]
    pub(crate) fn default(&self) -> &AtomicU32 {
        &self.header.words32()[1]
    }

    /// The word for the first six bits of addresses outside the root's range.
    #[inline(always)]
    pub(crate) fn outside(&self) -> &AtomicU32 {
        &self.header.words32()[2]
    }

    /// The word for the first six bits of addresses in a further table.
    #[inline(always)]
    pub(crate) fn top(&self, number: usize) -> &AtomicU32 {
        &self.further.words32()[2 * number]
    }

    /// The leaf of a further table's prefix of length 0.
    #[inline(always)]
    pub(crate) fn further_default(&self, number: usize) -> &AtomicU32 {
        &self.further.words32()[2 * number + 1]
    }
}
