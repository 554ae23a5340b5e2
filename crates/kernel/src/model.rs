//! The mirror without its sockets: messages in, FIB out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bora_fib::{FibError, FibWriter, Prefix4, Prefix6};

use crate::family::{Applied, Family};
use crate::message::{
    Address, Hop, Link, Message, Neighbour, NextHopMessage, NextHopObject, RouteMessage, RouteType,
    Target,
};
use crate::nexthops::{NextHops, TargetId};
use crate::rib::{Prefix, Route, Table, number};
use crate::sysctl::Unread;
use crate::world::{LocalAddresses, Port, World};

/// What has to be compared with the kernel, because it changes tables without an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// Everything.
    pub(crate) all: bool,
    /// All routes.
    pub(crate) routes: bool,
    /// Routes and neighbours of these devices.
    pub(crate) devices: BTreeSet<u32>,
    /// Next-hop objects, and through them routes.
    pub(crate) objects: bool,
    /// Why, for the log and `bora show sync`.
    pub(crate) reason: &'static str,
}

impl Stale {
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && !self.routes && !self.objects && self.devices.is_empty()
    }

    /// Puts off what could not be compared now.
    pub(crate) fn add(&mut self, other: Self) {
        self.all |= other.all;
        self.routes |= other.routes;
        self.objects |= other.objects;
        self.devices.extend(other.devices);
        self.reason = other.reason;
    }

    fn device(&mut self, device: u32, reason: &'static str) {
        self.devices.insert(device);
        self.reason = reason;
    }
}

/// What a batch of messages changed, beside the FIB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noticed {
    pub(crate) links: bool,
    pub(crate) settings: Unread,
    pub(crate) guard: bool,
}

/// The kernel's state as known, and the FIB made of it.
pub(crate) struct Model {
    pub(crate) world: World,
    pub(crate) hops: NextHops,
    pub(crate) v4: Family<Prefix4>,
    pub(crate) v6: Family<Prefix6>,
    pub(crate) local: LocalAddresses,
    pub(crate) stale: Stale,
    pub(crate) noticed: Noticed,
    /// Hundredths of a second to the end of the IPv6 route that expires next.
    pub(crate) next_expiry: Option<u32>,
}

impl Model {
    pub(crate) fn new(fib: FibWriter) -> Result<Self, FibError> {
        let mut model = Self {
            world: World::default(),
            hops: NextHops::new(fib)?,
            v4: Family::new(),
            v6: Family::new(),
            local: LocalAddresses::default(),
            stale: Stale::default(),
            noticed: Noticed::default(),
            next_expiry: None,
        };
        model.v4.insert_fixed(&mut model.hops)?;
        model.v6.insert_fixed(&mut model.hops)?;
        Ok(model)
    }

    /// Takes one message in. The FIB follows with [`Self::sync`].
    pub(crate) fn apply(&mut self, message: Message) {
        match message {
            Message::Link(link, gone) => self.link(link, gone),
            Message::Address(address, gone) => self.address(address, gone),
            Message::Neighbour(neighbour, gone) => self.neighbour(neighbour, gone),
            Message::Route(route, gone) => self.route(route, gone),
            Message::NextHop(object, gone) => self.object(object, gone),
            Message::Bucket(_) => {
                self.stale.objects = true;
                self.stale.reason = "a bucket moved";
            }
            Message::Netconf(Some(device)) => self.unread(device),
            Message::Netconf(None) => self.noticed.settings.all = true,
            Message::Rule | Message::Traffic => self.noticed.guard = true,
            Message::Other => {}
        }
    }

    pub(crate) fn route(&mut self, route: RouteMessage, gone: bool) {
        log::trace!("{} {route:?}", if gone { "gone" } else { "new" });
        if route.expires > 0 {
            let left = route.expires.unsigned_abs();
            self.next_expiry = Some(self.next_expiry.map_or(left, |next| next.min(left)));
        }
        let devices: Vec<u32> = route.target.hops.iter().map(|hop| hop.device).collect();
        let applied = match route.address {
            IpAddr::V4(_) => self.v4.apply(&self.world, &mut self.hops, route, gone),
            IpAddr::V6(_) => self.v6.apply(&self.world, &mut self.hops, route, gone),
        };
        if applied == Applied::Suspicious {
            for device in devices {
                self.stale.device(device, "a route event did not fit");
            }
        }
    }

