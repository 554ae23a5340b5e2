//! From the kernel's routes of one family to the FIB's prefixes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::time::Instant;

use bora_fib::{FibError, NextHopId, TableId};

use crate::choice::choose;
use crate::digest::{Digest, of_routes};
use crate::keys::{HopKey, TargetId, is_found};
use crate::message::{Hop, RouteMessage, RouteType};
use crate::nexthops::NextHops;
use crate::prefix_routes::{self, Applied};
use crate::rib::{Best, FEW_SHARDS, MANY_SHARDS, MERGED, Prefix, Rib, Route, Table, Tree, number};
use crate::world::World;

/// One address family of the mirror.
pub(crate) struct Family<P> {
    /// The tables local, main and default.
    pub(crate) rib: Rib<P>,
    /// Further tables, by number.
    pub(crate) further: BTreeMap<u32, Further<P>>,
    /// Digest of the routes.
    pub(crate) digest: Digest,
    /// Prefixes to write to the FIB; may contain duplicates.
    dirty: VecDeque<(Tree, P)>,
    /// Targets (sorted) of which the prefixes have to be written, too, and the shard where the search for them goes on.
    searches: VecDeque<(Vec<TargetId>, (Tree, usize))>,
    /// Host routes of the FIB that were made from neighbours.
    pub(crate) hosts: HashMap<(Tree, P), HopKey>,
    /// Prefixes whose route has a path MTU of its own.
    pub(crate) mtus: BTreeMap<(Tree, P), u32>,
    /// Prefixes of which that of the merged tables has changed.
    pub(crate) mtu_changes: BTreeSet<P>,
    /// Prefixes of which the FIB's entry has changed lately, the first [`CHANGED`].
    pub(crate) changed: Vec<P>,
    /// Prefixes where Linux has been seen to do something else than the FIB says; they are Linux's.
    pub(crate) distrusted: BTreeSet<P>,
    /// IPv6 prefixes with a multipath route of which some ways have an MTU of their own: Linux shows that of one way for all.
    pub(crate) uneven: BTreeSet<(Tree, P)>,
    /// Prefixes with a multipath route between whose ways another one may stand, which Linux's dump leaves out until some way goes.
    pub(crate) hiding: BTreeSet<(Tree, P)>,
    /// Prefixes the FIB had no room for.
    pub(crate) refused: HashSet<(Tree, P)>,
    /// On-link hosts for which no next hop was free; Linux forwards to them.
    pub(crate) without_hop: BTreeSet<(Tree, P)>,
    /// Prefixes to be written in one load, while many change at once.
    bulk: Option<BTreeMap<Tree, Vec<(P, NextHopId)>>>,
    /// IPv6 prefixes with several routes of equal metric, among which preferences and devices decide.
    pub(crate) rivals: BTreeSet<(Tree, P)>,
    /// Prefixes whose routes to the router itself changed.
    pub(crate) local_changes: Vec<P>,
    /// Prefixes with routes in the table `local` that do not lead to the router itself.
    pub(crate) odd_local: BTreeSet<P>,
}

/// A table that rules or VRFs use.
pub(crate) struct Further<P> {
    pub(crate) rib: Rib<P>,
    pub(crate) fib: TableId,
    /// Whether all its routes have been read.
    pub(crate) loaded: bool,
}

/// The least MTU of IPv6, octets (RFC 8200 5): shorter packets pass by any way.
const IPV6_MIN_MTU: u32 = 1280;
/// Most prefixes that are kept for those who ask what has changed lately.
const CHANGED: usize = 100;
/// From this many changed prefixes on, they are written in one load. Most that are written before the clock is looked at, which
/// takes some milliseconds.
const BULK: usize = 2048;

