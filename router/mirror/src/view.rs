//! The kernel's routes, as `bora show routes` prints them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use bora_fib::{Prefix4, Prefix6};

use crate::family::{Family, is_own};
use crate::message::{Hop, Target};
use crate::mirror::Mirror;
use crate::model::Model;
use crate::nexthops::NextHops;
use crate::rib::{Best, MERGED, Prefix, Route, Table, Tree, number};

/// One route of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'a> {
    /// First address of the prefix.
    pub address: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// Table: 255 local, 254 main, 253 default, or a further one.
    pub table: u32,
    /// IPv4 TOS it is for; 0 for all.
    pub tos: u8,
    /// Metric.
    pub metric: u32,
    /// Who made it (RTPROT_*).
    pub protocol: u8,
    /// Where it leads.
    pub target: &'a Target,
    /// At least one of its paths is up.
    pub usable: bool,
}

/// How far [`Mirror::some_routes`] has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoutePlace {
    v6: bool,
    tree: Tree,
    shard: usize,
}

impl Mirror {
    /// The kernel's routes of the tables that its rules and VRFs use, in no order.
    pub fn routes(&self) -> impl Iterator<Item = RouteView<'_>> {
        views(&self.model.v4, &self.model.hops).chain(views(&self.model.v6, &self.model.hops))
    }

    /// Shows some hundred or thousand of the kernel's routes, of the tables that its rules and VRFs use, in no order; returns
    /// whether there are more. Between two calls the tables may change: a route that changes is shown as it was or as it is.
    pub fn some_routes(
        &self,
        place: &mut RoutePlace,
        show: &mut impl FnMut(&RouteView<'_>),
    ) -> bool {
        let Model { v4, v6, hops, .. } = &self.model;
        if place.v6 {
            return shard(v6, hops, place, show);
        }
        if !shard(v4, hops, place, show) {
            *place = RoutePlace {
                v6: true,
                ..RoutePlace::default()
            };
        }
        true
    }

    /// The route that the tables local and main have for a destination; `None` if they have none, or if TOS or
    /// source address decide as well.
    pub fn route_to(&self, address: IpAddr) -> Option<RouteView<'_>> {
        match address {
            IpAddr::V4(_) => best(&self.model.v4, &self.model.hops, MERGED, address),
            IpAddr::V6(_) => best(&self.model.v6, &self.model.hops, MERGED, address),
        }
    }

    /// The routes that further tables have for a destination.
    pub fn further_routes_to(&self, address: IpAddr) -> Vec<RouteView<'_>> {
        match address {
            IpAddr::V4(_) => further(&self.model.v4, &self.model.hops, address),
            IpAddr::V6(_) => further(&self.model.v6, &self.model.hops, address),
        }
    }

    /// The paths of a route's target, its next-hop object resolved.
    pub fn ways(&self, target: &Target) -> Vec<Hop> {
        self.model.world.ways(target)
    }

    /// Tells some thousand prefixes of the FIB, with those of its further tables, in no order; returns whether there are more.
    /// Between two calls the tables may change.
    pub fn some_prefixes(&self, place: &mut RoutePlace, tell: &mut impl FnMut(IpAddr, u8)) -> bool {
        let Model { v4, v6, hops, .. } = &self.model;
        if place.v6 {
            return prefixes(v6, hops, place, tell);
        }
        if !prefixes(v4, hops, place, tell) {
            *place = RoutePlace {
                v6: true,
                ..RoutePlace::default()
            };
        }
        true
    }

    /// Takes prefixes of the FIB that have changed lately, the first hundred of each IP version.
    pub fn take_changed_prefixes(&mut self) -> Vec<(IpAddr, u8)> {
        let Model { v4, v6, .. } = &mut self.model;
        let v4 = std::mem::take(&mut v4.changed);
        let v6 = std::mem::take(&mut v6.changed);
        let v4 = v4.into_iter().map(parts);
        v4.chain(v6.into_iter().map(parts)).collect()
    }

    /// Leaves these prefixes to Linux, because it does something else there than the FIB says; all others are Bora's again.
    pub fn distrust(&mut self, prefixes: impl Iterator<Item = (IpAddr, u8)>) {
        let (mut v4, mut v6) = (BTreeSet::new(), BTreeSet::new());
        for (address, len) in prefixes {
            match address {
                IpAddr::V4(address) => v4.insert(Prefix4::masked(address.to_bits(), len)),
                IpAddr::V6(address) => v6.insert(Prefix6::masked(address.to_bits(), len)),
            };
        }
        self.model.distrust(v4, v6);
    }

    /// The longest prefix of the main table that has an address.
    pub fn longest_prefix(&self, address: IpAddr) -> Option<(IpAddr, u8)> {
        match address {
            IpAddr::V4(address) => self
                .fib()
                .longest_match4(address.to_bits())
                .map(|(prefix, _)| parts(prefix)),
            IpAddr::V6(address) => self
                .fib()
                .longest_match6(address.to_bits())
                .map(|(prefix, _)| parts(prefix)),
        }
    }

    /// Whether Linux sends from an address (`__ip_dev_find()`): the table `local` has it, or an interface that may be down.
    pub fn sends_from(&self, address: Ipv4Addr) -> bool {
        let Model {
            v4, hops, world, ..
        } = &self.model;
        let mut routes = v4.rib.covering(address.to_bits().into(), 32);
        routes.any(|(_, routes)| {
            { routes.iter() }.any(|route| route.table == Table::Local && is_own(hops, route))
        }) || { world.addresses.iter() }.any(|known| known.address == address)
    }

    /// Takes the prefixes of which the path MTU of the route has changed, in octets: `None` where it has none of its own any
    /// more.
    pub fn take_mtu_changes(&mut self) -> Vec<((IpAddr, u8), Option<u32>)> {
        let mut changes = Vec::new();
        mtu_changes(&mut self.model.v4, &mut changes);
        mtu_changes(&mut self.model.v6, &mut changes);
        changes
    }

    /// Takes the router's own addresses and prefixes ([`Mirror::local_addresses`]) that have come (`true`) or gone.
    pub fn take_own_changes(&mut self) -> Vec<((IpAddr, u8), bool)> {
        let own = &mut self.model.local;
        let changed = std::mem::take(&mut own.changed);
        let is_own = |net| (net, own.prefixes.contains(&net));
        changed.into_iter().map(is_own).collect()
    }
}