    fn link(&mut self, link: Link, gone: bool) {
        let index = link.index;
        self.noticed.links = true;
        if gone {
            self.world.links.remove(&index);
            self.world
                .addresses
                .retain(|address| address.device != index);
            self.forget_neighbours(index);
            self.unread(index);
        } else {
            let old = self.world.links.insert(index, link.clone());
            let Some(old) = old else {
                self.unread(index);
                self.noticed.guard = true;
                return self.device_changed(index, true, "a link came");
            };
            if old == link {
                return;
            }
            if old.name != link.name || old.mtu != link.mtu {
                self.unread(index);
            }
            self.noticed.guard |= old.qdisc != link.qdisc;
            if (old.up, old.carrier) == (link.up, link.carrier) {
                return self.hops.refresh_device(&self.world, Some(index));
            }
        }
        let alive = self.world.links.get(&index).is_some_and(|link| link.up);
        self.device_changed(index, alive, "a link went up or down");
    }

    /// Computes anew what leads through a device. Administratively down, the kernel deletes its
    /// IPv4 routes without a word; a multipath route stays while it has another way.
    fn device_changed(&mut self, device: u32, up: bool, reason: &'static str) {
        self.stale.device(device, reason);
        self.stale.objects |= !self.world.objects.is_empty();
        self.refresh(|world, target| world.goes_through(target, device));
        if !up {
            let world = &self.world;
            let dead = |target: &Target| {
                target.kind == RouteType::Unicast
                    && world.goes_through(target, device)
                    && world.ways(target).iter().all(|hop| world.is_down(hop))
            };
            let dead = self.select(dead);
            self.v4.remove_routes(&mut self.hops, |route| {
                dead.binary_search(&route.target).is_ok()
            });
        }
        self.hops.refresh_device(&self.world, Some(device));
        self.hops.touch_gateways(Some(device));
    }

    /// Forgets the routes through a device that is gone. Returns how many targets that were.
    pub(crate) fn drop_device(&mut self, device: u32) -> usize {
        let world = &self.world;
        let only = |target: &Target| {
            let ways = world.ways(target);
            !ways.is_empty() && ways.iter().all(|hop| hop.device == device)
        };
        let gone = self.select(only);
        let in_gone = |route: &Route| gone.binary_search(&route.target).is_ok();
        self.v4.remove_routes(&mut self.hops, in_gone);
        self.v6.remove_routes(&mut self.hops, in_gone);
        gone.len()
    }

    /// Computes targets anew and marks the prefixes that win or lose a usable route by it.
    pub(crate) fn refresh(&mut self, which: impl Fn(&World, &Target) -> bool) {
        let world = &self.world;
        let flipped = self
            .hops
            .refresh_targets(world, |target| which(world, target));
        self.v4.mark_targets(&flipped);
        self.v6.mark_targets(&flipped);
    }

    /// Targets in use, sorted.
    fn select(&self, which: impl Fn(&Target) -> bool) -> Vec<TargetId> {
        self.hops
            .targets()
            .filter(|(_, target)| which(target))
            .map(|(id, _)| id)
            .collect()
    }

    fn address(&mut self, address: Address, gone: bool) {
        self.stale.device(address.device, "an address changed");
        // the only word Linux gives when IPv6 is disabled on an interface
        if address.address.is_ipv6() {
            self.unread(address.device);
        }
        if !gone {
            self.world.addresses.insert(address);
            return;
        }
        self.world.addresses.remove(&address);
        // routes that prefer it as source go silently, through whatever device
        let source = Some(address.address);
        if address.address.is_ipv4() && self.hops.targets().any(|(_, t)| t.source == source) {
            self.stale.routes = true;
        }
    }

