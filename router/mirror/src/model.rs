//! The mirror without its sockets: applies messages and updates the FIB.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use bora_fib::{FibError, FibWriter, Prefix4, Prefix6};

use crate::audit::Audit;
use crate::confirm::{ANSWER, HOLD, Unconfirmed};
use crate::digest::{Digest, of_neighbour};
use crate::family::{Family, is_own};
use crate::keys::{TargetId, is_found};
use crate::message::bridge::BridgeEvent;
use crate::message::{
    Address, Hop, Link, Message, Neighbour, NextHopMessage, NextHopObject, RouteMessage, RouteType,
    Station, Target,
};
use crate::nexthops::NextHops;
use crate::prefix_routes::Applied;
use crate::rib::{Prefix, Route, number};
use crate::sysctl::Unread;
use crate::world::{LocalAddresses, Port, Stations, World};

/// What has to be compared with the kernel, because the kernel changes some tables without an
/// event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// Everything.
    pub(crate) all: bool,
    /// All routes.
    pub(crate) routes: bool,
    /// Routes and neighbours of these devices.
    pub(crate) devices: BTreeSet<u32>,
    /// IPv6 routes that these protocols (RTPROT_*) made.
    pub(crate) protocols: BTreeSet<u8>,
    /// Next-hop objects, and through them routes.
    pub(crate) objects: bool,
    /// Why, for the log and `bora show sync`.
    pub(crate) reason: &'static str,
}

impl Stale {
    pub(crate) fn is_empty(&self) -> bool {
        !self.all
            && !self.routes
            && !self.objects
            && self.devices.is_empty()
            && self.protocols.is_empty()
    }

    /// Adds what could not be compared now.
    pub(crate) fn add(&mut self, other: Self) {
        self.all |= other.all;
        self.routes |= other.routes;
        self.objects |= other.objects;
        self.devices.extend(other.devices);
        self.protocols.extend(other.protocols);
        self.reason = other.reason;
    }

    fn device(&mut self, device: u32, reason: &'static str) {
        self.devices.insert(device);
        self.reason = reason;
    }
}

/// Hundredths of a second to the next end of a route, by the protocol that made it.
pub(crate) type Expiries = BTreeMap<u8, u32>;

/// Notes the end of a route, if it has one.
pub(crate) fn note_expiry(expiries: &mut Expiries, route: &RouteMessage) {
    let left = route.expires.unsigned_abs();
    if route.expires > 0 {
        let next = expiries.entry(route.protocol).or_insert(left);
        *next = left.min(*next);
    }
}

/// Changes whose consequences [`Model::settle`] still has to compute. It does so once for many
/// changes, because it walks all targets and perhaps all routes.
#[derive(Debug, Default)]
struct Changed {
    /// Devices that came, went, or went up or down.
    devices: BTreeSet<u32>,
    /// The deleted ones of these; their addresses and neighbours are gone with them.
    gone: BTreeSet<u32>,
    /// Deleted addresses.
    sources: BTreeSet<IpAddr>,
    /// Neighbours that are one of several paths.
    members: BTreeSet<(u32, IpAddr)>,
    /// Next-hop objects.
    objects: BTreeSet<u32>,
    /// The deleted ones of these; they may have been made again.
    deleted: BTreeSet<u32>,
}

/// What a batch of messages changed, beside the FIB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noticed {
    pub(crate) links: bool,
    pub(crate) settings: Unread,
    pub(crate) guard: bool,
    pub(crate) bridges: Vec<BridgeEvent>,
    pub(crate) rules: bool,
    /// VXLAN devices whose stations must be read again.
    pub(crate) stations: BTreeSet<u32>,
}

