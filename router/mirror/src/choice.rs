//! Which of the routes that an IPv6 prefix has in one table Linux uses: find_rr_leaf() and rt6_score_route() of
//! net/ipv6/route.c, for a router, which does not ask whether gateways are reachable.

use crate::nexthops::NextHops;
use crate::rib::{Best, Route};

/// Chooses among the routes of a prefix, best metric first. `usable`: those that Linux looks at.
pub(crate) fn choose(hops: &NextHops, all: &[Route], usable: &[Route]) -> Option<Best> {
    let table = usable.first()?.table;
    let usable = usable.iter().filter(|route| route.table == table);
    // only where no route of the lowest metric can be used, Linux goes on, and then to all others at once
    let lowest = all.iter().find(|route| route.table == table)?.metric;
    let mut rivals: Vec<&Route> = usable.clone().filter(|r| r.metric == lowest).collect();
    if rivals.is_empty() {
        rivals = usable.collect();
    }
    // Linux goes no further than to a blackhole object, whatever its preference
    let is_blackhole = |route: &&Route| hops.is_blackhole_object(route.target);
    let ends_early = rivals.len() > 1 && rivals.iter().any(is_blackhole);
    let best = rivals.iter().map(|route| route.preference).max()?;
    if !ends_early {
        rivals.retain(|route| route.preference == best);
    }
    let (&first, others) = rivals.split_first()?;
    // the input's own device comes first, and then the oldest route
    let at_first = hops.devices(first.target);
    let harmless = |route: &&Route| {
        let mut devices = hops.devices(route.target).iter();
        // packets from a macvlan to what it is on are left to Linux anyhow
        let is_on_first =
            || matches!((at_first, hops.below(route.target)), (&[first], Some(it)) if it == first);
        hops.id(route.target) == hops.id(first.target)
            || (!ends_early && (devices.all(|it| at_first.contains(it)) || is_on_first()))
    };
    Some(match others.iter().all(harmless) {
        true => Best::Route(*first),
        false => Best::Depends,
    })
}
