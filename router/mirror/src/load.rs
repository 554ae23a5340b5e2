//! Dumps: reading the kernel's tables into the model, the first time and to reconcile.

use std::collections::{BTreeMap, BTreeSet};

use bora_fib::{Prefix4, Prefix6};

use crate::error::KernelError;
use crate::family::{Family, intern, is_of};
use crate::keys::{TargetId, is_found};
use crate::message::{
    self, Frame, Message, Neighbour, NextHopObject, RTM_GETNEXTHOP, RTM_GETNEXTHOPBUCKET, Rule,
    Target,
};
use crate::model::{Expiries, Model, Stale, note_expiry};
use crate::nexthops::NextHops;
use crate::prefix_routes::is_same;
use crate::rib::{Prefix, Route, Tree, number};
use crate::rules::Rules;
use crate::socket::Netlink;
use crate::sysctl::Unread;
use crate::world::World;

/// Attribute types of filters: the device of a neighbour, the device of a route.
const NDA_IFINDEX: u16 = 8;
const RTA_OIF: u16 = libc::RTA_OIF;
/// Up to this many devices are compared one at a time, each with a walk through the tables. For
/// more it is cheaper to compare all routes at once.
const ONE_BY_ONE: usize = 4;
/// Which routes to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// Routes with a path through a device.
    Device(u32),
    /// IPv6 routes that a protocol made.
    Protocol(u8),
}

/// How often to read rules that change meanwhile.
const RULE_DUMPS: usize = 10;

/// Reads dumps, and counts messages that could not be decoded.
pub(crate) struct Loader {
    pub(crate) socket: Netlink,
    pub(crate) decode_errors: u64,
    /// Changes interrupted a dump of the last reconciliation.
    pub(crate) overtaken: bool,
}