/// The kernel's state as far as known, and the FIB made from it.
pub(crate) struct Model {
    pub(crate) world: World,
    pub(crate) hops: NextHops,
    pub(crate) v4: Family<Prefix4>,
    pub(crate) v6: Family<Prefix6>,
    pub(crate) local: LocalAddresses,
    pub(crate) stale: Stale,
    pub(crate) noticed: Noticed,
    changed: Changed,
    /// Neighbours that Linux has not confirmed for a while.
    pub(crate) unconfirmed: Unconfirmed,
    /// Digest of the neighbours.
    pub(crate) neighbours: Digest,
    /// Events about links, addresses and next-hop objects so far.
    pub(crate) rest_changes: u64,
    /// Changes of ports, sysctls and what gateways are good so far.
    other_changes: u64,
    pub(crate) audit: Audit,
    /// Changes of rules and of the tables that they use.
    pub(crate) policy_generation: u64,
    /// Hundredths of a second to the end of the IPv6 route that expires next, by protocol.
    pub(crate) next_expiry: Expiries,
    /// Some routes or hosts got no next hop at the last [`Self::sync`].
    out_of_next_hops: bool,
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
            changed: Changed::default(),
            unconfirmed: Unconfirmed::default(),
            neighbours: Digest::default(),
            rest_changes: 0,
            other_changes: 0,
            audit: Audit::default(),
            policy_generation: 0,
            next_expiry: Expiries::default(),
            out_of_next_hops: false,
        };
        model.v4.insert_fixed(&mut model.hops)?;
        model.v6.insert_fixed(&mut model.hops)?;
        Ok(model)
    }

    /// Applies one message. [`Self::settle`] then computes its consequences, and [`Self::sync`]
    /// writes the FIB.
    pub(crate) fn apply(&mut self, message: Message) {
        if let Message::Link(..) | Message::Address(..) | Message::NextHop(..) = &message {
            self.rest_changes += 1;
        }
        match message {
            Message::Link(link, gone) => self.link(link, gone),
            Message::Address(address, gone) => self.address(address, gone),
            Message::Neighbour(neighbour, gone) => self.neighbour(neighbour, gone),
            // there may be several entries for a station, so all are read again
            Message::Station(station, _) => drop(self.noticed.stations.insert(station.device)),
            Message::Route(route, gone) => self.route(route, gone),
            Message::NextHop(object, gone) => self.object(object, gone),
            Message::Bucket(_) => {
                self.stale.objects = true;
                self.stale.reason = "a bucket moved";
            }
            Message::Netconf(Some(device)) => self.unread(device),
            Message::Netconf(None) => self.noticed.settings.all = true,
            Message::Rule => self.noticed.rules = true,
            Message::Traffic => self.noticed.guard = true,
            Message::Bridge(event) => self.noticed.bridges.push(event),
            Message::Other => {}
        }
    }

    pub(crate) fn route(&mut self, route: RouteMessage, gone: bool) {
        log::trace!("{} {route:?}", if gone { "gone" } else { "new" });
        note_expiry(&mut self.next_expiry, &route);
        let devices: Vec<u32> = route.target.hops.iter().map(|hop| hop.device).collect();
        let applied = match route.address {
            IpAddr::V4(_) => self.v4.apply(&self.world, &mut self.hops, route, gone),
            IpAddr::V6(_) => self.v6.apply(&self.world, &mut self.hops, route, gone),
        };
        match applied {
            Applied::Done => {}
            Applied::Suspicious => {
                for device in devices {
                    self.stale
                        .device(device, "a route event contradicted the mirror");
                }
            }
            Applied::Ambiguous => {
                self.stale.routes = true;
                self.stale.reason = "a route event does not say which route it is about";
            }
        }
    }

    fn link(&mut self, link: Link, gone: bool) {
        let index = link.index;
        self.noticed.links = true;
        if gone {
            self.world.links.remove(&index);
            self.world.stations.remove(&index);
            self.changed.gone.insert(index);
            self.unread(index);
        } else {
            let old = self.world.links.insert(index, link.clone());
            if link.is_vxlan() && old.as_ref() != Some(&link) {
                self.noticed.stations.insert(index);
            }
            let Some(old) = old else {
                self.unread(index);
                self.noticed.guard = true;
                return self.device_changed(index, "a link appeared");
            };
            if old == link {
                return;
            }
            if old.name != link.name || old.mtu != link.mtu {
                self.unread(index);
            }
            self.noticed.guard |= old.qdisc != link.qdisc;
            if (old.up, old.carrier) == (link.up, link.carrier) {
                return self.hops.refresh_later(index);
            }
        }
        self.device_changed(index, "a link went up or down");
    }

    fn device_changed(&mut self, device: u32, reason: &'static str) {
        self.stale.device(device, reason);
        self.stale.objects |= !self.world.objects.is_empty();
        self.changed.devices.insert(device);
    }

    /// Computes the consequences of the changes since the last call.
    pub(crate) fn settle(&mut self) {
        let Changed {
            devices,
            gone,
            sources,
            members,
            mut objects,
            deleted,
        } = std::mem::take(&mut self.changed);
        self.settle_gone(gone);
        objects.append(&mut self.world.remove_dead_objects(&devices));
        self.settle_objects(&objects, &deleted);
        self.settle_devices(&devices);
        self.settle_sources(&sources);
        // last, because neighbours may have gone with their device
        self.settle_members(members);
        self.follow_tables();
    }

    fn settle_gone(&mut self, gone: BTreeSet<u32>) {
        let links = &self.world.links;
        let gone = gone.into_iter().filter(|index| !links.contains_key(index));
        let gone: BTreeSet<u32> = gone.collect();
        if !gone.is_empty() {
            let addresses = &mut self.world.addresses;
            addresses.retain(|address| !gone.contains(&address.device));
            let keys = self.world.neighbours.keys().copied();
            let keys: Vec<_> = keys.filter(|key| gone.contains(&key.1)).collect();
            for key in keys {
                self.set_neighbour(key, None);
            }
        }
    }

    /// Recomputes what leads through these devices. When a device is set down, the kernel deletes
    /// its IPv4 routes without an event; a multipath route stays while it has another path.
    fn settle_devices(&mut self, devices: &BTreeSet<u32>) {
        if devices.is_empty() {
            return;
        }
        self.refresh(|world, target| world.goes_through(target, devices));
        let world = &self.world;
        let is_up = |device: &u32| world.links.get(device).is_some_and(|link| link.up);
        let down: BTreeSet<u32> = devices.iter().copied().filter(|d| !is_up(d)).collect();
        if !down.is_empty() {
            let dead = |target: &Target| {
                target.kind == RouteType::Unicast
                    && world.goes_through(target, &down)
                    && world.ways(target).iter().all(|hop| world.is_down(hop))
            };
            let dead = self.select(dead);
            self.v4.remove_routes(&mut self.hops, |route| {
                is_found(dead.binary_search(&route.target))
            });
        }
        for &device in devices {
            self.hops.refresh_later(device);
            self.hops.gateways.touch_behind(device);
        }
    }

    /// When an address is deleted, the kernel silently deletes the IPv4 routes that have it as
    /// preferred source, whatever their device.
    fn settle_sources(&mut self, sources: &BTreeSet<IpAddr>) {
        let gone = |target: &Target| {
            target
                .source
                .is_some_and(|source| sources.contains(&source))
        };
        if !sources.is_empty() && self.hops.targets().any(|(_, target)| gone(target)) {
            self.stale.routes = true;
        }
    }

    fn settle_members(&mut self, mut members: BTreeSet<(u32, IpAddr)>) {
        members.append(&mut self.changed.members);
        if members.is_empty() {
            return;
        }
        let member = |hop: &Hop| {
            hop.gateway
                .is_some_and(|gateway| members.contains(&(hop.device, gateway)))
        };
        self.refresh(|world, target| world.ways(target).iter().any(member));
    }

    /// Removes the routes through a device that is gone. Returns how many targets they had.
    pub(crate) fn drop_device(&mut self, device: u32) -> usize {
        let world = &self.world;
        let only = |target: &Target| {
            let ways = world.ways(target);
            !ways.is_empty() && ways.iter().all(|hop| hop.device == device)
        };
        let gone = self.select(only);
        let in_gone = |route: &Route| is_found(gone.binary_search(&route.target));
        self.v4.remove_routes(&mut self.hops, in_gone);
        self.v6.remove_routes(&mut self.hops, in_gone);
        gone.len()
    }

    /// Recomputes targets, and marks the prefixes that thereby need other entries.
    pub(crate) fn refresh(&mut self, which: impl Fn(&World, &Target) -> bool) {
        let world = &self.world;
        let flipped = self
            .hops
            .refresh_targets(world, |target| which(world, target));
        self.v4.mark_targets(&flipped);
        self.v6.mark_targets(&flipped);
        self.v6.mark_rivals();
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
        // this is the only event when IPv6 is disabled on an interface
        if address.address.is_ipv6() {
            self.unread(address.device);
        }
        if !gone {
            self.world.addresses.insert(address);
            return;
        }
        self.world.addresses.remove(&address);
        if address.address.is_ipv4() {
            self.changed.sources.insert(address.address);
        }
    }

    fn neighbour(&mut self, neighbour: Neighbour, gone: bool) {
        let key = (neighbour.address, neighbour.device);
        let now = self.held(neighbour, gone);
        let now = now.or((!gone).then_some(neighbour));
        let old = self.put_neighbour(key, now);
        self.hops
            .gateways
            .touch(neighbour.device, neighbour.address);
        if reach(old.as_ref()) != reach(now.as_ref()) {
            self.neighbour_changed(neighbour.address, neighbour.device);
        } else if unconfirmed(old.as_ref()) != unconfirmed(now.as_ref()) {
            let world = &self.world;
            self.hops
                .refresh_neighbour(world, neighbour.device, neighbour.address);
        }
    }

    /// What is held of an entry that Linux deletes, or has deleted and now makes again: see `confirm`.
    fn held(&mut self, event: Neighbour, gone: bool) -> Option<Neighbour> {
        let key = (event.address, event.device);
        let old = *self.world.neighbours.get(&key)?;
        if !self.world.asks_by(event.device) {
            return None;
        }
        if gone || event.state == libc::NUD_FAILED {
            let held = old.may_be_held().then_some(Neighbour {
                state: libc::NUD_STALE,
                managed: false,
                protocol: 0,
                held: true,
                ..old
            });
            if held.is_some() && !old.held {
                self.unconfirmed.hold(key, HOLD);
            }
            return held;
        }
        let is_asked_for = old.held && !event.valid();
        is_asked_for.then(|| {
            self.unconfirmed.hold(key, ANSWER);
            Neighbour {
                state: libc::NUD_DELAY,
                mac: old.mac,
                held: true,
                ..event
            }
        })
    }

    /// Forgets the entries that have been held long enough, but first has Linux ask for those that packets go to.
    pub(crate) fn end_holds(&mut self) {
        let now = Instant::now();
        while let Some(key) = self.unconfirmed.take_due(now) {
            let Some(&held) = self.world.neighbours.get(&key).filter(|it| it.held) else {
                continue;
            };
            if held.unconfirmed() && self.unconfirmed.is_used(&self.hops.fib, key) {
                self.unconfirmed.hold(key, ANSWER);
                continue;
            }
            self.put_neighbour(key, None);
            self.hops.gateways.touch(key.1, key.0);
            self.neighbour_changed(key.0, key.1);
        }
    }

    /// Replaces the stations behind a VXLAN device; `None`: they cannot be read.
    pub(crate) fn set_stations(&mut self, device: u32, found: Option<Vec<Station>>) {
        let stations = &mut self.world.stations;
        let before = stations.remove(&device);
        if let Some(found) = found {
            let known: &mut Stations = stations.entry(device).or_default();
            for station in found {
                known.entry(station.mac).or_default().insert(station.far);
            }
        }
        if before.as_ref() != stations.get(&device) {
            self.noticed.links = true;
            self.hops.refresh_device(&self.world, device);
        }
    }

    /// Returns the previous entry.
    fn put_neighbour(&mut self, key: (IpAddr, u32), new: Option<Neighbour>) -> Option<Neighbour> {
        let old = match new {
            Some(neighbour) => self.world.neighbours.insert(key, neighbour),
            None => self.world.neighbours.remove(&key),
        };
        self.unconfirmed.follow(&self.hops.fib, key, new.as_ref());
        let hash = |neighbour: Option<&Neighbour>| neighbour.map_or(0, |n| of_neighbour(n).1);
        let (before, after) = (hash(old.as_ref()), hash(new.as_ref()));
        if before != after {
            self.neighbours.replace(number(key.0), before, after);
        }
        old
    }

    /// Finds the unconfirmed neighbours that packets go to.
    pub(crate) fn find_used(&mut self) {
        self.unconfirmed.find_used(&self.hops.fib, &self.world);
    }

    /// Takes at most `most` of them.
    pub(crate) fn take_used(&mut self, most: usize) -> Vec<Neighbour> {
        self.unconfirmed.take_used(most, &self.world)
    }

    /// Linux knows that a packet went to a neighbour that was STALE. It sends no event when it begins to wait for
    /// a confirmation.
    pub(crate) fn delayed(&mut self, neighbour: &Neighbour) {
        let key = (neighbour.address, neighbour.device);
        let state = libc::NUD_DELAY;
        self.put_neighbour(
            key,
            Some(Neighbour {
                state,
                ..*neighbour
            }),
        );
        self.hops.refresh_neighbour(&self.world, key.1, key.0);
    }

    pub(crate) fn neighbour_changed(&mut self, address: IpAddr, device: u32) {
        self.other_changes += 1;
        self.hops.refresh_neighbour(&self.world, device, address);
        if self.hops.gateways.is_member(device, address) {
            self.changed.members.insert((device, address));
        }
        match address {
            IpAddr::V4(_) => self.v4.mark_host(number(address)),
            IpAddr::V6(_) => self.v6.mark_host(number(address)),
        }
    }

    /// Sets a neighbour to what was read; returns whether it was another.
    pub(crate) fn set_neighbour(&mut self, key: (IpAddr, u32), new: Option<Neighbour>) -> bool {
        let after = new.as_ref();
        if !after.is_some_and(Neighbour::valid) && self.world.holds(key) {
            return false;
        }
        let before = self.put_neighbour(key, new);
        let differs = reach(before.as_ref()) != reach(after);
        if differs {
            self.neighbour_changed(key.0, key.1);
        } else if unconfirmed(before.as_ref()) != unconfirmed(after) {
            self.hops.refresh_neighbour(&self.world, key.1, key.0);
        }
        differs
    }

    /// Copies the state of unresolved neighbours from another model. Linux sends no event when it
    /// begins to resolve one, so the models may differ for a while without a fault. Either way,
    /// Linux gets their packets, or they take the path that Linux's would.
    pub(crate) fn adopt_unresolved(&mut self, other: &Self) {
        for (&key, held) in other.world.neighbours.iter().filter(|entry| entry.1.held) {
            let ours = self.world.neighbours.get(&key);
            if !ours.is_some_and(Neighbour::valid) {
                self.put_neighbour(key, Some(*held));
                self.neighbour_changed(key.0, key.1);
            }
        }
        let unresolved: Vec<_> = self
            .world
            .neighbours
            .iter()
            .filter(|(_, neighbour)| !neighbour.valid())
            .map(|(&key, _)| key)
            .collect();
        for key in unresolved {
            let known = other.world.neighbours.get(&key).copied();
            if known.is_some_and(|known| known.valid()) {
                continue;
            }
            self.put_neighbour(key, known);
            self.neighbour_changed(key.0, key.1);
        }
    }

    fn object(&mut self, message: NextHopMessage, gone: bool) {
        self.stale.objects = true;
        self.stale.reason = "a next-hop object changed";
        let NextHopMessage { id, object } = message;
        let old = if gone {
            self.changed.deleted.insert(id);
            self.world.objects.remove(&id)
        } else {
            self.world.objects.insert(id, object.clone())
        };
        if old != Some(object).filter(|_| !gone) {
            self.changed.objects.insert(id);
        }
    }

    /// The kernel deletes an object's routes together with it, and sends no events for IPv4.
    fn settle_objects(&mut self, changed: &BTreeSet<u32>, deleted: &BTreeSet<u32>) {
        if changed.is_empty() && deleted.is_empty() {
            return;
        }
        let there = &self.world.objects;
        let of = |target: &Target, ids: &BTreeSet<u32>| {
            target.object.is_some_and(|id| ids.contains(&id))
        };
        let lost = |target: &Target| {
            of(target, changed) && target.object.is_some_and(|id| !there.contains_key(&id))
        };
        let lost = self.select(lost);
        if !lost.is_empty() {
            let lost = |route: &Route| is_found(lost.binary_search(&route.target));
            self.v4.remove_routes(&mut self.hops, lost);
            self.v6.remove_routes(&mut self.hops, lost);
        }
        if deleted.iter().any(|id| there.contains_key(id)) {
            self.stale.routes = true; // we cannot know which routes belong to the new object
            self.stale.reason = "a next-hop object was deleted and made again";
        }
        let is_group = |object: &NextHopObject| match object {
            NextHopObject::Group { members, .. } => members.iter().any(|m| changed.contains(&m.0)),
            _ => false,
        };
        let groups = there.iter().filter(|(_, object)| is_group(object));
        let concerned: BTreeSet<u32> = changed
            .iter()
            .chain(groups.map(|(id, _)| id))
            .copied()
            .collect();
        self.refresh(|_, target| target.object.is_some_and(|id| concerned.contains(&id)));
    }

    /// Replaces the next-hop objects. Returns how many changed.
    pub(crate) fn set_objects(&mut self, new: BTreeMap<u32, NextHopObject>) -> usize {
        let old = std::mem::replace(&mut self.world.objects, new);
        let new = &self.world.objects;
        let ids: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
        let changed: Vec<u32> = ids
            .into_iter()
            .filter(|id| old.get(id) != new.get(id))
            .collect();
        let count = changed.len();
        self.changed.objects.extend(changed);
        self.settle();
        count
    }

    /// Replaces the buckets of resilient groups. Returns how many groups changed.
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

    /// Replaces the destinations to which Linux forwards otherwise than its routes say.
    pub(crate) fn set_exceptions(&mut self, new: BTreeSet<IpAddr>) {
        self.other_changes += 1;
        let old = std::mem::replace(&mut self.world.exceptions, new);
        for address in &old ^ &self.world.exceptions {
            self.v4.mark_host(number(address));
        }
    }

    /// Sets which devices are Bora's ports.
    pub(crate) fn set_ports(&mut self, ports: BTreeMap<u32, Port>) {
        self.other_changes += 1;
        let old = std::mem::replace(&mut self.world.ports, ports);
        let new = &self.world.ports;
        let devices: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
        let mut replaced = BTreeSet::new(); // came, went or became another
        for device in devices {
            match (old.get(&device), new.get(&device)) {
                (old, new) if old == new => {}
                (Some(old), Some(new)) if old.differs_in_mtu(new) => {
                    self.hops.refresh_later(device);
                }
                _ => {
                    self.hops.refresh_device(&self.world, device);
                    self.hops.gateways.touch_behind(device);
                    replaced.insert(device);
                }
            }
        }
        if !replaced.is_empty() {
            let keys = self.world.neighbours.keys().copied();
            let keys: Vec<_> = keys.filter(|key| replaced.contains(&key.1)).collect();
            for (address, device) in keys {
                self.neighbour_changed(address, device);
            }
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
        self.other_changes += u64::from(changed.any);
        if changed.multipath_use_neigh {
            self.refresh(|_, _| true);
        } else if !changed.devices.is_empty() {
            self.refresh(|world, target| world.goes_through(target, &changed.devices));
        }
        for &device in &changed.devices {
            self.hops.refresh_later(device);
        }
        changed.any
    }

    /// Brings the FIB up to date. Returns how many of its entries changed.
    pub(crate) fn sync(&mut self) -> usize {
        self.sync_until(None)
    }

    /// Brings the FIB up to date, or does a part of it, until it is late; [`Self::has_work`] says whether more is to be done.
    pub(crate) fn sync_until(&mut self, until: Option<Instant>) -> usize {
        self.settle();
        self.hops.refresh_some(&self.world);
        self.update_local_addresses();
        // entries that are not written yet lead to objects that have no other use
        let until = until.filter(|_| !self.hops.has_much_to_purge());
        let Self {
            world,
            hops,
            v4,
            v6,
            ..
        } = self;
        let changes = v4.sync(world, hops, until) + v6.sync(world, hops, until);
        if v4.is_written() && v6.is_written() {
            hops.purge();
        }
        self.note_refused();
        changes
    }

    /// Compares some entries of the FIB with what they should be; returns how many it corrected.
    /// Call it only when no change waits to be written.
    pub(crate) fn audit(&mut self) -> usize {
        let Self {
            world,
            hops,
            v4,
            v6,
            audit,
            ..
        } = self;
        audit.step(world, hops, v4, v6)
    }

    /// Tries again what the FIB had no room for.
    pub(crate) fn retry_refused(&mut self) {
        let changed = self.hops.retry_refused(&self.world);
        self.v4.mark_targets(&changed);
        self.v6.mark_targets(&changed);
        self.v4.retry_refused(&self.hops);
        self.v6.retry_refused(&self.hops);
    }

    /// How many paths of routes and on-link hosts have no next hop, because all are in use.
    pub(crate) fn without_next_hop(&self) -> usize {
        self.hops.refused() + self.v4.without_hop.len() + self.v6.without_hop.len()
    }

    fn note_refused(&mut self) {
        let now = self.without_next_hop() > 0;
        if std::mem::replace(&mut self.out_of_next_hops, now) == now {
            return;
        }
        if now {
            log::error!(
                "all {} next hops of the FIB are in use; Linux forwards the rest",
                self.hops.fib.stats().next_hops
            );
        } else {
            log::info!("all routes and hosts have a next hop again");
        }
    }

    fn update_local_addresses(&mut self) {
        let own = &mut self.local;
        let changed =
            note_local(&mut self.v4, &self.hops, own) | note_local(&mut self.v6, &self.hops, own);
        self.local.generation += u64::from(changed);
    }

    /// Leaves these prefixes to Linux, and no others.
    pub(crate) fn distrust(&mut self, v4: BTreeSet<Prefix4>, v6: BTreeSet<Prefix6>) {
        self.other_changes += 1;
        self.v4.distrust(v4);
        self.v6.distrust(v6);
    }

    /// Grows with each change of what the FIB is made from.
    pub(crate) fn changes(&self) -> u64 {
        let tables = [&self.v4.digest, &self.v6.digest, &self.neighbours];
        let tables = tables.map(Digest::now).into_iter().sum::<u64>();
        tables + self.rest_changes + self.other_changes
    }

    /// Whether some work is left for the next turn of the loop.
    pub(crate) fn has_work(&self) -> bool {
        self.has_small_work() || !self.is_written()
    }

    /// Whether something is left to do beside writing the FIB.
    pub(crate) fn has_small_work(&self) -> bool {
        self.unconfirmed.is_waiting() || !self.noticed.settings.is_empty()
    }

    /// Whether nothing waits to be written to the FIB.
    pub(crate) fn is_written(&self) -> bool {
        !self.hops.is_outdated() && self.v4.is_written() && self.v6.is_written()
    }

    /// Whether nothing waits to be written and nothing was refused.
    pub(crate) fn is_settled(&self) -> bool {
        self.stale.is_empty()
            && !self.hops.is_outdated()
            && self.v4.is_clean()
            && self.v6.is_clean()
            && self.hops.refused() == 0
    }
}

