//! The FIB's audit: compares all entries of the FIB with what they should be, in small steps of one
//! a second, and corrects them.

use std::net::IpAddr;
use std::ops::Bound;

use bora_fib::{Prefix4, Prefix6};

use crate::family::Family;
use crate::keys::HopKey;
use crate::nexthops::NextHops;
use crate::rib::{MERGED, Prefix, Tree, number};
use crate::world::World;

/// Entries of each kind that one step checks; that takes about a millisecond for each kind.
const STEP: usize = 1024;

/// Where the next step begins.
#[derive(Default)]
pub(crate) struct Audit {
    v4: Place,
    v6: Place,
    neighbours: Option<(IpAddr, u32)>,
    hops: Option<HopKey>,
    targets: usize,
}

/// Where the next step begins in one IP version.
#[derive(Default)]
struct Place {
    merged: Cursor,
    /// In one of the further tables.
    further: (Tree, Cursor),
}

/// Where the next step begins in one tree.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// In the kernel's routes.
    shard: usize,
    /// In the FIB.
    fib: usize,
}

impl Audit {
    /// Takes one step and returns how many entries it corrected. Call it only when no change waits
    /// to be written.
    pub(crate) fn step(
        &mut self,
        world: &World,
        hops: &mut NextHops,
        v4: &mut Family<Prefix4>,
        v6: &mut Family<Prefix6>,
    ) -> usize {
        let (wrong_hops, next_hop) = hops.audit_hops(world, self.hops, STEP);
        let (wrong_targets, flipped, next_target) = hops.audit_targets(world, self.targets, STEP);
        (self.hops, self.targets) = (next_hop, next_target);
        v4.mark_targets(&flipped);
        v6.mark_targets(&flipped);
        let mut wrong = wrong_hops + wrong_targets;
        wrong += self.v4.step(v4, world, hops) + self.v6.step(v6, world, hops);
        // every resolved neighbour must have its host route
        for address in self.some_neighbours(world) {
            wrong += usize::from(match address {
                IpAddr::V4(_) => sync_host(v4, world, hops, address),
                IpAddr::V6(_) => sync_host(v6, world, hops, address),
            });
        }
        hops.purge();
        wrong
    }

    /// The next neighbours to check.
    fn some_neighbours(&mut self, world: &World) -> Vec<IpAddr> {
        let first = self.neighbours.map_or(Bound::Unbounded, Bound::Included);
        let mut keys = world.neighbours.range((first, Bound::Unbounded));
        let some = keys.by_ref().take(STEP).map(|(key, _)| key.0).collect();
        self.neighbours = keys.next().map(|(&key, _)| key);
        some
    }
}

fn sync_host<P: Prefix>(
    family: &mut Family<P>,
    world: &World,
    hops: &mut NextHops,
    address: IpAddr,
) -> bool {
    let host = P::masked(number(address), P::BITS);
    let mut wrong = false;
    for tree in family.trees_of(number(address)) {
        wrong |= family.sync_prefix(world, hops, (tree, host));
    }
    wrong
}

impl Place {
    fn step<P: Prefix>(
        &mut self,
        family: &mut Family<P>,
        world: &World,
        hops: &mut NextHops,
    ) -> usize {
        if !family.refused.is_empty() {
            return 0; // the FIB has no room, so nothing could be corrected
        }
        let wrong = self.merged.step(family, world, hops, MERGED);
        let (tree, cursor) = &mut self.further;
        let Some((&now, _)) = family.further.range(*tree..).next() else {
            self.further = Default::default();
            return wrong;
        };
        if now != *tree {
            (*tree, *cursor) = (now, Cursor::default());
        }
        let more = cursor.step(family, world, hops, now);
        if cursor.fib == 0 && cursor.shard == 0 {
            *tree = now.saturating_add(1);
        }
        wrong + more
    }
}

impl Cursor {
    /// Checks a part of a tree; both numbers are 0 again after the last.
    fn step<P: Prefix>(
        &mut self,
        family: &mut Family<P>,
        world: &World,
        hops: &mut NextHops,
        tree: Tree,
    ) -> usize {
        let (Some(rib), Some(table)) = (family.rib_of(tree), family.fib_of(tree)) else {
            return 0;
        };
        let (found, next) = P::fib_part(&hops.fib, table, self.fib, STEP);
        let mut prefixes: Vec<P> = found.into_iter().map(|(prefix, _)| prefix).collect();
        self.fib = next.unwrap_or(0);
        let enough = prefixes.len() + STEP;
        for _ in 0..rib.shards() {
            prefixes.extend(rib.part(self.shard).map(|(prefix, _)| prefix));
            self.shard = (self.shard + 1) % rib.shards();
            if prefixes.len() >= enough || (tree != MERGED && self.shard == 0) {
                break;
            }
        }
        let wrong = prefixes.into_iter();
        wrong
            .filter(|&prefix| family.sync_prefix(world, hops, (tree, prefix)))
            .count()
    }
}
