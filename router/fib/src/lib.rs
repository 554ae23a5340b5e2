//! Where a packet goes: longest-prefix match for IPv4 and IPv6, next hops, publication.
//!
//! One [`FibWriter`] changes the tables in place, route by route; any number of [`FibReader`]s
//! (one a worker) look up meanwhile. A reader never locks, waits or allocates: every entry is one
//! atomic word, every next hop one atomic pointer, and what was replaced is reclaimed only after
//! each reader has passed a quiescent point.
//!
//! A table is a root array, indexed by the first bits, and run-length coded nodes of 64 slots:
//! 18-6-6-2 bits for IPv4; for IPv6 21 bits below 2000::/3, and then six at a time, or up to 60 where
//! there is only one way. It takes a few megabytes for the whole Internet, so that look-ups mostly hit the
//! caches. [`FibConfig`] limits its memory. Further tables ([`TableId`]), for policy routing and VRFs,
//! have one word for a root.
#![deny(unsafe_code)]

mod build;
mod dir24;
mod encapsulation;
mod epoch;
mod family;
mod further;
mod ids;
mod load;
mod lookup;
mod marks;
mod nexthop;
mod node;
mod objects;
mod port;
mod prefix;
mod program;
#[allow(unsafe_code)]
mod publish;
mod reader;
#[allow(unsafe_code)]
mod region;
mod slab;
mod sparse;
mod stats;
mod stride;
/// The atomics that `epoch` uses.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}
mod table;
mod tree;
mod writer;

pub use bora_contract::Reason;
pub use encapsulation::{Encapsulation, Headers, OuterUdp};
pub use lookup::Simd;
pub use marks::UseMark;
pub use nexthop::{Adjacency, Group, Member, NextHop, NextHopId};
pub use port::PortId;
pub use prefix::{Prefix4, Prefix6, PrefixError};
pub use program::ProgramMap;
pub use publish::NextHops;
pub use reader::{FibHandle, FibReader, ProgramReader};
pub use stats::{FamilyStats, FibStats};
pub use writer::{FibWriter, Loaded, TableId};

/// Limits of a FIB. Memory is reserved as address space, and takes RAM only when used.
#[derive(Clone, Copy, Debug)]
pub struct FibConfig {
    /// Next-hop objects, at most [`MAX_NEXT_HOPS`].
    pub max_next_hops: u32,
    /// Readers at a time.
    pub max_readers: usize,
    /// Limit of IPv4 nodes, octets, at most 1 GiB; the root takes 1 MiB more. Insertions beyond it
    /// fail with [`FibError::TableFull`]; removals never do.
    pub max_bytes4: usize,
    /// Limit of IPv6 nodes, octets; the root takes 4 KiB more for each /14 in use, at most 8 MiB.
    pub max_bytes6: usize,
    /// Which CPU instructions look-ups use.
    pub simd: Simd,
    /// The IPv4 table.
    pub ipv4: Ipv4Table,
}

/// The structure of the IPv4 table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv4Table {
    /// The tree alone: small, fastest for traffic to many destinations and for updates.
    #[default]
    Tree,
    /// DIR-24-8, 32 MiB more: fastest for a few thousand destinations that stay in the cache.
    Dir24,
}

/// Most next-hop objects a FIB can have.
pub const MAX_NEXT_HOPS: u32 = 1 << 22;
const _: () = assert!(MAX_NEXT_HOPS < stride::MAX_LEAF);
/// Most further tables of a family.
pub const MAX_TABLES: usize = 4096;
/// Most octets of nodes a family can have, so that offsets in units of 16 bits fit in 31 bits.
pub const MAX_BYTES: usize = 1 << 30;

impl Default for FibConfig {
    fn default() -> Self {
        Self {
            max_next_hops: MAX_NEXT_HOPS,
            max_readers: 64,
            max_bytes4: 256 << 20,
            max_bytes6: 256 << 20,
            simd: Simd::Auto,
            ipv4: Ipv4Table::Tree,
        }
    }
}

/// Why the writer refused a call. The call has not changed the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// There are [`MAX_TABLES`] further tables already.
    #[error("there are {MAX_TABLES} tables already, or too many prefixes")]
    TablesFull,
    /// No such further table.
    #[error("table {0} does not exist")]
    NoSuchTable(usize),
    /// All next-hop ids are taken.
    #[error("all {0} next hops are in use; raise max_next_hops")]
    NextHopsFull(u32),
    /// No such next hop.
    #[error("next hop {0} does not exist")]
    NoSuchNextHop(u32),
    /// A prefix or a group still uses it.
    #[error("next hop {0} is still used by {1} prefixes or groups")]
    NextHopInUse(u32, u32),
    /// A group may not contain a group.
    #[error("next hop {0} is a group; groups hold single next hops only")]
    NestedGroup(u32),
    /// The nodes have reached the limit.
    #[error("the table has reached its limit of {0} octets and has no room for this prefix")]
    TableFull(usize),
    /// There is no slot for another reader.
    #[error("all {0} readers are taken; raise max_readers")]
    ReadersFull(usize),
    /// The configuration asks for more next hops than there can be ids.
    #[error("max_next_hops is {0}; at most {MAX_NEXT_HOPS}")]
    TooManyNextHops(u32),
    /// The limit is larger than offsets can express.
    #[error("a limit of {0} octets is too large; at most {MAX_BYTES}")]
    TooManyBytes(usize),
    /// The system refuses to reserve the tables.
    #[error("the system refuses to reserve {0} octets of address space; lower the limits")]
    NoAddressSpace(usize),
    /// The CPU lacks the instructions asked for.
    #[error("this CPU cannot do {0:?} look-ups")]
    NoSimd(Simd),
}

/// Makes an empty FIB.
///
/// # Errors
/// [`FibError::TooManyNextHops`], [`FibError::TooManyBytes`], [`FibError::NoAddressSpace`] and
/// [`FibError::NoSimd`] for an impossible configuration.
pub fn new(config: FibConfig) -> Result<(FibWriter, FibHandle), FibError> {
    make(config, None)
}

/// Makes an empty FIB for the XDP program, too. What it may read is used again only after
/// [`ProgramReader::wait`].
///
/// # Errors
/// As [`new`]; [`FibError::NoAddressSpace`] also if a map cannot be mapped.
pub fn new_in(config: FibConfig, map: ProgramMap<'_>) -> Result<(FibWriter, FibHandle), FibError> {
    make(config, Some(map))
}

fn make(
    config: FibConfig,
    map: Option<ProgramMap<'_>>,
) -> Result<(FibWriter, FibHandle), FibError> {
    if config.max_next_hops > MAX_NEXT_HOPS {
        return Err(FibError::TooManyNextHops(config.max_next_hops));
    }
    let limit = config.max_bytes4.max(config.max_bytes6);
    if limit > MAX_BYTES {
        return Err(FibError::TooManyBytes(limit));
    }
    let marks = marks::Marks::new(map.map(|map| map.marks))
        .ok_or(FibError::NoAddressSpace(marks::OCTETS))?;
    let map = map.filter(|map| map.node_pages > 0);
    let shared = std::sync::Arc::new(publish::Shared::new(&config, map, marks)?);
    let writer = FibWriter::new(shared.clone(), &config, map)?;
    Ok((writer, FibHandle::new(shared)))
}