    fn neighbour(&mut self, neighbour: Neighbour, gone: bool) {
        let key = (neighbour.address, neighbour.device);
        let old = if gone {
            self.world.neighbours.remove(&key)
        } else {
            self.world.neighbours.insert(key, neighbour)
        };
        let now = (!gone).then_some(neighbour);
        self.hops.touch_gateway(neighbour.device, neighbour.address);
        if reach(old.as_ref()) != reach(now.as_ref()) {
            self.neighbour_changed(neighbour.address, neighbour.device);
        }
    }

    pub(crate) fn neighbour_changed(&mut self, address: IpAddr, device: u32) {
        self.hops.refresh_neighbour(&self.world, device, address);
        if self.hops.is_member(device, address) {
            let member = |hop: &Hop| hop.device == device && hop.gateway == Some(address);
            self.refresh(|world, target| world.ways(target).iter().any(member));
        }
        match address {
            IpAddr::V4(_) => self.v4.mark_host(number(address)),
            IpAddr::V6(_) => self.v6.mark_host(number(address)),
        }
    }

    /// Replaces what is known of neighbours (of one device, or all).
    pub(crate) fn set_neighbours(&mut self, device: Option<u32>, new: Vec<Neighbour>) -> usize {
        let concerned = |key: &(IpAddr, u32)| device.is_none_or(|device| key.1 == device);
        let new: BTreeMap<_, _> = new
            .into_iter()
            .map(|n| ((n.address, n.device), n))
            .collect();
        let old = self
            .world
            .neighbours
            .keys()
            .copied()
            .filter(concerned)
            .collect::<BTreeSet<_>>();
        let mut differences = 0;
        for key in old
            .iter()
            .chain(new.keys().filter(|key| !old.contains(key)))
        {
            let before = reach(self.world.neighbours.get(key));
            let after = new.get(key);
            match after {
                Some(&neighbour) => self.world.neighbours.insert(*key, neighbour),
                None => self.world.neighbours.remove(key),
            };
            if before != reach(after) {
                differences += 1;
                self.neighbour_changed(key.0, key.1);
            }
        }
        differences
    }

    /// Takes another model's view of neighbours that do not answer: Linux sends no event when it begins
    /// to ask for one, so the two may differ for a while without a fault. Packets to both kinds go to
    /// Linux, or by another way as Linux's own do.
    pub(crate) fn adopt_unresolved(&mut self, other: &Self) {
        let unresolved: Vec<_> = self
            .world
            .neighbours
            .iter()
            .filter(|(_, neighbour)| !neighbour.valid())
            .map(|(&key, _)| key)
            .collect();
        for key in unresolved {
            match other.world.neighbours.get(&key) {
                Some(known) if known.valid() => continue,
                Some(&known) => self.world.neighbours.insert(key, known),
                None => self.world.neighbours.remove(&key),
            };
            self.neighbour_changed(key.0, key.1);
        }
    }

    fn forget_neighbours(&mut self, device: u32) {
        self.set_neighbours(Some(device), Vec::new());
    }

    fn object(&mut self, message: NextHopMessage, gone: bool) {
        self.stale.objects = true;
        self.stale.reason = "a next-hop object changed";
        let NextHopMessage { id, object } = message;
        let old = if gone {
            self.world.objects.remove(&id)
        } else {
            self.world.objects.insert(id, object.clone())
        };
        if old != Some(object).filter(|_| !gone) {
            self.object_changed(id);
        }
    }

    fn object_changed(&mut self, id: u32) {
        if !self.world.objects.contains_key(&id) {
            // the kernel deletes the routes of an object with it, IPv4's without a word
            let gone = self.select(|target| target.object == Some(id));
            let gone = |route: &Route| gone.binary_search(&route.target).is_ok();
            self.v4.remove_routes(&mut self.hops, gone);
            self.v6.remove_routes(&mut self.hops, gone);
        }
        let mut concerned = BTreeSet::from([id]);
        concerned.extend(
            self.world
                .objects
                .iter()
                .filter_map(|(&group, object)| match object {
                    NextHopObject::Group { members, .. } if members.iter().any(|m| m.0 == id) => {
                        Some(group)
                    }
                    _ => None,
                }),
        );
        self.refresh(|_, target| target.object.is_some_and(|id| concerned.contains(&id)));
        // a gateway may have become on-link: neighbours inside its prefixes
        let touched = self.select(|target| target.object.is_some_and(|id| concerned.contains(&id)));
        if !self.world.neighbours.is_empty() {
            self.v4.mark_targets(&touched);
            self.v6.mark_targets(&touched);
        }
    }