impl Loader {
    pub(crate) fn open() -> Result<Self, KernelError> {
        // the kernel writes a dump as we read it, so the buffer's size only decides the batch size
        let socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 20, "routing tables")?;
        Ok(Self {
            socket,
            decode_errors: 0,
            overtaken: false,
        })
    }

    /// Brings the model in line with the kernel where it is stale. Returns how many differences
    /// there were.
    pub(crate) fn reconcile(
        &mut self,
        model: &mut Model,
        stale: &Stale,
    ) -> Result<usize, KernelError> {
        let mut differences = 0;
        self.overtaken = false;
        if stale.all {
            differences += self.links(model)?;
            model.reread_settings(&Unread::everything());
            differences += self.addresses(model)?;
            let vxlans = model.world.links.values().filter(|link| link.is_vxlan());
            for device in vxlans.map(|link| link.index).collect::<Vec<_>>() {
                self.stations(model, device);
            }
        }
        if stale.all {
            self.rules(model);
            model.follow_tables();
        }
        if stale.all || stale.objects {
            differences += self.objects(model)?;
        }
        let all_neighbours = stale.all || stale.devices.len() > ONE_BY_ONE;
        let all_routes = all_neighbours || stale.routes;
        if all_neighbours {
            differences += self.neighbours(model, None)?;
        }
        if all_routes {
            differences += self.routes(model, Part::All)?;
            if !self.overtaken {
                model.note_loaded();
            }
        }
        for &device in &stale.devices {
            if !model.world.links.contains_key(&device) {
                differences += model.drop_device(device);
                continue;
            }
            if !all_neighbours {
                differences += self.neighbours(model, Some(device))?;
            }
            if !all_routes {
                differences += self.routes(model, Part::Device(device))?;
            }
        }
        for &protocol in stale.protocols.iter().filter(|_| !all_routes) {
            differences += self.routes(model, Part::Protocol(protocol))?;
        }
        Ok(differences)
    }

    fn dump<T>(
        &mut self,
        kind: u16,
        request: &[u8],
        mut pick: impl FnMut(Message) -> Option<T>,
    ) -> Result<Vec<T>, KernelError> {
        let mut found = Vec::new();
        let errors = &mut self.decode_errors;
        let each = |found: &mut Vec<T>, frame: Frame<'_>| match message::decode(&frame) {
            Ok(message) => found.extend(pick(message)),
            Err(e) => note(errors, frame.kind, e),
        };
        let whole = self
            .socket
            .dump(kind, request, &mut found, Vec::clear, each)?;
        self.overtaken |= !whole;
        Ok(found)
    }

    fn links(&mut self, model: &mut Model) -> Result<usize, KernelError> {
        let links = self.dump(libc::RTM_GETLINK, &[0; 16], |message| match message {
            Message::Link(link, false) => Some(link),
            _ => None,
        })?;
        let there: BTreeSet<u32> = links.iter().map(|link| link.index).collect();
        let known = model.world.links.values();
        let lost = known
            .filter(|link| !there.contains(&link.index))
            .cloned()
            .collect::<Vec<_>>();
        let lost = lost.into_iter().map(|link| Message::Link(link, true));
        let mut differences = 0;
        for message in lost.chain(links.into_iter().map(|link| Message::Link(link, false))) {
            let same = matches!(&message, Message::Link(link, false)
                if model.world.links.get(&link.index) == Some(link));
            differences += usize::from(!same);
            model.apply(message);
        }
        model.settle();
        Ok(differences)
    }

    /// Reads the rules.
    pub(crate) fn rules(&mut self, model: &mut Model) {
        let rules = [false, true].map(|v6| self.rules_of(v6));
        model.set_rules(rules);
    }

    fn rules_of(&mut self, v6: bool) -> Rules {
        let mut head = [0; 12]; // struct fib_rule_hdr
        head[0] = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let mut list = Vec::new();
        let errors = &mut self.decode_errors;
        let mut each = |list: &mut Vec<Rule>, frame: Frame<'_>| {
            if frame.kind == libc::RTM_NEWRULE {
                list.push(match message::decode_rule(frame.payload) {
                    Ok(rule) => rule,
                    Err(error) => {
                        note(errors, frame.kind, error);
                        Rule {
                            unknown: Some("it cannot be decoded"),
                            ..Rule::default()
                        }
                    }
                });
            }
        };
        for _ in 0..RULE_DUMPS {
            let dumped =
                self.socket
                    .dump(libc::RTM_GETRULE, &head, &mut list, Vec::clear, &mut each);
            match dumped {
                Ok(true) => return Rules { list, unread: None },
                Ok(false) => list.clear(),
                Err(KernelError::Dump { source, .. })
                    if matches!(
                        source.raw_os_error(),
                        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT)
                    ) =>
                {
                    return Rules::linux_own(v6);
                }
                Err(error) => {
                    let unread = Some(error.to_string());
                    return Rules {
                        list: Vec::new(),
                        unread,
                    };
                }
            }
        }
        self.overtaken = true;
        let unread = Some("cannot read rules: they change all the time".into());
        Rules {
            list: Vec::new(),
            unread,
        }
    }

    fn addresses(&mut self, model: &mut Model) -> Result<usize, KernelError> {
        let addresses = self.dump(libc::RTM_GETADDR, &[0; 8], |message| match message {
            Message::Address(address, false) => Some(address),
            _ => None,
        })?;
        let new: BTreeSet<_> = addresses.into_iter().collect();
        let old = std::mem::replace(&mut model.world.addresses, new);
        Ok(old.symmetric_difference(&model.world.addresses).count())
    }

    fn objects(&mut self, model: &mut Model) -> Result<usize, KernelError> {
        let found = self.dump(RTM_GETNEXTHOP, &[0; 8], |message| match message {
            Message::NextHop(message, false) => Some((message.id, message.object)),
            _ => None,
        });
        match found {
            Ok(found) => {
                let found: BTreeMap<u32, NextHopObject> = found.into_iter().collect();
                Ok(model.set_objects(found) + self.buckets(model)?)
            }
            // kernels before 5.3 have none
            Err(KernelError::Dump { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }

    /// The buckets of resilient groups, if there are any.
    fn buckets(&mut self, model: &mut Model) -> Result<usize, KernelError> {
        let resilient = |object: &NextHopObject| match object {
            NextHopObject::Group { resilient, .. } => *resilient,
            _ => false,
        };
        if !model.world.objects.values().any(resilient) {
            return Ok(model.set_buckets(BTreeMap::new()));
        }
        let mut found = self.dump(RTM_GETNEXTHOPBUCKET, &[0; 8], |message| match message {
            Message::Bucket(bucket) => Some(bucket),
            _ => None,
        })?;
        found.sort_by_key(|bucket| (bucket.group, bucket.index));
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for bucket in found {
            groups
                .entry(bucket.group)
                .or_default()
                .push(bucket.next_hop);
        }
        Ok(model.set_buckets(groups))
    }

    fn neighbours(&mut self, model: &mut Model, device: Option<u32>) -> Result<usize, KernelError> {
        let request = request(&[0; 12], device.map(|device| (NDA_IFINDEX, device)));
        let neighbours: Vec<Neighbour> =
            self.dump(libc::RTM_GETNEIGH, &request, |message| match message {
                Message::Neighbour(neighbour, false) => Some(neighbour),
                _ => None,
            })?;
        Ok(model.set_neighbours(device, neighbours))
    }

    /// Reads the stations behind a VXLAN device. Without them only Linux can forward by it.
    pub(crate) fn stations(&mut self, model: &mut Model, device: u32) {
        let mut head = [0; 12]; // struct ndmsg
        head[0] = libc::AF_BRIDGE as u8;
        head[4..8].copy_from_slice(&device.to_ne_bytes());
        let found = self.dump(libc::RTM_GETNEIGH, &head, |message| match message {
            Message::Station(station, false) if station.device == device => Some(station),
            _ => None,
        });
        let found = match found {
            Ok(found) => Some(found),
            Err(error) => {
                log::warn!("interface {device}: only Linux forwards by it: {error}");
                None
            }
        };
        model.set_stations(device, found);
    }

    fn routes(&mut self, model: &mut Model, part: Part) -> Result<usize, KernelError> {
        let Model {
            world,
            hops,
            v4,
            v6,
            next_expiry,
            ..
        } = model;
        let mut compared = Compared::default();
        if !matches!(part, Part::Protocol(_)) {
            let four = self.routes_of::<Prefix4>(world, hops, part, next_expiry)?;
            compared.add(compare(v4, hops, part, four));
        }
        let six = self.routes_of::<Prefix6>(world, hops, part, next_expiry)?;
        compared.add(compare(v6, hops, part, six));
        if compared.unordered {
            model.stale.routes = true;
            model.stale.reason = "routes of equal metric";
        }
        Ok(compared.differences)
    }

    /// The routes of a family, or a part of them, in the order of the kernel's tables. Each holds a use of
    /// its target.
    fn routes_of<P: Prefix>(
        &mut self,
        world: &World,
        hops: &mut NextHops,
        part: Part,
        next_expiry: &mut Expiries,
    ) -> Result<Vec<(P, Route)>, KernelError> {
        let family = if P::V6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let mut head = [0; 12];
        head[0] = family;
        let device = match part {
            Part::Device(device) => Some((RTA_OIF, device)),
            Part::Protocol(protocol) => {
                head[5] = protocol;
                None
            }
            Part::All => None,
        };
        let request = request(&head, device);
        let errors = &mut self.decode_errors;
        let mut state = (Vec::new(), hops);
        let restart = |(found, hops): &mut (Vec<(P, Route)>, &mut NextHops)| {
            found
                .drain(..)
                .for_each(|(_, route)| hops.release(route.target));
        };
        let each = |(found, hops): &mut (Vec<(P, Route)>, &mut NextHops), frame: Frame<'_>| {
            match message::decode(&frame) {
                // routes of next-hop objects are compared with the objects: the devices they go
                // through may just have changed
                Ok(Message::Route(route, _))
                    if device.is_some() && route.target.object.is_some() => {}
                Ok(Message::Route(route, false)) if is_of::<P>(&route) && route.expires >= 0 => {
                    note_expiry(next_expiry, &route);
                    let prefix = P::masked(number(route.address), route.len);
                    found.extend(intern::<P>(world, hops, route).map(|route| (prefix, route)));
                }
                Ok(_) => {}
                Err(e) => note(errors, frame.kind, e),
            }
        };
        let dumped = self
            .socket
            .dump(libc::RTM_GETROUTE, &request, &mut state, restart, each);
        match dumped {
            Ok(whole) => self.overtaken |= !whole,
            Err(error) => {
                restart(&mut state);
                return Err(error);
            }
        }
        Ok(state.0)
    }
}

/// Counts a message that could not be decoded; the first of all is logged.
pub(crate) fn note(errors: &mut u64, kind: u16, error: message::Malformed) {
    if *errors == 0 {
        log::warn!("netlink message of type {kind}: {error}; it is ignored and counted");
    }
    *errors += 1;
}

/// A fixed header, and behind it a u32 attribute if there is a filter.
fn request(head: &[u8], filter: Option<(u16, u32)>) -> Vec<u8> {
    let mut request = head.to_vec();
    if let Some((kind, value)) = filter {
        request.extend(8u16.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(value.to_ne_bytes());
    }
    request
}

/// The result of a comparison.
#[derive(Default)]
struct Compared {
    differences: usize,
    /// A route appeared beside another of its metric, and a dump of one device does not show which
    /// comes first.
    unordered: bool,
}

impl Compared {
    fn add(&mut self, other: Self) {
        self.differences += other.differences;
        self.unordered |= other.unordered;
    }
}

/// Replaces the routes of an IP version, or a part of them, by those that were dumped.
fn compare<P: Prefix>(
    family: &mut Family<P>,
    hops: &mut NextHops,
    part: Part,
    mut dumped: Vec<(P, Route)>,
) -> Compared {
    dumped.sort_by_key(place); // stable: keeps the kernel's order
    let through = match part {
        Part::Device(device) => targets_through(hops, device),
        _ => Vec::new(),
    };
    let concerned = |route: &Route| match part {
        Part::All => true,
        Part::Device(_) => is_found(through.binary_search(&route.target)),
        Part::Protocol(protocol) => route.protocol == protocol,
    };
    let mut compared = Compared {
        differences: remove_lost(family, hops, &dumped, concerned),
        unordered: false,
    };
    for same in dumped.chunk_by(|a, b| place(a) == place(b)) {
        let at = place(&same[0]);
        let known = match part {
            Part::All => &[],
            _ => family.get(at),
        };
        let fresh = same.iter().map(|&(_, route)| route).collect();
        let (routes, unordered) = combine::<P>(hops, known, fresh, concerned);
        compared.unordered |= unordered;
        compared.differences += usize::from(family.set(hops, at, routes));
    }
    for (_, route) in &dumped {
        hops.release(route.target);
    }
    compared
}

/// Where a route is kept.
fn place<P: Prefix>(&(prefix, route): &(P, Route)) -> (Tree, P) {
    (route.table.tree(), prefix)
}

/// The targets with a path through a device, sorted.
fn targets_through(hops: &NextHops, device: u32) -> Vec<TargetId> {
    let through = |target: &Target| target.hops.iter().any(|hop| hop.device == device);
    let targets = hops.targets().filter(|(_, target)| through(target));
    targets.map(|(id, _)| id).collect()
}

/// Removes the concerned routes of prefixes that are not in the dump (sorted). Returns how many
/// prefixes changed.
fn remove_lost<P: Prefix>(
    family: &mut Family<P>,
    hops: &mut NextHops,
    dumped: &[(P, Route)],
    concerned: impl Fn(&Route) -> bool,
) -> usize {
    let is_there = |of: (Tree, P)| is_found(dumped.binary_search_by_key(&of, place));
    let known = family.iter();
    let lost: Vec<(Tree, P)> = known
        .filter(|&(at, routes)| routes.iter().any(&concerned) && !is_there(at))
        .map(|(at, _)| at)
        .collect();
    let mut changed = 0;
    for at in lost {
        let mut kept = family.get(at).to_vec();
        kept.retain(|route| !concerned(route));
        changed += usize::from(family.set(hops, at, kept));
    }
    changed
}

/// Replaces the concerned routes of a prefix by the dumped ones; known routes keep their place.
/// Also returns whether the place of a new one is unknown ([`Compared::unordered`]).
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
