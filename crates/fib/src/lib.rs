//! Where a packet goes: longest-prefix match for IPv4 and IPv6, next hops, publication.
//!
//! One [`FibWriter`] changes the tables in place, route by route; any number of [`FibReader`]s
//! (one a worker) look up meanwhile. A reader never locks, waits or allocates: every entry is one
//! atomic word, every next hop one atomic pointer, and what was replaced is reclaimed only after
//! each reader has passed a quiescent point.
//!
//! The table behind is DIR-24-8 for IPv4 (Gupta, Lin, McKeown 1998) and a multibit trie with
//! strides 16-8-8-… for IPv6; both are one structure ([`trie`]) with another root.
#![deny(unsafe_code)]

mod nexthop;
mod prefix;
#[allow(unsafe_code)]
mod publish;
mod reader;
mod rib;
pub mod synthetic;
mod trie;
mod writer;

pub use nexthop::{Adjacency, Group, NextHop, NextHopId, PortId, PuntReason};
pub use prefix::{Prefix4, Prefix6, PrefixError};
pub use reader::{FibHandle, FibReader};
pub use writer::{FibStats, FibWriter};

/// Limits of a FIB; everything is reserved as address space and touched when used.
#[derive(Clone, Copy, Debug)]
pub struct FibConfig {
    /// Next-hop objects, at most 65535.
    pub max_next_hops: u32,
    /// Readers at a time.
    pub max_readers: usize,
    /// Nodes of 256 entries (1 KiB each) for IPv4 prefixes longer than /24.
    pub max_nodes4: u32,
    /// Nodes of 256 entries (1 KiB each) for IPv6.
    pub max_nodes6: u32,
    /// Instructions for look-ups.
    pub simd: Simd,
}

/// Instructions for batch look-ups. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// The widest the CPU has.
    #[default]
    Auto,
    /// AVX-512 F, BW, DQ, VL and VPOPCNTDQ.
    Avx512,
    /// AVX2.
    Avx2,
    /// None.
    Scalar,
}

impl Default for FibConfig {
    fn default() -> Self {
        Self {
            max_next_hops: 65_535,
            max_readers: 64,
            max_nodes4: 1 << 16,
            max_nodes6: 1 << 18,
            simd: Simd::Auto,
        }
    }
}

/// Why the writer refused. The tables are as they were before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
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
    /// No node left.
    #[error("the table's {0} nodes are in use; it has no room for this prefix")]
    TableFull(u32),
    /// No slot for another reader.
    #[error("all {0} readers are taken; raise max_readers")]
    ReadersFull(usize),
    /// More next hops than ids have bits.
    #[error("max_next_hops is {0}; at most 65535")]
    TooManyNextHops(u32),
}

/// Makes an empty FIB.
///
/// # Errors
/// [`FibError::TooManyNextHops`] for a configuration that cannot be.
pub fn new(config: FibConfig) -> Result<(FibWriter, FibHandle), FibError> {
    if config.max_next_hops > 65_535 {
        return Err(FibError::TooManyNextHops(config.max_next_hops));
    }
    let shared = std::sync::Arc::new(publish::Shared::new(&config));
    Ok((
        FibWriter::new(shared.clone(), config.max_next_hops),
        FibHandle::new(shared),
    ))
}
