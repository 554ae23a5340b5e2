//! The FIB's audit: in small steps, one a second, everything that the FIB was told is compared with what
//! it should have been told, and mended.

use std::net::IpAddr;
use std::ops::Bound;

use crate::family::Family;
use crate::model::Model;
use crate::nexthops::{HopKey, NextHops};
use crate::rib::{Prefix, SHARDS, number};
use crate::world::World;

/// Entries of each kind that a step looks at: about a millisecond's work for each.
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

/// The same of a family.
#[derive(Default)]
struct Place {
    /// In the kernel's routes.
    shard: usize,
    /// In the FIB.
    fib: usize,
}

impl Model {
    /// Takes a step. Returns how many entries it had to mend. Nothing may wait to be written.
    pub(crate) fn audit(&mut self) -> usize {
        let Self {
            world,
            hops,
            v4,
            v6,
            audit,
            ..
        } = self;
        let (wrong_hops, next_hop) = hops.audit_hops(world, audit.hops, STEP);
        let (wrong_targets, flipped, next_target) = hops.audit_targets(world, audit.targets, STEP);
        (audit.hops, audit.targets) = (next_hop, next_target);
        v4.mark_targets(&flipped);
        v6.mark_targets(&flipped);
        let mut wrong = wrong_hops + wrong_targets;
        wrong += audit.v4.step(v4, world, hops) + audit.v6.step(v6, world, hops);
        wrong += self.audit_neighbours();
        self.hops.purge();
        wrong
    }

    /// Whether known neighbours have their host routes.
    fn audit_neighbours(&mut self) -> usize {
        let first = self
            .audit
            .neighbours
            .map_or(Bound::Unbounded, Bound::Included);
        let mut keys = self.world.neighbours.range((first, Bound::Unbounded));
        let some: Vec<IpAddr> = keys.by_ref().take(STEP).map(|(key, _)| key.0).collect();
        self.audit.neighbours = keys.next().map(|(&key, _)| key);
        let Self {
            world,
            hops,
            v4,
            v6,
            ..
        } = self;
        let mut wrong = 0;
        for address in some {
            wrong += usize::from(match address {
                IpAddr::V4(_) => v4.sync_prefix(world, hops, host(address)),
                IpAddr::V6(_) => v6.sync_prefix(world, hops, host(address)),
            });
        }
        wrong
    }
}

fn host<P: Prefix>(address: IpAddr) -> P {
    P::masked(number(address), P::BITS)
}

impl Place {
    fn step<P: Prefix>(
        &mut self,
        family: &mut Family<P>,
        world: &World,
        hops: &mut NextHops,
    ) -> usize {
        if !family.refused.is_empty() {
            return 0; // there is no room to mend anything
        }
        let (mut prefixes, next) = P::fib_part(&hops.fib, self.fib, STEP);
        self.fib = next.unwrap_or(0);
        let enough = prefixes.len() + STEP;
        for _ in 0..SHARDS {
            prefixes.extend(family.rib.part(self.shard));
            self.shard = (self.shard + 1) % SHARDS;
            if prefixes.len() >= enough {
                break;
            }
        }
        let wrong = prefixes.into_iter();
        wrong
            .filter(|&prefix| family.sync_prefix(world, hops, prefix))
            .count()
    }
}
