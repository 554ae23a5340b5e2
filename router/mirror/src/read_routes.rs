//! The routes of an IP version, or a part of them, as they are read; and the comparison, one shard at a time.

use std::collections::BTreeMap;

use bora_fib::{Prefix4, Prefix6};

use crate::compared::{Outcome, Table};
use crate::family::{Family, intern, is_of};
use crate::keys::is_found;
use crate::message::Message;
use crate::model::{Expiries, Model, note_expiry};
use crate::nexthops::NextHops;
use crate::prefix_routes::{has_ways, is_same};
use crate::reader::Part;

use crate::rib::{MERGED, Prefix, Route, Tree, number};
use crate::world::World;

/// What routes are interned in and compared with.
pub(crate) type Side<'a, P> = (
    &'a World,
    &'a mut NextHops,
    &'a mut Family<P>,
    &'a mut Expiries,
);

impl Model {
    /// IPv4 routes, with what is needed to change them.
    pub(crate) fn side4(&mut self) -> Side<'_, Prefix4> {
        let to = &mut self.next_expiry;
        (&self.world, &mut self.hops, &mut self.v4, to)
    }

    /// IPv6 routes, with what is needed to change them.
    pub(crate) fn side6(&mut self) -> Side<'_, Prefix6> {
        let to = &mut self.next_expiry;
        (&self.world, &mut self.hops, &mut self.v6, to)
    }
}

/// The routes of an IP version, or a part of them.
pub(crate) struct Routes<P> {
    part: Part,
    side: fn(&mut Model) -> Side<'_, P>,
    /// By tree and shard, in the order of the kernel's tables. Each route holds a use of its target.
    found: BTreeMap<(Tree, usize), Vec<(P, Route)>>,
    /// The shard to compare next.
    next: (Tree, usize),
}

impl<P> Routes<P> {
    pub(crate) fn new(part: Part, side: fn(&mut Model) -> Side<'_, P>) -> Self {
        Self {
            part,
            side,
            found: BTreeMap::new(),
            next: (MERGED, 0),
        }
    }
}

impl<P: Prefix + Send> Table for Routes<P> {
    fn add(&mut self, model: &mut Model, message: Message) {
        let Message::Route(route, false) = message else {
            return;
        };
        // routes of next-hop objects are compared with the objects: the devices they go
        // through may just have changed
        let later = matches!(self.part, Part::Device(_)) && route.target.object.is_some();
        if later || !is_of::<P>(&route) || route.expires < 0 {
            return;
        }
        let (world, hops, family, next_expiry) = (self.side)(model);
        note_expiry(next_expiry, &route);
        let prefix = P::masked(number(route.address), route.len);
        let Some(route) = intern::<P>(world, hops, route) else {
            return;
        };
        let tree = route.table.tree();
        match family.rib_of(tree) {
            Some(rib) => {
                let shard = self.found.entry((tree, rib.shard(prefix)));
                shard.or_default().push((prefix, route));
            }
            None => hops.release(route.target),
        }
    }

    fn clear(&mut self, model: &mut Model) {
        let (_, hops, ..) = (self.side)(model);
        let found = std::mem::take(&mut self.found).into_values().flatten();
        found.for_each(|(_, route)| hops.release(route.target));
    }

    fn compare(&mut self, model: &mut Model, whole: bool, outcome: &mut Outcome) -> bool {
        let (_, hops, family, _) = (self.side)(model);
        let (tree, shard) = self.next;
        let shards = family.rib_of(tree).map_or(0, |rib| rib.shards());
        if shard < shards {
            self.next = (tree, shard + 1);
            let mut dumped = self.found.remove(&(tree, shard)).unwrap_or_default();
            dumped.sort_by_key(|&(prefix, _)| prefix); // stable: keeps the kernel's order
            if whole {
                let lost = remove_lost(family, hops, self.part, (tree, shard), &dumped);
                outcome.differences += lost;
            }
            compare(family, hops, self.part, tree, dumped, outcome);
            return false;
        }
        match family.tree_after(tree) {
            Some(next) => self.next = (next, 0),
            None => {
                self.clear(model); // routes of tables that are not mirrored any more
                return true;
            }
        }
        false
    }
}

