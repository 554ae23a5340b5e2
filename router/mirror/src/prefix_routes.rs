//! The routes of one prefix, in the kernel's order: what an event changes in them.

use crate::message::Hop;
use crate::message::RTPROT_RA;
use crate::nexthops::NextHops;
use crate::rib::{Prefix, Route};
use crate::world::World;

/// What an event leaves to do besides writing the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// Nothing.
    Done,
    /// The event contradicts the mirror: compare with the kernel.
    Suspicious,
    /// The event does not say which of the prefix's routes it is about: compare all routes with the kernel.
    Ambiguous,
}

/// Adds a route to those of its prefix, where the kernel puts it. IPv6 announces all ways of a
/// multipath route at once, also when one is appended; a way that comes alone is a route beside the others, as
/// those that Linux makes of router advertisements always are (rt6_qualify_for_ecmp()).
pub(crate) fn insert<P: Prefix>(
    hops: &NextHops,
    routes: &mut Vec<Route>,
    new: Route,
    replace: bool,
    append: bool,
) -> Applied {
    let known = routes
        .iter()
        .position(|route| is_same::<P>(hops, route, &new));
    // when a next-hop object changes, the kernel announces its routes again as replaced; they keep
    // their place
    let object = hops.target(new.target).and_then(|target| target.object);
    let again = object.is_some() && known.is_some();
    if replace
        && !again
        && let Some(at) = to_replace::<P>(hops, routes, &new)
    {
        let advertised = |route: &&Route| route.key() == new.key() && is_advertised(route);
        // one may go that the kernel keeps; also where it seems to be the only one, if the event is older than a dump
        let ambiguous = P::V6 && routes.iter().any(|route| advertised(&route));
        let applied = replace_at::<P>(hops, routes, new, at);
        return if ambiguous {
            Applied::Ambiguous
        } else {
            applied
        };
    }
    // one has all ways of the other: a way was added, or the event is older than what is known
    let same_place = |route: &Route| {
        P::V6
            && route.key() == new.key()
            && (has_ways_of(hops, &new, route) || has_ways_of(hops, route, &new))
    };
    if let Some(at) = known.or_else(|| routes.iter().position(same_place)) {
        routes[at] = new;
        return Applied::Done;
    }
    let before = |route: &Route| {
        let (ours, theirs) = ((new.table, new.metric), (route.table, route.metric));
        theirs < ours || (theirs == ours && (append || P::V6))
    };
    let after = routes.iter().position(|route| !before(route));
    routes.insert(after.unwrap_or(routes.len()), new);
    Applied::Done
}

/// Whether a way was added to a route, and one of both has another MTU than the other.
pub(crate) fn has_other_mtu(hops: &NextHops, routes: &[Route], new: &Route) -> bool {
    let mtu = |route: &Route| hops.target(route.target).and_then(|target| target.mtu);
    let mut same = routes.iter().filter(|route| route.key() == new.key());
    same.any(|route| has_ways_of(hops, new, route) && mtu(route) != mtu(new))
}

/// Whether a route like this one has several ways.
pub(crate) fn has_ways(hops: &NextHops, routes: &[Route], like: &Route) -> bool {
    let mut same = routes.iter().filter(|route| route.key() == like.key());
    let ways = |route: &Route| hops.target(route.target).map_or(0, |it| it.hops.len());
    same.any(|route| ways(route) > 1)
}

/// Which route of the prefix a replacing one replaces.
fn to_replace<P: Prefix>(hops: &NextHops, routes: &[Route], new: &Route) -> Option<usize> {
    let same_key = |route: &Route| route.key() == new.key();
    let multipath = is_multipath(hops, new);
    let like = |route: &Route| same_key(route) && multipath == is_multipath(hops, route);
    let like = routes.iter().position(like).filter(|_| P::V6);
    like.or_else(|| routes.iter().position(same_key))
}

