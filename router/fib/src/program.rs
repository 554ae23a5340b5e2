//! The part of the tables that the XDP program reads as well (`router/xdp/bpf/fib.h`): a BPF array map of pages,
//! which the kernel holds as a whole in memory.
//!
//! Roots, headers and as many nodes as there is room for lie in the map, and the engine's workers read
//! them there, too. Next hops are copied: the program cannot follow our pointers. A word for each id
//! says what becomes of its packets, and names a neighbour in a list whose entries never change while
//! a program may read them.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bora_contract::{
    FIB_ADJACENCIES_AT, FIB_HEADERS, FIB_HOPS, FIB_HOPS_AT, FIB_MEMBER, FIB_NODES, FIB_REASON,
    FIB_ROOT4, FIB_ROOT6,
};

use crate::Reason;
use crate::family::{Family, V4, V6, root_len};
use crate::marks::UseMark;
use crate::nexthop::{Adjacency, NextHop};
use crate::region::{PAGE, Pages, Region};

/// Words of 8 octets of an adjacency (`struct fib_adjacency`).
const WORDS: usize = 4;
const OCTETS: usize = WORDS * 8;

const fn pages(octets: usize) -> u32 {
    (octets / PAGE) as u32
}

// each part ends where the next one begins
const _: () = {
    let hops = FIB_HOPS as usize;
    assert!(FIB_HOPS_AT == FIB_HEADERS + 2);
    assert!(FIB_ADJACENCIES_AT == FIB_HOPS_AT + pages(hops * 4));
    assert!(FIB_ROOT4 == FIB_ADJACENCIES_AT + pages(hops * OCTETS));
    assert!(FIB_ROOT6 == FIB_ROOT4 + pages(root_len::<V4>() * 4));
    assert!(FIB_NODES == FIB_ROOT6 + pages(root_len::<V6>() * 4));
};

/// The maps of the XDP program. Both are BPF arrays that can be mapped, and all zero.
#[derive(Clone, Copy, Debug)]
pub struct ProgramMap<'a> {
    /// Pages that the program reads: `FIB_NODES + 2 * node_pages`.
    pub map: BorrowedFd<'a>,
    /// Pages for nodes of each IP version; 0 if the program looks up nothing in the FIB.
    pub node_pages: u32,
    /// Which neighbours the program has sent packets to: `USE_MARKS` bits.
    pub marks: BorrowedFd<'a>,
}

impl ProgramMap<'_> {
    /// Header, root and nodes of a family; the last have more room outside the map.
    pub(crate) fn regions<F: Family>(self, nodes: usize) -> Option<[Region; 3]> {
        let version = u32::from(F::IS_V6);
        let root = [FIB_ROOT4, FIB_ROOT6][version as usize];
        let first = FIB_NODES + version * self.node_pages;
        let in_map = self.node_pages.min((nodes / PAGE) as u32);
        Some([
            self.region(FIB_HEADERS + version, PAGE)?,
            self.region(root, root_len::<F>() * 4)?,
            Region::in_map(nodes, Pages::Small, self.map, first..first + in_map)?,
        ])
    }

    fn region(self, first: u32, octets: usize) -> Option<Region> {
        let pages = pages(octets);
        Region::in_map(octets, Pages::Small, self.map, first..first + pages)
    }
}

/// The next hops as the program reads them.
#[derive(Debug)]
pub(crate) struct ProgramHops {
    /// A word for each id.
    words: Region,
    adjacencies: Region,
    /// Free adjacencies below `next`, and the first that was never used.
    free: Vec<u32>,
    next: u32,
}

impl ProgramHops {
    pub(crate) fn new(map: ProgramMap<'_>) -> Option<Self> {
        let hops = FIB_HOPS as usize;
        Some(Self {
            words: map.region(FIB_HOPS_AT, hops * 4)?,
            adjacencies: map.region(FIB_ADJACENCIES_AT, hops * OCTETS)?,
            free: vec![],
            next: 1, // 0 says that only Linux knows
        })
    }

    /// Publishes what becomes of packets for an id. Returns the adjacency that was for it, to be given
    /// back when no program can read it any more.
    #[must_use]
    pub(crate) fn set(&mut self, id: u32, object: Option<&NextHop>) -> Option<u32> {
        if id >= FIB_HOPS {
            return None;
        }
        let word = object.map_or(0, |object| self.word(object));
        let slot = &self.words.words32()[id as usize];
        let old = slot.load(Ordering::Relaxed);
        slot.store(word, Ordering::Release);
        let is_adjacency = old != 0 && old & (FIB_REASON | FIB_MEMBER) == 0;
        is_adjacency.then_some(old)
    }

    /// Frees an adjacency.
    pub(crate) fn give(&mut self, adjacency: u32) {
        self.free.push(adjacency);
    }

    fn word(&mut self, object: &NextHop) -> u32 {
        match object {
            NextHop::Forward(adjacency) => self.add(adjacency).unwrap_or(0),
            NextHop::Group(group) => group
                .only()
                .map(|only| only.0)
                .filter(|&id| id < FIB_HOPS)
                .map_or(0, |id| FIB_MEMBER | id),
            NextHop::Blackhole => FIB_REASON | Reason::Blackhole as u32,
            NextHop::Punt {
                reason:
                    reason @ (Reason::NoRoute
                    | Reason::Unreachable
                    | Reason::Shaped
                    | Reason::RouteException),
                ..
            } => FIB_REASON | *reason as u32,
            NextHop::Tunnel(_) | NextHop::Punt { .. } => 0,
        }
    }

    fn add(&mut self, adjacency: &Adjacency) -> Option<u32> {
        let number = self.free.pop().or_else(|| {
            self.next = (self.next < FIB_HOPS).then_some(self.next + 1)?;
            Some(self.next - 1)
        })?;
        let mut octets = [0; OCTETS];
        octets[..14].copy_from_slice(&adjacency.l2);
        octets[14..16].copy_from_slice(&adjacency.mtu.to_ne_bytes());
        octets[16..18].copy_from_slice(&adjacency.port.0.to_ne_bytes());
        let mark = adjacency.unconfirmed.map_or(0, UseMark::get);
        octets[20..24].copy_from_slice(&mark.to_ne_bytes());
        let place = &self.adjacencies.words64()[number as usize * WORDS..];
        for (word, octets) in place.iter().zip(octets.as_chunks().0) {
            word.store(u64::from_ne_bytes(*octets), Ordering::Relaxed);
        }
        Some(number)
    }
}
