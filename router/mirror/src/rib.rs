//! The kernel's routes of one family, compact enough for the whole Internet.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_fib::{FibError, FibWriter, NextHopId, Prefix4, Prefix6, TableId};

use crate::keys::TargetId;

/// A prefix of either family. Addresses are numbers, those of IPv4 too.
pub(crate) trait Prefix: Copy + Eq + Hash + Ord + fmt::Display + 'static {
    const BITS: u8;
    const V6: bool;
    /// Prefixes that always go to the kernel, whatever its tables say.
    const FIXED: &'static [(u128, u8)];

    fn masked(address: u128, len: u8) -> Self;
    fn parts(self) -> (u128, u8);
    fn ip(address: u128) -> IpAddr;
    fn fib_get(self, fib: &FibWriter, table: TableId) -> Option<NextHopId>;
    fn fib_insert(self, fib: &mut FibWriter, table: TableId, id: NextHopId)
    -> Result<(), FibError>;
    /// Inserts many; returns those that found no room.
    fn fib_load(
        fib: &mut FibWriter,
        table: TableId,
        all: &[(Self, NextHopId)],
    ) -> Result<Vec<Self>, FibError>;
    fn fib_remove(self, fib: &mut FibWriter, table: TableId);
    /// About `count` prefixes from `from` on, and where to continue.
    fn fib_part(
        fib: &FibWriter,
        table: TableId,
        from: usize,
        count: usize,
    ) -> (Vec<(Self, NextHopId)>, Option<usize>);
    fn fib_len(fib: &FibWriter, table: TableId) -> usize;
    fn add_table(fib: &mut FibWriter) -> Result<TableId, FibError>;
    fn remove_table(fib: &mut FibWriter, table: TableId);

    /// First and last address.
    fn range(self) -> (u128, u128) {
        let (first, len) = self.parts();
        let span = 1u128
            .checked_shl(u32::from(Self::BITS - len))
            .map_or(u128::MAX, |n| n - 1);
        (first, first + span)
    }

    /// Whether `other` lies inside, or is the same.
    fn covers(self, other: Self) -> bool {
        other.parts().1 >= self.parts().1 && Self::masked(other.parts().0, self.parts().1) == self
    }

    fn is_host(self) -> bool {
        self.parts().1 == Self::BITS
    }

    fn is_fixed(self) -> bool {
        Self::FIXED
            .iter()
            .any(|&(address, len)| Self::masked(address, len).covers(self))
    }
}

/// An address as a number; the caller must know the family.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

impl Prefix for Prefix4 {
    const BITS: u8 = 32;
    const V6: bool = false;
    /// 0.0.0.0, loopback, multicast, limited broadcast.
    const FIXED: &'static [(u128, u8)] = &[
        (0, 32),
        (0x7f00_0000, 8),
        (0xe000_0000, 4),
        (0xffff_ffff, 32),
    ];

    fn masked(address: u128, len: u8) -> Self {
        Self::masked(address as u32, len)
    }
    fn parts(self) -> (u128, u8) {
        (u128::from(self.addr()), self.len())
    }
    fn ip(address: u128) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(address as u32))
    }
    fn fib_get(self, fib: &FibWriter, table: TableId) -> Option<NextHopId> {
        fib.get4_in(table, self)
    }
    fn fib_insert(
        self,
        fib: &mut FibWriter,
        table: TableId,
        id: NextHopId,
    ) -> Result<(), FibError> {
        fib.insert4_in(table, self, id).map(drop)
    }
    fn fib_load(
        fib: &mut FibWriter,
        table: TableId,
        all: &[(Self, NextHopId)],
    ) -> Result<Vec<Self>, FibError> {
        Ok(fib.load4_in(table, all)?.refused)
    }
    fn fib_remove(self, fib: &mut FibWriter, table: TableId) {
        fib.remove4_in(table, self);
    }
    fn fib_part(
        fib: &FibWriter,
        table: TableId,
        from: usize,
        count: usize,
    ) -> (Vec<(Self, NextHopId)>, Option<usize>) {
        fib.part4_in(table, from, count)
    }
    fn fib_len(fib: &FibWriter, table: TableId) -> usize {
        fib.len4_in(table)
    }
    fn add_table(fib: &mut FibWriter) -> Result<TableId, FibError> {
        fib.add_table4()
    }
    fn remove_table(fib: &mut FibWriter, table: TableId) {
        fib.remove_table4(table);
    }
}

impl Prefix for Prefix6 {
    const BITS: u8 = 128;
    const V6: bool = true;
    /// `::`, `::1`, link-local, multicast.
    const FIXED: &'static [(u128, u8)] =
        &[(0, 128), (1, 128), (0xfe80 << 112, 10), (0xff << 120, 8)];