/// Replaces a route. An event that is older than a dump may be read after it, so the new route may be
/// there already: that one goes. But IPv6 sometimes does have a route twice.
fn replace_at<P: Prefix>(
    hops: &NextHops,
    routes: &mut Vec<Route>,
    new: Route,
    at: usize,
) -> Applied {
    let same = |route: &Route| is_same::<P>(hops, route, &new);
    let before = routes.len();
    routes[at] = new;
    let mut index = 0;
    routes.retain(|route| {
        index += 1;
        index == at + 1 || !same(route)
    });
    if P::V6 && routes.len() != before {
        Applied::Suspicious
    } else {
        Applied::Done
    }
}

/// Removes a route from those of its prefix. IPv6 announces only the paths that were removed.
pub(crate) fn remove<P: Prefix>(
    world: &World,
    hops: &mut NextHops,
    routes: &mut Vec<Route>,
    gone: &Route,
) -> Applied {
    let same_key = |route: &Route| route.key() == gone.key();
    let found = routes
        .iter()
        .position(|route| is_same::<P>(hops, route, gone));
    if let Some(at) = found {
        routes.remove(at);
        return Applied::Done;
    }
    let part = |route: &Route| same_key(route) && has_ways_of(hops, route, gone);
    let part = routes.iter().position(part);
    let Some(at) = part.or_else(|| routes.iter().position(same_key)) else {
        return Applied::Done;
    };
    let (Some(left), Some(gone)) = (hops.target(routes[at].target), hops.target(gone.target))
    else {
        return Applied::Suspicious;
    };
    let mut left = left.clone();
    let (before, first) = (left.hops.len(), left.hops.first().copied());
    left.hops.retain(|hop| {
        !gone
            .hops
            .iter()
            .any(|g| (g.device, g.gateway) == (hop.device, hop.gateway))
    });
    if !P::V6 || left.hops.is_empty() || left.hops.len() == before {
        return Applied::Suspicious;
    }
    // a multipath route stands where its first path stands, which is the first no more
    let moved =
        left.hops.first() != first.as_ref() && routes.iter().filter(|r| same_key(r)).count() > 1;
    if let [only] = left.hops.as_mut_slice() {
        only.weight = 1;
    }
    // the caller's `set` takes a use of the new target of its own, and releases this one
    let target = hops.intern(world, left, P::V6);
    routes[at].target = target;
    hops.release(target);
    if moved {
        Applied::Ambiguous
    } else {
        Applied::Done
    }
}

/// Whether two routes are the same.
pub(crate) fn is_same<P: Prefix>(hops: &NextHops, a: &Route, b: &Route) -> bool {
    a.key() == b.key() && same_way(hops, a, b, P::V6)
}

/// Whether two routes have the same paths, dead or alive. IPv6 deletion events lack some
/// attributes.
fn same_way(hops: &NextHops, a: &Route, b: &Route, v6: bool) -> bool {
    if a.target == b.target {
        return true;
    }
    let (Some(a), Some(b)) = (hops.target(a.target), hops.target(b.target)) else {
        return false;
    };
    let way = |hop: &Hop| (hop.device, hop.gateway, if v6 { 0 } else { hop.weight });
    (a.kind, a.object) == (b.kind, b.object)
        && (v6 || (a.mtu, a.source) == (b.mtu, b.source))
        && a.hops.iter().map(way).eq(b.hops.iter().map(way))
}

/// Whether all ways of one route are among those of another, all with gateways.
fn has_ways_of(hops: &NextHops, all: &Route, some: &Route) -> bool {
    let ways = |route: &Route| {
        let target = hops.target(route.target);
        let ways = target.into_iter().flat_map(|target| &target.hops);
        ways.map(|hop| (hop.device, hop.gateway))
    };
    is_multipath(hops, all)
        && is_multipath(hops, some)
        && ways(some).all(|way| way.1.is_some() && ways(all).any(|other| other == way))
}

/// Whether it may be a route of a router advertisement; other programs use this mark, too.
pub(crate) fn is_advertised(route: &Route) -> bool {
    route.protocol == RTPROT_RA
}

/// Whether IPv6 merges this route with others of its metric into one multipath route: it has a
/// gateway and no next-hop object.
fn is_multipath(hops: &NextHops, route: &Route) -> bool {
    let target = hops.target(route.target);
    target
        .and_then(|target| target.hops.first())
        .is_some_and(|hop| hop.gateway.is_some())
}
