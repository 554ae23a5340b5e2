//! The readers' side of one family: words and nodes as described in `node`.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::dir24::Dir24;
use crate::family::{Family, root_len};
use crate::region::{Pages, Region};

/// The published side of one family.
#[derive(Debug)]
pub(crate) struct Tree {
    /// A word for each value of the first bits.
    pub(crate) root: Arc<Region>,
    /// The nodes.
    pub(crate) nodes: Region,
    /// Next hop of addresses in the root's range whose leaf is 0.
    pub(crate) inherit: AtomicU32,
    /// Next hop of other addresses whose leaf is 0.
    pub(crate) default: AtomicU32,
    /// The word for the first six bits of addresses outside the root's range.
    pub(crate) outside: AtomicU32,
    /// The table in front of the tree, if so configured.
    pub(crate) dir24: Option<Dir24>,
}

impl Tree {
    pub(crate) fn new<F: Family>(nodes: usize) -> Option<Self> {
        // huge pages were not faster here, and would fill the sparse root
        let pages = Pages::Small;
        Some(Self {
            root: Arc::new(Region::reserve(root_len::<F>() * 4, pages)?),
            nodes: Region::reserve(nodes, pages)?,
            inherit: AtomicU32::new(0),
            default: AtomicU32::new(0),
            outside: AtomicU32::new(0),
            dir24: None,
        })
    }
}
