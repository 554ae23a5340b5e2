//! Sizes and counters of a FIB.

use crate::dir24::Dir24;
use crate::family::Family;
use crate::node::STRIDE;
use crate::publish::Shared;
use crate::stride::Stride;
use crate::table::Table;

/// Size and work of a FIB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FibStats {
    /// IPv4 prefixes.
    pub prefixes4: usize,
    /// IPv6 prefixes.
    pub prefixes6: usize,
    /// Next-hop objects.
    pub next_hops: usize,
    /// Octets of these objects, and of what readers and the control side keep for each.
    pub next_hop_bytes: usize,
    /// Octets readers may touch: the pages of roots and nodes in use.
    pub table_bytes: usize,
    /// Octets of the control side's lists.
    pub control_bytes: usize,
    /// Objects waiting for readers to pass a quiescent point.
    pub retired: usize,
    /// The IPv4 table.
    pub ipv4: FamilyStats,
    /// The IPv6 table.
    pub ipv6: FamilyStats,
    /// The writer's epoch: changes so far that readers have to pass before something is freed.
    pub epoch: u64,
    /// The newest epoch that all readers have passed; equal to `epoch` if no reader is behind.
    pub passed: u64,
    /// `epoch` when something was last freed; 0 for never.
    pub reclaimed: u64,
}

/// Size and work of one family's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStats {
    /// Nodes in memory, including retired ones.
    pub nodes: usize,
    /// Most steps of a look-up: the root, and nodes below it.
    pub depth: u32,
    /// Octets readers may touch.
    pub table_bytes: usize,
    /// Octets of the pages of nodes; `max_bytes` limits these.
    pub node_bytes: usize,
    /// Limit of `node_bytes`; insertions beyond it are refused.
    pub max_bytes: usize,
    /// Octets of the pages of nodes that the XDP program cannot read, in a FIB that it reads.
    pub beyond_program: usize,
    /// Octets of the control side's lists.
    pub control_bytes: usize,
    /// Nodes waiting for readers to pass a quiescent point.
    pub retired: usize,
    /// Changes made visible to readers: updates, and root slots of bulk loads.
    pub updates: u64,
    /// Insertions refused because the limit was reached.
    pub refused: u64,
}

impl<F: Family> Table<F> {
    pub(crate) fn stats(&self, shared: &Shared, max_bytes: usize) -> FamilyStats {
        let front = shared.tree::<F>().dir24.as_ref().map_or(0, Dir24::octets);
        let deepest = self.depths.iter().rposition(|&strides| strides > 0);
        let root = (F::NODES / STRIDE) as usize;
        FamilyStats {
            nodes: self.slab.blocks(),
            depth: deepest.map_or(1, |deepest| (deepest + 2).saturating_sub(root) as u32),
            table_bytes: self.root.octets() + self.slab.octets() + front,
            node_bytes: self.slab.octets(),
            max_bytes,
            beyond_program: match shared.program {
                Some(_) => self
                    .slab
                    .octets_from(shared.tree::<F>().nodes.in_map_pages()),
                None => 0,
            },
            control_bytes: self.control_octets(),
            retired: self.retired.len(),
            updates: self.updates,
            refused: self.refused,
        }
    }

    /// Octets of the lists, as requested from the allocator.
    fn control_octets(&self) -> usize {
        let lists: usize = self.strides.iter().map(Stride::capacity_octets).sum();
        lists
            + self.strides.capacity() * size_of::<Stride>()
            + self.unused.capacity() * 4
            + self.retired.capacity() * size_of::<(u64, u32)>()
            + self.tops.octets()
            + self.short.octets()
            + self.slab.control_octets()
    }
}
