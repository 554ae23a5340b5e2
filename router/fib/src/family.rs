//! How the tables of IPv4 and IPv6 differ.

use crate::node::Entries;

/// A family's geometry. Addresses are left-aligned in 128 bits.
pub(crate) trait Family {
    /// First bit that indexes the root; the bits before are 0 in IPv4, 001 (2000::/3) in IPv6.
    const FIRST: u32;
    /// First bit that indexes nodes.
    const NODES: u32;
    /// Width of node entries.
    const ENTRIES: Entries;
    /// Whether it is IPv6.
    const IS_V6: bool;
}

/// 18 bits of root, then nodes for /19-24, /25-30 and /31-32.
#[derive(Debug)]
pub(crate) struct V4;

impl Family for V4 {
    const FIRST: u32 = 0;
    const NODES: u32 = 18;
    const ENTRIES: Entries = Entries::Narrow;
    const IS_V6: bool = false;
}

/// 21 bits of root (2000::/24 to 3fff:ff00::/24), then nodes down to /128. Prefixes outside
/// 2000::/3 are in a small tree of nodes that starts at the first bit.
#[derive(Debug)]
pub(crate) struct V6;

impl Family for V6 {
    const FIRST: u32 = 3;
    const NODES: u32 = 24;
    const ENTRIES: Entries = Entries::Wide;
    const IS_V6: bool = true;
}

/// Where a prefix is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `::/0`.
    Default,
    /// Not longer than the root's bits: its index in a binary heap whose index 1 is the root's
    /// range.
    Short(usize),
    /// Below this root slot.
    Long(usize),
    /// Outside the root's range, or shorter than it.
    Outside,
    /// The place is in a further table: [`Further`].
    Further(usize),
}

/// Which table of a family: the main one, with the root, or a further one by its number.
pub(crate) type Further = Option<usize>;

/// The place of a prefix in a table.
pub(crate) fn place_in<F: Family>(further: Further, addr: u128, len: u32) -> Place {
    match further {
        None => place::<F>(addr, len),
        Some(_) if len == 0 => Place::Default,
        Some(number) => Place::Further(number),
    }
}

/// The place of a prefix in the main table.
pub(crate) fn place<F: Family>(addr: u128, len: u32) -> Place {
    if F::FIRST > 0 && (len < F::FIRST || addr >> (128 - F::FIRST) != 1) {
        return if len == 0 {
            Place::Default
        } else {
            Place::Outside
        };
    }
    let index = (addr << F::FIRST >> (128 - (F::NODES - F::FIRST))) as usize;
    if len > F::NODES {
        Place::Long(index)
    } else {
        Place::Short((1 << (F::NODES - F::FIRST) | index) >> (F::NODES - len))
    }
}

/// Root slots.
pub(crate) const fn root_len<F: Family>() -> usize {
    1 << (F::NODES - F::FIRST)
}

/// The slot of an address in the node that starts at a bit.
pub(crate) fn slot(addr: u128, bit: u32) -> u32 {
    (addr << bit >> 122) as u32
}