impl Part {
    /// Whether it has a route.
    fn has(self, hops: &NextHops, route: &Route) -> bool {
        match self {
            Self::All => true,
            Self::Device(device) => {
                let target = hops.target(route.target);
                target.is_some_and(|target| target.hops.iter().any(|hop| hop.device == device))
            }
            Self::Protocol(protocol) => route.protocol == protocol,
        }
    }
}

/// Removes the concerned routes of those prefixes of a shard that are not in the dump (sorted). Returns how many
/// prefixes changed.
fn remove_lost<P: Prefix>(
    family: &mut Family<P>,
    hops: &mut NextHops,
    part: Part,
    (tree, shard): (Tree, usize),
    dumped: &[(P, Route)],
) -> usize {
    let is_there = |of: P| is_found(dumped.binary_search_by_key(&of, |&(prefix, _)| prefix));
    let known = family.rib_of(tree).map(|rib| rib.part(shard));
    let known = known.into_iter().flatten();
    let concerned = |routes: &[Route]| routes.iter().any(|route| part.has(hops, route));
    let lost = known.filter(|&(prefix, routes)| concerned(routes) && !is_there(prefix));
    let lost: Vec<P> = lost.map(|(prefix, _)| prefix).collect();
    let mut changed = 0;
    for prefix in lost {
        let known = family.get((tree, prefix));
        let mut kept = known.to_vec();
        kept.retain(|route| !part.has(hops, route));
        if P::V6 && may_hide::<P>(hops, known, &kept) {
            family.hiding.insert((tree, prefix));
        }
        changed += usize::from(family.set(hops, (tree, prefix), kept));
    }
    changed
}

/// Replaces the concerned routes of prefixes by those that were dumped (sorted).
fn compare<P: Prefix>(
    family: &mut Family<P>,
    hops: &mut NextHops,
    part: Part,
    tree: Tree,
    dumped: Vec<(P, Route)>,
    outcome: &mut Outcome,
) {
    for same in dumped.chunk_by(|a, b| a.0 == b.0) {
        let at = (tree, same[0].0);
        let known = match part {
            Part::All => &[],
            _ => family.get(at),
        };
        let fresh: Vec<Route> = same.iter().map(|&(_, route)| route).collect();
        let hides = P::V6 && may_hide::<P>(hops, family.get(at), &fresh);
        let (routes, unordered) = combine::<P>(hops, known, fresh, |route| part.has(hops, route));
        if hides {
            family.hiding.insert(at);
        }
        outcome.unordered |= unordered;
        outcome.differences += usize::from(family.set(hops, at, routes));
    }
    for (_, route) in dumped {
        hops.release(route.target);
    }
}

/// Whether a route that was known stands now, perhaps, between the ways of a multipath route: then Linux's dump leaves it out
/// (`fib6_dump_node()` in net/ipv6/ip6_fib.c).
fn may_hide<P: Prefix>(hops: &NextHops, known: &[Route], fresh: &[Route]) -> bool {
    let is_there = |route: &Route| fresh.iter().any(|new| is_same::<P>(hops, route, new));
    let mut lost = known.iter().filter(|route| !is_there(route));
    lost.any(|route| has_ways(hops, fresh, route))
}

/// Replaces the concerned routes of a prefix by the dumped ones; known routes keep their place.
/// Also returns whether the place of a new one is unknown ([`Outcome::unordered`]).
fn combine<P: Prefix>(
    hops: &NextHops,
    known: &[Route],
    mut fresh: Vec<Route>,
    concerned: impl Fn(&Route) -> bool,
) -> (Vec<Route>, bool) {
    let mut routes = Vec::with_capacity(known.len() + fresh.len());
    for route in known {
        let still = fresh.iter().position(|new| is_same::<P>(hops, route, new));
        match still {
            Some(at) => routes.push(fresh.remove(at)),
            None if !concerned(route) => routes.push(*route),
            None => {}
        }
    }
    let rival = |new: &Route| routes.iter().any(|route: &Route| route.key() == new.key());
    let unordered = fresh.iter().any(rival);
    routes.append(&mut fresh);
    routes.sort_by_key(|route| (route.table, route.metric)); // stable, as above
    (routes, unordered)
}
