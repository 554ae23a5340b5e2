//! The status.

use std::collections::BTreeMap;

use bora_fib::FibWriter;

use crate::family::Family;
use crate::message::{Hop, RouteType, Target};
use crate::mirror::Mirror;
use crate::model::Model;
use crate::rib::{Best, Prefix};
use crate::status::{FamilyCounts, SyncStatus, Unsupported};
use crate::world::{Special, World};

impl Mirror {
    /// How many prefixes the FIB had no room for; IPv4, IPv6.
    pub fn refused(&self) -> [usize; 2] {
        [self.model.v4.refused.len(), self.model.v6.refused.len()]
    }

    /// How many paths of routes and on-link hosts have no next hop, because all are in use.
    pub fn without_next_hop(&self) -> usize {
        self.model.without_next_hop()
    }

    /// Whether there currently are routes with several paths; IPv4, IPv6.
    pub fn multipath(&self) -> [bool; 2] {
        [false, true].map(|v6| self.model.hops.has_choice(v6))
    }

    /// Sets for which IP versions, IPv4 and IPv6, the caller can choose among several paths as the
    /// kernel does.
    pub fn set_hashed(&mut self, known: [bool; 2]) {
        self.hashed = known;
    }

    /// Whether there are routes with several paths among which only the kernel can choose; IPv4,
    /// IPv6.
    pub fn unhashed(&self) -> [bool; 2] {
        let in_use = self.multipath();
        [0, 1].map(|family: usize| in_use[family] && !self.hashed[family])
    }

    /// Whether kernel and FIB agree.
    pub fn status(&self) -> SyncStatus {
        let model = &self.model;
        SyncStatus {
            in_sync: self.in_sync.0,
            since: self.in_sync.1,
            v4: counts(&model.v4, self.fib()),
            v6: counts(&model.v6, self.fib()),
            neighbours: model
                .world
                .neighbours
                .values()
                .filter(|n| n.usable().is_some())
                .count(),
            kernel_next_hops: model.world.objects.len(),
            fib_next_hops: self.fib().stats().next_hops,
            next_hops_refused: model.hops.refused(),
            reconciliations: self.counters.reconciliations,
            last_reconciliation: self.last.clone(),
            checks: self.check.count,
            mended: self.mended,
            overflows: self.counters.overflows,
            events: self.counters.events,
            events_per_second: self.counters.events_per_second,
            decode_errors: self.decode_errors + self.loader.decode_errors,
            unsupported: unsupported(model),
        }
    }
}

fn counts<P: Prefix>(family: &Family<P>, fib: &FibWriter) -> FamilyCounts {
    let ribs = || family.ribs();
    let tables = ribs().filter_map(|(tree, _)| family.fib_of(tree));
    FamilyCounts {
        kernel_routes: ribs().map(|(_, rib)| rib.len()).sum(),
        fib_prefixes: tables.map(|table| P::fib_len(fib, table)).sum(),
        fib_neighbours: family.hosts.len(),
        refused: family.refused.len(),
        hosts_refused: family.without_hop.len(),
    }
}

/// Counts routes that stay with the kernel whatever their neighbours do, by reason.
fn unsupported(model: &Model) -> Vec<Unsupported> {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let tos = model.v4.ribs().map(|(_, rib)| rib.partial()).sum();
    let source = model.v6.ribs().map(|(_, rib)| rib.partial()).sum();
    counts.insert("for one TOS only", tos);
    counts.insert("for some source addresses only", source);
    let depends = |&at: &_| match model.v6.best(&model.hops, at) {
        Some(Best::Depends) => model.v6.get(at).iter().all(|route| !route.is_partial()),
        _ => false,
    };
    let rivals = model.v6.rivals.iter().copied().filter(depends).count();
    counts.insert(
        "of equal metric, among which the input interface decides",
        rivals,
    );
    for (id, target, v6) in model.hops.targets_of_both() {
        let Some(reason) = why_unsupported(&model.world, target, v6) else {
            continue;
        };
        *counts.entry(reason).or_default() += model.hops.uses(id);
    }
    let counts = counts.into_iter().filter(|&(_, routes)| routes > 0);
    counts
        .map(|(reason, routes)| Unsupported { reason, routes })
        .collect()
}

/// Why a target stays with the kernel, whatever its neighbours do.
fn why_unsupported(world: &World, target: &Target, v6: bool) -> Option<&'static str> {
    match target.kind {
        RouteType::Other => return Some("NAT or an unknown type"),
        RouteType::Unicast => {}
        _ => return None,
    }
    if let Some(Special::OnlyLinux(why)) = world.special(target, v6) {
        return Some(why);
    }
    let ways = world.ways(target);
    let is_port = |way: &Hop| world.ports.contains_key(&way.device);
    (!ways.iter().all(is_port)).then_some("through a device that is not a Bora port")
}