    fn masked(address: u128, len: u8) -> Self {
        Self::masked(address, len)
    }
    fn parts(self) -> (u128, u8) {
        (self.addr(), self.len())
    }
    fn ip(address: u128) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(address))
    }
    fn fib_get(self, fib: &FibWriter, table: TableId) -> Option<NextHopId> {
        fib.get6_in(table, self)
    }
    fn fib_insert(
        self,
        fib: &mut FibWriter,
        table: TableId,
        id: NextHopId,
    ) -> Result<(), FibError> {
        fib.insert6_in(table, self, id).map(drop)
    }
    fn fib_load(
        fib: &mut FibWriter,
        table: TableId,
        all: &[(Self, NextHopId)],
    ) -> Result<Vec<Self>, FibError> {
        Ok(fib.load6_in(table, all)?.refused)
    }
    fn fib_remove(self, fib: &mut FibWriter, table: TableId) {
        fib.remove6_in(table, self);
    }
    fn fib_part(
        fib: &FibWriter,
        table: TableId,
        from: usize,
        count: usize,
    ) -> (Vec<(Self, NextHopId)>, Option<usize>) {
        fib.part6_in(table, from, count)
    }
    fn fib_len(fib: &FibWriter, table: TableId) -> usize {
        fib.len6_in(table)
    }
    fn add_table(fib: &mut FibWriter) -> Result<TableId, FibError> {
        fib.add_table6()
    }
    fn remove_table(fib: &mut FibWriter, table: TableId) {
        fib.remove_table6(table);
    }
}

/// The tables of the default rules, in the order in which Linux looks them up; and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Table {
    Local,
    Main,
    Default,
    /// A table that other rules or VRFs use: its number.
    Further(u32),
}

/// Where a route is kept: 0 for the tables local, main and default, which are one in the FIB, or the number
/// of a further table. Linux has no table 0.
pub(crate) type Tree = u32;
pub(crate) const MERGED: Tree = 0;

impl Table {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Local => 255,
            Self::Main => 254,
            Self::Default => 253,
            Self::Further(number) => number,
        }
    }

    /// IPv6 has no rule for the table `default`. `None` if neither the default rules nor others use it.
    pub(crate) fn from_number(number: u32, v6: bool, further: &BTreeSet<u32>) -> Option<Self> {
        match number {
            255 => Some(Self::Local),
            254 => Some(Self::Main),
            253 if !v6 => Some(Self::Default),
            _ => further.contains(&number).then_some(Self::Further(number)),
        }
    }

    pub(crate) fn tree(self) -> Tree {
        match self {
            Self::Further(number) => number,
            Self::Local | Self::Main | Self::Default => MERGED,
        }
    }
}

/// Table, TOS, whether the route is source-specific, metric.
pub(crate) type Key = (Table, u8, bool, u32);

/// One route of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) table: Table,
    pub(crate) tos: u8,
    pub(crate) protocol: u8,
    /// It holds for some source addresses only (IPv6).
    pub(crate) source_specific: bool,
    pub(crate) metric: u32,
    /// IPv6's router preference; the largest wins.
    pub(crate) preference: u8,
    pub(crate) target: TargetId,
}

impl Route {
    /// Routes with equal keys occupy the same slot of the kernel's table.
    pub(crate) fn key(&self) -> Key {
        (self.table, self.tos, self.source_specific, self.metric)
    }

    /// Whether it holds only for some packets of the prefix, which a look-up by destination cannot
    /// tell apart.
    pub(crate) fn is_partial(&self) -> bool {
        self.tos != 0 || self.source_specific
    }
}

/// What the kernel does with a packet at a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Best {
    /// This route.
    Route(Route),
    /// TOS, source address or the input decide as well, so it is left to the kernel.
    Depends,
}

/// The routes of one prefix, best first. Nearly always one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Routes {
    One(Route),
    #[allow(clippy::box_collection)] // halves the size of the map's entries
    Many(Box<Vec<Route>>),
}

impl Routes {
    pub(crate) fn as_slice(&self) -> &[Route] {
        match self {
            Self::One(route) => std::slice::from_ref(route),
            Self::Many(routes) => routes,
        }
    }

    /// `None` if there are none.
    pub(crate) fn from_vec(mut routes: Vec<Route>) -> Option<Self> {
        match routes.len() {
            0 => None,
            1 => routes.pop().map(Self::One),
            _ => Some(Self::Many(Box::new(routes))),
        }
    }
}

/// How many hold only for some packets.
fn partial(routes: &[Route]) -> usize {
    routes.iter().filter(|route| route.is_partial()).count()
}

