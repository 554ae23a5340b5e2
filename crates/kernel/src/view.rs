//! The kernel's routes, as `bora show routes` prints them.

use std::net::IpAddr;

use crate::family::Family;
use crate::message::{Hop, Target};
use crate::mirror::Mirror;
use crate::nexthops::NextHops;
use crate::rib::{Best, MERGED, Prefix, Route, Tree, number};

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

impl Mirror {
    /// The kernel's routes of the tables that its rules and VRFs use, in no order.
    pub fn routes(&self) -> impl Iterator<Item = RouteView<'_>> {
        views(&self.model.v4, &self.model.hops).chain(views(&self.model.v6, &self.model.hops))
    }

    /// The route that the tables local and main have for a destination; `None` if they have none, or if TOS or
    /// source address decide as well.
    pub fn route_to(&self, address: IpAddr) -> Option<RouteView<'_>> {
        match address {
            IpAddr::V4(_) => best(&self.model.v4, &self.model.hops, MERGED, address),
            IpAddr::V6(_) => best(&self.model.v6, &self.model.hops, MERGED, address),
        }
    }

    /// The same of each further table that has one.
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

    /// Prefixes whose route has a path MTU of its own, in octets.
    pub fn route_mtus(&self) -> impl Iterator<Item = ((IpAddr, u8), u32)> {
        mtus(&self.model.v4).chain(mtus(&self.model.v6))
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

fn mtus<P: Prefix>(family: &Family<P>) -> impl Iterator<Item = ((IpAddr, u8), u32)> {
    let merged = family.mtus.iter().filter(|((tree, _), _)| *tree == MERGED);
    merged.map(|((_, prefix), &mtu)| {
        let (address, len) = prefix.parts();
        ((P::ip(address), len), mtu)
    })
}