fn view<'a, P: Prefix>(hops: &'a NextHops, prefix: P, route: &Route) -> Option<RouteView<'a>> {
    let (address, len) = prefix.parts();
    Some(RouteView {
        address: P::ip(address),
        len,
        table: route.table.number(),
        tos: route.tos,
        metric: route.metric,
        protocol: route.protocol,
        target: hops.target(route.target)?,
        usable: hops.usable(route.target),
    })
}

fn views<'a, P: Prefix>(
    family: &'a Family<P>,
    hops: &'a NextHops,
) -> impl Iterator<Item = RouteView<'a>> {
    let routes = family.iter();
    routes.flat_map(move |((_, prefix), routes)| {
        routes.iter().filter_map(move |r| view(hops, prefix, r))
    })
}

/// Shows the routes of one shard; returns whether there are more.
fn shard<P: Prefix>(
    family: &Family<P>,
    hops: &NextHops,
    place: &mut RoutePlace,
    show: &mut impl FnMut(&RouteView<'_>),
) -> bool {
    let mut further = family.further.range(place.tree..);
    let rib = match place.tree {
        MERGED => &family.rib,
        before => {
            let Some((&tree, table)) = further.next() else {
                return false;
            };
            if tree != before {
                (place.tree, place.shard) = (tree, 0);
            }
            &table.rib
        }
    };
    for (prefix, routes) in rib.part(place.shard) {
        let views = routes.iter();
        let views = views.filter_map(|route| view(hops, prefix, route));
        views.for_each(|view| show(&view));
    }
    place.shard += 1;
    if place.shard < rib.shards() {
        return true;
    }
    place.shard = 0;
    let next = place.tree.checked_add(1);
    place.tree = next.unwrap_or(MERGED); // it is the last one
    next.is_some()
}

/// Tells a part of the FIB's prefixes; returns whether there are more.
fn prefixes<P: Prefix>(
    family: &Family<P>,
    hops: &NextHops,
    place: &mut RoutePlace,
    tell: &mut impl FnMut(IpAddr, u8),
) -> bool {
    /// Some tens of microseconds' worth.
    const PART: usize = 4096;
    let mut trees = family.ribs().map(|(tree, _)| tree);
    let Some(tree) = trees.find(|&tree| tree >= place.tree) else {
        return false;
    };
    if tree != place.tree {
        (place.tree, place.shard) = (tree, 0);
    }
    let part = family.fib_of(tree);
    let part = part.map(|table| P::fib_part(&hops.fib, table, place.shard, PART));
    let (found, next) = part.unwrap_or_default();
    for (address, len) in found.into_iter().map(|(prefix, _)| parts(prefix)) {
        tell(address, len);
    }
    place.shard = next.unwrap_or(0);
    let after = tree.checked_add(1);
    if next.is_none() {
        place.tree = after.unwrap_or(tree);
    }
    next.is_some() || after.is_some()
}

fn parts<P: Prefix>(prefix: P) -> (IpAddr, u8) {
    let (address, len) = prefix.parts();
    (P::ip(address), len)
}

fn best<'a, P: Prefix>(
    family: &'a Family<P>,
    hops: &'a NextHops,
    tree: Tree,
    address: IpAddr,
) -> Option<RouteView<'a>> {
    match family.look_up(hops, tree, number(address))? {
        (prefix, Best::Route(route)) => view(hops, prefix, &route),
        (_, Best::Depends) => None,
    }
}

fn further<'a, P: Prefix>(
    family: &'a Family<P>,
    hops: &'a NextHops,
    address: IpAddr,
) -> Vec<RouteView<'a>> {
    let tables = family.further.keys();
    tables
        .filter_map(|&table| best(family, hops, table, address))
        .collect()
}

fn mtu_changes<P: Prefix>(family: &mut Family<P>, changes: &mut Vec<((IpAddr, u8), Option<u32>)>) {
    for prefix in std::mem::take(&mut family.mtu_changes) {
        let (address, len) = prefix.parts();
        let mtu = family.mtus.get(&(MERGED, prefix)).copied();
        changes.push(((P::ip(address), len), mtu));
    }
}