/// Logarithms of the number of shards: of the merged tables, and of a further one.
pub(crate) const MANY_SHARDS: u32 = 10;
pub(crate) const FEW_SHARDS: u32 = 4;

/// Hashes an address to a number of `bits` bits.
pub(crate) fn spread(address: u128, bits: u32) -> usize {
    let folded = (address ^ address >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// All routes of a family.
pub(crate) struct Rib<P> {
    /// Split into shards, so that a walk can be made in steps.
    shards: Vec<HashMap<P, Routes>>,
    shard_bits: u32,
    count: usize,
    /// Routes that hold only for some packets of their prefix.
    partial: usize,
    /// Number of prefixes of each length, so that a search tries only lengths that exist.
    lengths: [u32; 129],
    /// Local-table routes wider than a host: Linux looks that table up first, so they hide more
    /// specific routes of the other tables (AnyIP).
    wide_local: BTreeSet<P>,
    /// Prefixes in the table `default`, which Linux looks up only if the others have no route.
    in_default: BTreeSet<P>,
}

impl<P: Prefix> Rib<P> {
    pub(crate) fn new(shard_bits: u32) -> Self {
        Self {
            shards: (0..1 << shard_bits).map(|_| HashMap::new()).collect(),
            shard_bits,
            count: 0,
            partial: 0,
            lengths: [0; 129],
            wide_local: BTreeSet::new(),
            in_default: BTreeSet::new(),
        }
    }

    /// The shard that a prefix is in.
    pub(crate) fn shard(&self, prefix: P) -> usize {
        spread(prefix.parts().0, self.shard_bits)
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Number of routes.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Number of routes that hold only for some packets of their prefix.
    pub(crate) fn partial(&self) -> usize {
        self.partial
    }

    pub(crate) fn get(&self, prefix: P) -> &[Route] {
        self.find(prefix).map_or(&[], Routes::as_slice)
    }

    fn find(&self, prefix: P) -> Option<&Routes> {
        self.shards[self.shard(prefix)].get(&prefix)
    }

    /// The routes of a shard.
    pub(crate) fn part(&self, shard: usize) -> impl ExactSizeIterator<Item = (P, &[Route])> {
        let routes = self.shards[shard].iter();
        routes.map(|(&prefix, routes)| (prefix, routes.as_slice()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (P, &[Route])> {
        (0..self.shards()).flat_map(|shard| self.part(shard))
    }

    /// Sets the routes of a prefix.
    pub(crate) fn set(&mut self, prefix: P, routes: Vec<Route>) {
        let len = usize::from(prefix.parts().1);
        let special = |routes: &[Route], table| routes.iter().any(|route| route.table == table);
        let mark = |set: &mut BTreeSet<P>, on| {
            if on {
                set.insert(prefix)
            } else {
                !set.is_empty() && set.remove(&prefix)
            };
        };
        let wide = !prefix.is_host() && !prefix.is_fixed() && special(&routes, Table::Local);
        mark(&mut self.wide_local, wide);
        mark(&mut self.in_default, special(&routes, Table::Default));
        self.count += routes.len();
        self.partial += partial(&routes);
        let shard = self.shard(prefix);
        let old = match Routes::from_vec(routes) {
            Some(new) => {
                let old = self.shards[shard].insert(prefix, new);
                self.lengths[len] += u32::from(old.is_none());
                old
            }
            None => {
                let old = self.shards[shard].remove(&prefix);
                self.lengths[len] -= u32::from(old.is_some());
                old
            }
        };
        let old = old.as_ref().map_or(&[][..], Routes::as_slice);
        self.count -= old.len();
        self.partial -= partial(old);
    }

    /// Prefixes that contain an address, longest first, not longer than `len`.
    pub(crate) fn covering(&self, address: u128, len: u8) -> impl Iterator<Item = (P, &[Route])> {
        let lengths = (0..=len)
            .rev()
            .filter(|&len| self.lengths[usize::from(len)] > 0);
        lengths.filter_map(move |len| {
            let prefix = P::masked(address, len);
            self.find(prefix).map(|routes| (prefix, routes.as_slice()))
        })
    }

    /// Whether a wider route of the local table hides the other tables' routes.
    pub(crate) fn hidden(&self, prefix: P) -> bool {
        self.wide_local
            .iter()
            .any(|&wide| wide != prefix && wide.covers(prefix))
    }

    pub(crate) fn is_wide_local(&self, prefix: P) -> bool {
        self.wide_local.contains(&prefix)
    }

    /// Prefixes of the table `default`.
    pub(crate) fn in_default(&self) -> &BTreeSet<P> {
        &self.in_default
    }
}