impl<P: Prefix> Family<P> {
    pub(crate) fn new() -> Self {
        Self {
            rib: Rib::new(MANY_SHARDS),
            further: BTreeMap::new(),
            digest: Digest::default(),
            dirty: VecDeque::new(),
            searches: VecDeque::new(),
            hosts: HashMap::new(),
            mtus: BTreeMap::new(),
            mtu_changes: BTreeSet::new(),
            changed: Vec::new(),
            distrusted: BTreeSet::new(),
            uneven: BTreeSet::new(),
            hiding: BTreeSet::new(),
            refused: HashSet::new(),
            without_hop: BTreeSet::new(),
            bulk: None,
            rivals: BTreeSet::new(),
            local_changes: Vec::new(),
            odd_local: BTreeSet::new(),
        }
    }

    /// Inserts the fixed prefixes ([`Prefix::FIXED`]) into the FIB.
    pub(crate) fn insert_fixed(&self, hops: &mut NextHops) -> Result<(), FibError> {
        let local = hops.local();
        for &(address, len) in P::FIXED {
            P::masked(address, len).fib_insert(&mut hops.fib, TableId::MAIN, local)?;
        }
        Ok(())
    }

    /// How many prefixes wait to be written.
    #[cfg(test)]
    pub(crate) fn marked(&mut self) -> usize {
        while self.search_some() {}
        self.dirty.len()
    }

    /// Whether every changed prefix is written.
    pub(crate) fn is_written(&self) -> bool {
        self.dirty.is_empty() && self.searches.is_empty()
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.is_written() && self.refused.is_empty() && self.without_hop.is_empty()
    }

    /// The routes of a tree; empty if it is not mirrored.
    pub(crate) fn get(&self, (tree, prefix): (Tree, P)) -> &[Route] {
        self.rib_of(tree).map_or(&[], |rib| rib.get(prefix))
    }

    pub(crate) fn rib_of(&self, tree: Tree) -> Option<&Rib<P>> {
        match tree {
            MERGED => Some(&self.rib),
            number => Some(&self.further.get(&number)?.rib),
        }
    }

    /// The table of the FIB that a tree is in; `None` if it is not mirrored.
    pub(crate) fn fib_of(&self, tree: Tree) -> Option<TableId> {
        match tree {
            MERGED => Some(TableId::MAIN),
            number => Some(self.further.get(&number)?.fib),
        }
    }

    /// All trees with their routes.
    pub(crate) fn ribs(&self) -> impl Iterator<Item = (Tree, &Rib<P>)> {
        let further = self.further.iter();
        let further = further.map(|(&number, further)| (number, &further.rib));
        std::iter::once((MERGED, &self.rib)).chain(further)
    }

    /// The tree after this one.
    pub(crate) fn tree_after(&self, tree: Tree) -> Option<Tree> {
        let further = self
            .further
            .range((Bound::Excluded(tree), Bound::Unbounded));
        further.map(|(&number, _)| number).next()
    }