    /// Replaces what is known of next-hop objects.
    pub(crate) fn set_objects(&mut self, new: BTreeMap<u32, NextHopObject>) -> usize {
        let old = std::mem::replace(&mut self.world.objects, new);
        let new = &self.world.objects;
        let ids: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
        let changed: Vec<u32> = ids
            .into_iter()
            .filter(|id| old.get(id) != new.get(id))
            .collect();
        changed.iter().for_each(|&id| self.object_changed(id));
        changed.len()
    }

    /// Replaces what is known of the buckets of resilient groups.
    pub(crate) fn set_buckets(&mut self, new: BTreeMap<u32, Vec<u32>>) -> usize {
        let old = std::mem::replace(&mut self.world.buckets, new);
        let new = &self.world.buckets;
        let groups: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
        let changed: BTreeSet<u32> = groups
            .into_iter()
            .filter(|group| old.get(group) != new.get(group))
            .collect();
        if !changed.is_empty() {
            self.refresh(|_, target| target.object.is_some_and(|id| changed.contains(&id)));
        }
        changed.len()
    }

    /// Tells which devices are Bora's ports.
    pub(crate) fn set_ports(&mut self, ports: BTreeMap<u32, Port>) {
        self.world.ports = ports;
        self.hops.refresh_device(&self.world, None);
        self.hops.touch_gateways(None);
        for (address, device) in self.world.neighbours.keys().copied().collect::<Vec<_>>() {
            self.neighbour_changed(address, device);
        }
    }

    fn unread(&mut self, device: u32) {
        self.noticed.settings.devices.insert(device);
    }

    /// Reads sysctls again; `true` if any changed.
    pub(crate) fn reread_settings(&mut self, unread: &Unread) -> bool {
        let World {
            settings, links, ..
        } = &mut self.world;
        let changed = settings.reread(links.values(), unread);
        if changed {
            self.refresh(|_, _| true);
            self.hops.refresh_device(&self.world, None);
        }
        changed
    }

    /// Brings the FIB up to date. Returns how many of its entries changed.
    pub(crate) fn sync(&mut self) -> usize {
        self.update_local_addresses();
        let changes =
            self.v4.sync(&self.world, &mut self.hops) + self.v6.sync(&self.world, &mut self.hops);
        self.hops.purge();
        changes
    }

    fn update_local_addresses(&mut self) {
        let own = &mut self.local.prefixes;
        let changed =
            note_local(&mut self.v4, &self.hops, own) | note_local(&mut self.v6, &self.hops, own);
        self.local.generation += u64::from(changed);
    }

    /// Nothing waits to be written and nothing was refused.
    pub(crate) fn is_settled(&self) -> bool {
        self.stale.is_empty() && self.v4.is_clean() && self.v6.is_clean() && !self.hops.is_full()
    }
}

/// What of a neighbour next hops and groups depend on.
fn reach(neighbour: Option<&Neighbour>) -> (Option<[u8; 6]>, bool) {
    (
        neighbour.and_then(Neighbour::usable),
        neighbour.is_none_or(Neighbour::valid),
    )
}

/// Notes which of the changed prefixes are the router's own; returns whether anything is new.
fn note_local<P: Prefix>(
    family: &mut Family<P>,
    hops: &NextHops,
    own: &mut BTreeSet<(IpAddr, u8)>,
) -> bool {
    let mut changed = false;
    for prefix in std::mem::take(&mut family.local_changes) {
        let (address, len) = prefix.parts();
        let key = (P::ip(address), len);
        changed |= if is_local(family, hops, prefix) {
            own.insert(key)
        } else {
            own.remove(&key)
        };
    }
    changed
}

fn is_local<P: Prefix>(family: &Family<P>, hops: &NextHops, prefix: P) -> bool {
    family.rib.get(prefix).iter().any(|route| {
        route.table == Table::Local
            && hops
                .target(route.target)
                .is_some_and(|target| target.kind == RouteType::Local)
    })
}