fn unconfirmed(neighbour: Option<&Neighbour>) -> bool {
    neighbour.is_some_and(Neighbour::unconfirmed)
}

/// The part of a neighbour that next hops and groups depend on.
fn reach(neighbour: Option<&Neighbour>) -> (Option<[u8; 6]>, bool) {
    (
        neighbour.and_then(Neighbour::usable),
        neighbour.is_none_or(Neighbour::valid),
    )
}

/// Records which of the changed prefixes are the router's own; returns whether anything changed.
fn note_local<P: Prefix>(
    family: &mut Family<P>,
    hops: &NextHops,
    own: &mut LocalAddresses,
) -> bool {
    let mut changed = false;
    for prefix in std::mem::take(&mut family.local_changes) {
        let (address, len) = prefix.parts();
        let key = (P::ip(address), len);
        let differs = if is_local(family, hops, prefix) {
            own.prefixes.insert(key)
        } else {
            own.prefixes.remove(&key)
        };
        if differs {
            own.changed.insert(key);
        }
        changed |= differs;
    }
    changed
}

fn is_local<P: Prefix>(family: &Family<P>, hops: &NextHops, prefix: P) -> bool {
    let mut ribs = family.ribs();
    ribs.any(|(_, rib)| rib.get(prefix).iter().any(|route| is_own(hops, route)))
}