    /// All routes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ((Tree, P), &[Route])> {
        let all = self.ribs();
        all.flat_map(|(tree, rib)| rib.iter().map(move |(prefix, r)| ((tree, prefix), r)))
    }

    /// Mirrors these further tables and no others. Returns whether anything changed; new tables are empty
    /// until their routes are read.
    pub(crate) fn set_further(&mut self, hops: &mut NextHops, wanted: &BTreeSet<u32>) -> bool {
        let gone = self.further.keys().filter(|&table| !wanted.contains(table));
        let gone: Vec<u32> = gone.copied().collect();
        for &table in &gone {
            self.drop_further(hops, table);
        }
        let mut changed = !gone.is_empty();
        for &table in wanted {
            if self.further.contains_key(&table) {
                continue;
            }
            let fib = match P::add_table(&mut hops.fib) {
                Ok(fib) => fib,
                Err(error) => {
                    log::error!("table {table} is left to Linux: {error}");
                    continue;
                }
            };
            let further = Further {
                rib: Rib::new(FEW_SHARDS),
                fib,
                loaded: false,
            };
            self.further.insert(table, further);
            changed = true;
        }
        changed
    }

    fn drop_further(&mut self, hops: &mut NextHops, table: u32) {
        let there = self.further.get(&table).into_iter();
        let prefixes = there.flat_map(|further| further.rib.iter().map(|(prefix, _)| prefix));
        for prefix in prefixes.collect::<Vec<_>>() {
            self.set(hops, (table, prefix), Vec::new());
        }
        self.dirty.retain(|(tree, _)| *tree != table);
        self.refused.retain(|(tree, _)| *tree != table);
        self.mtus.retain(|(tree, _), _| *tree != table);
        self.rivals.retain(|(tree, _)| *tree != table);
        self.without_hop.retain(|(tree, _)| *tree != table);
        self.uneven.retain(|(tree, _)| *tree != table);
        self.hiding.retain(|(tree, _)| *tree != table);
        for (_, key) in self.hosts.extract_if(|(tree, _), _| *tree == table) {
            hops.release_hop(key);
        }
        if let Some(further) = self.further.remove(&table) {
            P::remove_table(&mut hops.fib, further.fib);
        }
    }

    /// A route was added or deleted.
    pub(crate) fn apply(
        &mut self,
        world: &World,
        hops: &mut NextHops,
        mut message: RouteMessage,
        gone: bool,
    ) -> Applied {
        let prefix = P::masked(number(message.address), message.len);
        let Some(table) = Table::from_number(message.table, P::V6, world.further(P::V6)) else {
            return Applied::Done;
        };
        let at = (table.tree(), prefix);
        if P::V6 && !gone && !message.replace {
            self.in_table_order(hops, at, &mut message);
        }
        let expired = message.expires < 0;
        let (replace, append, only) = (message.replace, message.append, message.only);
        let Some(new) = intern::<P>(world, hops, message) else {
            return Applied::Done;
        };
        let mut routes = self.get(at).to_vec();
        let was_uneven = self.uneven.contains(&at);
        let was_hiding = (gone || replace) && self.hiding.remove(&at);
        if replace || gone {
            self.uneven.remove(&at);
        } else if P::V6 && prefix_routes::has_other_mtu(hops, &routes, &new) {
            self.uneven.insert(at);
        }
        let applied = if gone && was_uneven {
            prefix_routes::remove::<P>(world, hops, &mut routes, &new);
            if prefix_routes::has_ways(hops, &routes, &new) {
                self.uneven.insert(at);
            }
            Applied::Suspicious // which way has which MTU, only Linux knows
        } else if gone || expired {
            prefix_routes::remove::<P>(world, hops, &mut routes, &new)
        } else {
            if only && !P::V6 {
                // an event that is older than a dump may be read after it, and so will those be that
                // made of this route what the dump showed
                routes.retain(|route| route.key() != new.key());
            }
            prefix_routes::insert::<P>(hops, &mut routes, new, replace, append)
        };
        hops.release(new.target);
        self.set(hops, at, routes);
        if was_hiding {
            Applied::Ambiguous
        } else {
            applied
        }
    }

    /// When paths are appended to an IPv6 multipath route, the event has them first and the older
    /// ones behind them; in the table they come last. The order decides which flows go where.
    fn in_table_order(&self, hops: &NextHops, at: (Tree, P), message: &mut RouteMessage) {
        let ways = &mut message.target.hops;
        let head = self.get(at).iter().find_map(|route| {
            let first = hops.target(route.target)?.hops.first()?;
            let same = |hop: &Hop| (hop.device, hop.gateway) == (first.device, first.gateway);
            ways.iter()
                .position(same)
                .filter(|_| route.metric == message.metric)
        });
        ways.rotate_left(head.unwrap_or(0));
    }

    /// Sets the routes of a prefix, if they differ, and counts the new routes' uses of their
    /// targets.
    pub(crate) fn set(&mut self, hops: &mut NextHops, at: (Tree, P), routes: Vec<Route>) -> bool {
        let (tree, prefix) = at;
        let old = self.get(at);
        if old == routes.as_slice() {
            return false;
        }
        let old = old.to_vec();
        let sum = |routes: &[Route]| of_routes(prefix, routes, |route| hops.hash(route.target));
        let (before, after) = (sum(&old), sum(&routes));
        self.digest.replace(prefix.parts().0, before, after);
        let mut all = old.iter().chain(&routes);
        if !prefix.is_fixed() && all.any(|route| is_own(hops, route)) {
            self.local_changes.push(prefix);
        }
        routes.iter().for_each(|route| hops.retain(route.target));
        old.iter().for_each(|route| hops.release(route.target));
        if tree == MERGED {
            let odd = |route: &Route| route.table == Table::Local && !is_own(hops, route);
            if routes.iter().any(odd) {
                self.odd_local.insert(prefix);
            } else if !self.odd_local.is_empty() {
                self.odd_local.remove(&prefix);
            }
        }
        if tree != MERGED {
            if let Some(further) = self.further.get_mut(&tree) {
                further.rib.set(prefix, routes);
                self.dirty.push_back(at);
            }
            return true;
        }
        let was_wide = self.rib.is_wide_local(prefix);
        self.rib.set(prefix, routes);
        self.dirty.push_back(at);
        if was_wide != self.rib.is_wide_local(prefix) {
            let inside = self.rib.iter().map(|(inner, _)| inner);
            let inside = inside.filter(|&inner| prefix.covers(inner));
            self.dirty.extend(inside.map(|inner| (MERGED, inner)));
        }
        self.mark_default();
        true
    }

    fn mark_default(&mut self) {
        let prefixes = self.rib.in_default().iter();
        self.dirty.extend(prefixes.map(|&prefix| (MERGED, prefix)));
    }

    /// Marks every prefix that has a route to one of these targets (sorted), as [`Self::sync`] finds them.
    pub(crate) fn mark_targets(&mut self, targets: &[TargetId]) {
        if !targets.is_empty() {
            self.searches.push_back((targets.to_vec(), (MERGED, 0)));
            self.mark_default();
        }
    }

    /// Looks through one shard for prefixes to mark; returns whether there is more to look through.
    fn search_some(&mut self) -> bool {
        let Some((targets, (tree, shard))) = self.searches.pop_front() else {
            return false;
        };
        let mut next = self.tree_after(tree).map(|tree| (tree, 0));
        if let Some(rib) = self.rib_of(tree).filter(|rib| shard < rib.shards()) {
            let leads = |route: &Route| is_found(targets.binary_search(&route.target));
            let found = rib
                .part(shard)
                .filter(|(_, routes)| routes.iter().any(leads));
            let found: Vec<_> = found.map(|(prefix, _)| (tree, prefix)).collect();
            self.dirty.extend(found);
            next = Some((tree, shard + 1));
        }
        if let Some(next) = next {
            self.searches.push_front((targets, next));
        }
        !self.searches.is_empty()
    }

    /// Marks the host prefix of a neighbour.
    pub(crate) fn mark_host(&mut self, address: u128) {
        let trees = self.trees_of(address);
        let host = P::masked(address, P::BITS);
        self.dirty
            .extend(trees.into_iter().map(|tree| (tree, host)));
    }

    /// The trees that may have a route to a host: the merged tables, and further ones.
    pub(crate) fn trees_of(&self, address: u128) -> Vec<Tree> {
        let further = self.further.iter();
        let covers = |rib: &Rib<P>| rib.covering(address, P::BITS).next().is_some();
        let further = further.filter(|(_, further)| covers(&further.rib));
        std::iter::once(MERGED)
            .chain(further.map(|(&table, _)| table))
            .collect()
    }

    /// Removes all routes for which `gone` returns true.
    pub(crate) fn remove_routes(&mut self, hops: &mut NextHops, gone: impl Fn(&Route) -> bool) {
        let hit = self.iter();
        let hit = hit.filter(|(_, routes)| routes.iter().any(&gone));
        for at in hit.map(|(at, _)| at).collect::<Vec<_>>() {
            let kept = self
                .get(at)
                .iter()
                .filter(|route| !gone(route))
                .copied()
                .collect();
            self.set(hops, at, kept);
        }
    }

    /// Writes marked prefixes to the FIB, and the neighbours inside them, all or until it is late. Returns how many
    /// entries of the FIB changed.
    pub(crate) fn sync(
        &mut self,
        world: &World,
        hops: &mut NextHops,
        until: Option<Instant>,
    ) -> usize {
        let (mut changes, complete) = (0, self.refused.is_empty());
        let is_late = || until.is_some_and(|until| Instant::now() >= until);
        while self.search_some() && !is_late() {}
        while !self.dirty.is_empty() {
            changes += self.sync_some(world, hops);
            if is_late() {
                break;
            }
        }
        if !complete && self.refused.is_empty() {
            log::info!("the FIB has room for all prefixes again");
        } else if complete && !self.refused.is_empty() {
            let count = self.refused.len();
            log::error!("{count} prefixes do not fit into the FIB; raise its limit");
        }
        changes
    }

    fn sync_some(&mut self, world: &World, hops: &mut NextHops) -> usize {
        let mut changes = 0;
        let count = self.dirty.len().min(BULK);
        let dirty: Vec<_> = self.dirty.drain(..count).collect();
        self.bulk = (count >= BULK).then(BTreeMap::new);
        for (tree, prefix) in dirty {
            changes += usize::from(self.sync_prefix(world, hops, (tree, prefix)));
            if prefix.is_host() {
                continue;
            }
            let (first, last) = prefix.range();
            let inside = (P::ip(first), 0)..=(P::ip(last), u32::MAX);
            let inside = world.neighbours.range(inside).map(|(key, _)| key);
            let hosts = inside.map(|key| (tree, P::masked(number(key.0), P::BITS)));
            self.dirty.extend(hosts); // there may be very many
        }
        for (tree, all) in self.bulk.take().unwrap_or_default() {
            let Some(table) = self.fib_of(tree) else {
                continue;
            };
            let refused = match P::fib_load(&mut hops.fib, table, &all) {
                Ok(refused) => refused,
                Err(error) => {
                    log::error!("cannot load a table into the FIB: {error}");
                    all.iter().map(|&(prefix, _)| prefix).collect()
                }
            };
            for prefix in refused {
                self.refuse(hops, table, (tree, prefix));
            }
        }
        changes
    }

    /// Whether a prefix is left to Linux, whatever its routes say.
    pub(crate) fn is_linuxs(&self, at: (Tree, P)) -> bool {
        self.distrusted.contains(&at.1) || self.uneven.contains(&at)
    }

    pub(crate) fn sync_prefix(
        &mut self,
        world: &World,
        hops: &mut NextHops,
        at: (Tree, P),
    ) -> bool {
        if at.1.is_fixed() {
            return false;
        }
        let best = self.best(hops, at);
        self.note_mtu(hops, at, best);
        self.note_rivals(at);
        let excepted = at.1.is_host() && world.exceptions.contains(&P::ip(at.1.parts().0));
        let distrusted = self.is_linuxs(at);
        let host = self
            .host_way(world, hops, at)
            .filter(|_| !excepted && !distrusted);
        let acquired = host.map(|key| hops.acquire_host(world, key));
        let wanted = match acquired {
            _ if excepted => Some(hops.shared.exception),
            _ if distrusted => Some(hops.unsupported()),
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => Some(hops.unsupported()), // no room, see below
            None => best.map(|best| match best {
                Best::Route(route) => hops.id(route.target),
                Best::Depends => hops.unsupported(),
            }),
        };
        // no room for its hop: Linux forwards until there is (`retry_refused`), and the status says so
        if let Some(Err(_)) = acquired {
            self.without_hop.insert(at);
        } else if !self.without_hop.is_empty() {
            self.without_hop.remove(&at);
        }
        let changed = self.write(hops, at, wanted);
        let held = match (host, acquired) {
            (Some(key), Some(Ok(_))) => self.hosts.insert(at, key),
            _ => self.hosts.remove(&at),
        };
        if let Some(key) = held {
            hops.release_hop(key);
        }
        changed
    }

    fn note_rivals(&mut self, at: (Tree, P)) {
        let equal = |pair: &[Route]| pair[0].key() == pair[1].key();
        if P::V6 && self.get(at).windows(2).any(equal) {
            self.rivals.insert(at);
        } else if !self.rivals.is_empty() {
            self.rivals.remove(&at);
        }
    }

    /// Marks the prefixes where the devices of targets may decide.
    pub(crate) fn mark_rivals(&mut self) {
        self.dirty.extend(&self.rivals);
    }

    /// Whether routers have advertised routes of which the preferences decide. They change without an event.
    pub(crate) fn has_advertised_rivals(&self) -> bool {
        let mut rivals = self.rivals.iter();
        rivals.any(|&at| self.get(at).iter().any(prefix_routes::is_advertised))
    }

    fn note_mtu(&mut self, hops: &NextHops, at: (Tree, P), best: Option<Best>) {
        let mtu_of = |route: &Route| hops.target(route.target)?.mtu;
        let mtu = match best {
            Some(_) if self.uneven.contains(&at) => Some(IPV6_MIN_MTU),
            Some(Best::Route(route)) => mtu_of(&route),
            // the smallest, because any of them may be taken
            Some(Best::Depends) => self.get(at).iter().filter_map(mtu_of).min(),
            None => None,
        };
        let before = match mtu {
            Some(mtu) => self.mtus.insert(at, mtu),
            None if self.mtus.is_empty() => None,
            None => self.mtus.remove(&at),
        };
        if at.0 == MERGED && before != mtu {
            self.mtu_changes.insert(at.1);
        }
    }

    fn write(&mut self, hops: &mut NextHops, at: (Tree, P), wanted: Option<NextHopId>) -> bool {
        self.refused.remove(&at);
        let (tree, prefix) = at;
        let Some(table) = self.fib_of(tree) else {
            return false;
        };
        let current = prefix.fib_get(&hops.fib, table);
        if current == wanted {
            return false;
        }
        if self.changed.len() < CHANGED {
            self.changed.push(prefix);
        }
        let Some(id) = wanted else {
            prefix.fib_remove(&mut hops.fib, table);
            return true;
        };
        if let Some(bulk) = &mut self.bulk {
            bulk.entry(tree).or_default().push((prefix, id));
        } else if let Err(error) = prefix.fib_insert(&mut hops.fib, table, id) {
            log::debug!("{error}"); // `sync` says how many do not fit
            self.refuse(hops, table, at);
        }
        true
    }

    /// Leaves these prefixes to Linux from the next [`Self::sync`] on, and no others that were left to it before.
    pub(crate) fn distrust(&mut self, prefixes: BTreeSet<P>) {
        let before = std::mem::replace(&mut self.distrusted, prefixes);
        let trees: Vec<Tree> = self.ribs().map(|(tree, _)| tree).collect();
        for &prefix in before.symmetric_difference(&self.distrusted) {
            self.dirty.extend(trees.iter().map(|&tree| (tree, prefix)));
        }
    }

    /// Records a prefix that should be in the FIB but did not fit.
    fn refuse(&mut self, hops: &mut NextHops, table: TableId, at: (Tree, P)) {
        self.refused.insert(at);
        at.1.fib_remove(&mut hops.fib, table);
    }

    /// Marks the refused prefixes, so that the next [`Self::sync`] tries them again.
    pub(crate) fn retry_refused(&mut self, hops: &NextHops) {
        self.dirty.extend(&self.refused);
        let room = hops.fib.next_hop_room();
        self.dirty.extend(self.without_hop.iter().take(room));
    }

    /// What the kernel's look-up finds at exactly this prefix; `None` if it goes on to a shorter
    /// one.
    pub(crate) fn best(&self, hops: &NextHops, at: (Tree, P)) -> Option<Best> {
        let all = self.get(at);
        let mut visible = self.visible(hops, at.1, all);
        let first = visible.next()?;
        if P::V6 && all.len() > 1 {
            let usable: Vec<Route> = std::iter::once(first).chain(visible).copied().collect();
            let partial = usable.iter().any(Route::is_partial);
            return match partial {
                true => Some(Best::Depends),
                false => choose(hops, all, &usable),
            };
        }
        if first.is_partial() || visible.any(Route::is_partial) {
            return Some(Best::Depends);
        }
        Some(Best::Route(*first))
    }

    /// What the kernel's look-up finds for an address in a tree, and at which prefix.
    pub(crate) fn look_up(&self, hops: &NextHops, tree: Tree, address: u128) -> Option<(P, Best)> {
        let mut covering = self.rib_of(tree)?.covering(address, P::BITS);
        covering.find_map(|(prefix, _)| Some((prefix, self.best(hops, (tree, prefix))?)))
    }

    /// The routes of a prefix that the kernel would use, best first.
    fn visible<'a>(
        &'a self,
        hops: &'a NextHops,
        prefix: P,
        routes: &'a [Route],
    ) -> impl Iterator<Item = &'a Route> {
        routes.iter().filter(move |route| {
            hops.usable(route.target)
                && match route.table {
                    Table::Local | Table::Further(_) => true,
                    Table::Main => !self.rib.hidden(prefix),
                    Table::Default => !self.answered_earlier(hops, prefix),
                }
        })
    }

    /// Whether the tables before `default` have a route for the addresses of a prefix.
    fn answered_earlier(&self, hops: &NextHops, prefix: P) -> bool {
        let (address, len) = prefix.parts();
        self.rib.covering(address, len).any(|(_, routes)| {
            routes
                .iter()
                .any(|route| route.table != Table::Default && hops.usable(route.target))
        })
    }

    /// The next hop of a host prefix whose best route is on-link and whose neighbour is known.
    fn host_way(
        &self,
        world: &World,
        hops: &NextHops,
        (tree, prefix): (Tree, P),
    ) -> Option<HopKey> {
        if !prefix.is_host() {
            return None;
        }
        let address = P::ip(prefix.parts().0);
        let at = (address, 0)..=(address, u32::MAX);
        let known = |&(_, neighbour): &(_, &crate::message::Neighbour)| {
            neighbour.usable().is_some() && world.ports.contains_key(&neighbour.device)
        };
        world.neighbours.range(at.clone()).find(known)?;
        let (_, Best::Route(route)) = self.look_up(hops, tree, prefix.parts().0)? else {
            return None;
        };
        let target = hops.target(route.target)?;
        let device = hops.on_link(route.target)?;
        world
            .neighbours
            .range(at)
            .find(|entry| known(entry) && entry.1.device == device)?;
        let mtu = target.mtu.unwrap_or(0);
        Some(HopKey {
            device,
            gateway: Some(address),
            v6: P::V6,
            mtu,
        })
    }
}

/// Whether a route leads to the router itself.
pub(crate) fn is_own(hops: &NextHops, route: &Route) -> bool {
    let target = hops.target(route.target);
    target.is_some_and(|target| target.kind == RouteType::Local)
}

/// Whether a dump of an IP version should have this route. Without IPv6 (ipv6.disable=1) the kernel answers with
/// the routes of all versions that it has.
pub(crate) fn is_of<P: Prefix>(route: &RouteMessage) -> bool {
    route.address.is_ipv6() == P::V6
}

/// Converts a route to the mirror's form and takes a use of its target. `None` if no rule and no VRF uses
/// its table.
pub(crate) fn intern<P: Prefix>(
    world: &World,
    hops: &mut NextHops,
    message: RouteMessage,
) -> Option<Route> {
    Some(Route {
        table: Table::from_number(message.table, P::V6, world.further(P::V6))?,
        tos: message.tos,
        protocol: message.protocol,
        source_specific: message.source_specific,
        metric: message.metric,
        preference: message.preference,
        target: hops.intern(world, message.target, P::V6),
    })
}
