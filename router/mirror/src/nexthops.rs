//! Next hops of the FIB: one object for each neighbour, one for each group, and a few that all
//! routes share.
//!
//! Routes refer to interned targets, and targets to hops; both hold ids of the FIB's objects. When
//! a neighbour, link or next-hop object changes, one write to the FIB's object changes all
//! prefixes.

mod content;
mod gateways;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;

use bora_fib::{FibError, FibWriter, Group, Member, NextHop, NextHopId, PortId, Reason};

use content::content;
use gateways::Gateways;

use crate::digest::of_target;
use crate::keys::{HopKey, TargetId};
use crate::message::{Hop, RouteType, Target};
use crate::world::{Special, World};

struct HopState {
    id: NextHopId,
    uses: u32,
}

struct TargetState {
    target: Target,
    hash: u64,
    v6: bool,
    uses: u32,
    id: NextHopId,
    /// Whether `id` is this target's own object: groups and kernel next-hop objects.
    own: bool,
    hops: Vec<HopKey>,
    /// Whether it has several paths.
    choice: bool,
    usable: bool,
    /// The device of destinations that it reaches directly.
    on_link: Option<u32>,
    /// The devices of its usable paths.
    devices: Vec<u32>,
    /// What the device of its only path is on, if that is a macvlan.
    below: Option<u32>,
}

/// Most hops that are recomputed in one turn of the loop, which takes some milliseconds.
const TOGETHER: usize = 4096;
/// From this many unused objects on they are freed before anything else is done.
const MUCH: usize = 8192;

/// Next hops that many routes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHops {
    /// Next hop of destinations that are the router's own.
    pub local: NextHopId,
    /// Next hop of what Bora leaves to Linux.
    pub unsupported: NextHopId,
    /// Next hop of routes `unreachable`.
    pub unreachable: NextHopId,
    /// Next hop of routes `prohibit`.
    pub prohibit: NextHopId,
    /// Next hop of routes `blackhole`.
    pub blackhole: NextHopId,
    /// Next hop of routes `throw`: another table decides. In the main table, Linux.
    pub throw: NextHopId,
    /// Next hop of destinations to which Linux forwards otherwise than its routes say.
    pub exception: NextHopId,
}

/// The FIB, and what is known of its next hops.
pub(crate) struct NextHops {
    pub(crate) fib: FibWriter,
    pub(crate) shared: SharedHops,
    hops: BTreeMap<HopKey, HopState>,
    targets: Vec<Option<TargetState>>,
    free: Vec<u32>,
    interned: HashMap<(bool, Target), TargetId>,
    pub(crate) gateways: Gateways,
    /// Devices whose hops have still to be recomputed, and the last hop that was.
    outdated: BTreeMap<u32, Option<HopKey>>,
    unused_hops: Vec<HopKey>,
    unused_targets: Vec<TargetId>,
    /// Number of targets with several paths; IPv4, IPv6.
    choices: [u32; 2],
    /// Targets that found no room in the FIB.
    refused: BTreeSet<TargetId>,
}

const fn punt(reason: Reason, port: Option<PortId>) -> NextHop {
    NextHop::Punt { reason, port }
}

impl NextHops {
    pub(crate) fn new(mut fib: FibWriter) -> Result<Self, FibError> {
        let shared = SharedHops {
            local: fib.add_next_hop(punt(Reason::Local, None))?,
            unsupported: fib.add_next_hop(punt(Reason::Unsupported, None))?,
            unreachable: fib.add_next_hop(punt(Reason::Unreachable, None))?,
            prohibit: fib.add_next_hop(punt(Reason::Prohibit, None))?,
            blackhole: fib.add_next_hop(NextHop::Blackhole)?,
            throw: fib.add_next_hop(punt(Reason::Unsupported, None))?,
            exception: fib.add_next_hop(punt(Reason::RouteException, None))?,
        };
        Ok(Self {
            fib,
            shared,
            hops: BTreeMap::new(),
            targets: Vec::new(),
            free: Vec::new(),
            interned: HashMap::new(),
            gateways: Gateways::default(),
            outdated: BTreeMap::new(),
            unused_hops: Vec::new(),
            unused_targets: Vec::new(),
            choices: [0; 2],
            refused: BTreeSet::new(),
        })
    }

    /// The object of all destinations that are the router's own.
    pub(crate) fn local(&self) -> NextHopId {
        self.shared.local
    }

    /// The object of what Bora leaves to the kernel.
    pub(crate) fn unsupported(&self) -> NextHopId {
        self.shared.unsupported
    }

    /// How many targets got no next hop; their packets go to the kernel.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Tries again the targets that found no room. Returns those that have another object now,
    /// sorted.
    pub(crate) fn retry_refused(&mut self, world: &World) -> Vec<TargetId> {
        let mut changed = Vec::new();
        while self.fib.next_hop_room() > 0
            && let Some(id) = self.refused.pop_first()
        {
            let Some(mut state) = self.targets[id.0 as usize].take() else {
                continue;
            };
            let before = state.id;
            let renewed = self.renew(world, &mut state);
            if state.id != before {
                changed.push(id);
            }
            self.targets[id.0 as usize] = Some(state);
            if let Err(error) = renewed {
                log::debug!("{error}");
                self.refused.insert(id);
                break; // a group needs more next hops than are free
            }
        }
        changed
    }

    /// Notes a target for which the FIB has no room.
    fn refuse(&mut self, id: TargetId, error: &FibError) {
        if self.refused.is_empty() {
            log::error!("next hops do not fit into the FIB, and Linux forwards there: {error}");
        }
        self.refused.insert(id);
    }

    /// Gives a target the object it should have; returns whether its own object changed.
    fn renew(&mut self, world: &World, state: &mut TargetState) -> Result<bool, FibError> {
        if !state.own {
            return self.resolve(world, state).map(|()| false);
        }
        match self.group(world, state) {
            Ok(object) => Ok(self.write(state.id, object)),
            Err(error) => {
                self.write(state.id, punt(Reason::Unsupported, None));
                Err(error)
            }
        }
    }

    fn state(&self, id: TargetId) -> Option<&TargetState> {
        self.targets.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn target(&self, id: TargetId) -> Option<&Target> {
        self.state(id).map(|state| &state.target)
    }

    /// A target's hash, for the digest of its routes.
    pub(crate) fn hash(&self, id: TargetId) -> u64 {
        self.state(id).map_or(0, |state| state.hash)
    }

    /// The FIB's object for a target.
    pub(crate) fn id(&self, id: TargetId) -> NextHopId {
        self.state(id)
            .map_or(self.shared.unsupported, |state| state.id)
    }

    /// The device of the destinations of a target, if it reaches them directly.
    pub(crate) fn on_link(&self, id: TargetId) -> Option<u32> {
        self.state(id)?.on_link
    }

    /// The devices of a target's usable paths.
    pub(crate) fn devices(&self, id: TargetId) -> &[u32] {
        self.state(id).map_or(&[], |state| &state.devices)
    }

    /// The device below a target's only path, if that path is by a macvlan.
    pub(crate) fn below(&self, id: TargetId) -> Option<u32> {
        self.state(id)?.below
    }

    /// Whether a target is a next-hop object, or a group, that drops packets.
    pub(crate) fn is_blackhole_object(&self, id: TargetId) -> bool {
        let own = self.state(id).filter(|state| state.own);
        own.is_some_and(|state| self.fib.next_hop(state.id) == Some(&NextHop::Blackhole))
    }

    /// Whether the kernel would currently use routes with this target.
    pub(crate) fn usable(&self, id: TargetId) -> bool {
        self.state(id).is_some_and(|state| state.usable)
    }

    /// How many routes have a target.
    pub(crate) fn uses(&self, id: TargetId) -> usize {
        self.state(id).map_or(0, |state| state.uses as usize)
    }

    /// All targets in use.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (TargetId, &Target)> {
        self.targets_of_both().map(|(id, target, _)| (id, target))
    }

    /// All targets of both IP versions, each with whether it is IPv6's.
    pub(crate) fn targets_of_both(&self) -> impl Iterator<Item = (TargetId, &Target, bool)> {
        let states = self.targets.iter().enumerate();
        states.filter_map(|(index, state)| {
            let state = state.as_ref().filter(|state| state.uses > 0)?;
            Some((TargetId(index as u32), &state.target, state.v6))
        })
    }

    /// Takes a use of a target.
    pub(crate) fn intern(&mut self, world: &World, target: Target, v6: bool) -> TargetId {
        let key = (v6, target);
        if let Some(&id) = self.interned.get(&key) {
            if let Some(state) = &mut self.targets[id.0 as usize] {
                state.uses += 1;
            }
            return id;
        }
        let target = key.1.clone();
        let devices = world.devices(&target, v6);
        let mut state = TargetState {
            usable: world.usable(&target, v6),
            on_link: world.on_link(&target),
            below: world.below(&devices),
            devices,
            hash: of_target(&target),
            target,
            v6,
            uses: 1,
            id: self.shared.unsupported,
            own: false,
            hops: Vec::new(),
            choice: false,
        };
        let resolved = self.resolve(world, &mut state);
        let index = self.free.pop().unwrap_or_else(|| {
            self.targets.push(None);
            self.targets.len() as u32 - 1
        });
        self.targets[index as usize] = Some(state);
        if let Err(error) = resolved {
            self.refuse(TargetId(index), &error);
        }
        self.interned.insert(key, TargetId(index));
        TargetId(index)
    }

    /// Takes another use of a target.
    pub(crate) fn retain(&mut self, id: TargetId) {
        if let Some(Some(state)) = self.targets.get_mut(id.0 as usize) {
            state.uses += 1;
        }
    }

    /// Releases a use. The objects stay until [`Self::purge`], because prefixes in the FIB may
    /// still refer to them.
    pub(crate) fn release(&mut self, id: TargetId) {
        if let Some(Some(state)) = self.targets.get_mut(id.0 as usize) {
            state.uses -= 1;
            if state.uses == 0 {
                self.unused_targets.push(id);
            }
        }
    }

    /// Gives a new target its object.
    fn resolve(&mut self, world: &World, state: &mut TargetState) -> Result<(), FibError> {
        state.id = match state.target.kind {
            RouteType::Local => self.shared.local,
            RouteType::Blackhole => self.shared.blackhole,
            RouteType::Unreachable => self.shared.unreachable,
            RouteType::Prohibit => self.shared.prohibit,
            RouteType::Throw => self.shared.throw,
            RouteType::Other => self.shared.unsupported,
            RouteType::Unicast if state.target.hops.iter().any(|hop| hop.encap) => {
                let choice = state.target.hops.len() > 1;
                self.set_choice(state, choice);
                self.shared.unsupported
            }
            RouteType::Unicast => match state.target.hops.as_slice() {
                [] if state.target.object.is_none() => self.shared.unsupported,
                [only] if state.target.object.is_none() => {
                    let key = hop_key(only, state);
                    let id = self.acquire(world, key)?;
                    state.hops.push(key);
                    self.gateways.count(&state.hops, true);
                    id
                }
                _ => {
                    // the object first, because it can fail, and the paths are counted afterwards
                    let id = self.fib.add_next_hop(punt(Reason::Unsupported, None))?;
                    match self.group(world, state) {
                        Ok(object) => drop(self.write(id, object)),
                        Err(error) => {
                            self.remove(id);
                            return Err(error);
                        }
                    }
                    state.own = true;
                    id
                }
            },
        };
        Ok(())
    }

    /// What a target's own object should hold; updates the target's hops accordingly.
    fn group(&mut self, world: &World, state: &mut TargetState) -> Result<NextHop, FibError> {
        let fixed = match world.special(&state.target, state.v6) {
            Some(Special::OnlyLinux(_)) => Some(punt(Reason::Unsupported, None)),
            Some(Special::Blackhole) => Some(NextHop::Blackhole),
            None => None,
        };
        let mut keys = Vec::new();
        let mut members = Vec::new();
        let buckets = world.bucket_ways(&state.target, state.v6);
        let resilient = buckets.is_some();
        let mut ways = buckets.unwrap_or_else(|| world.ways(&state.target));
        ways.retain(|hop| world.alive(hop, state.v6));
        if fixed.is_none() {
            for hop in &ways {
                let key = hop_key(hop, state);
                let good = world.is_good(hop, state.target.object.is_some(), state.v6);
                let id = match self.acquire(world, key) {
                    Ok(id) => id,
                    Err(error) => {
                        keys.into_iter().for_each(|key| self.release_hop(key));
                        return Err(error);
                    }
                };
                let weight = hop.weight;
                members.push(Member { id, weight, good });
                keys.push(key);
            }
        }
        self.set_choice(state, ways.len() > 1); // also where only Linux chooses
        self.gateways.count(&keys, true);
        self.gateways.count(&state.hops, false);
        self.gateways.count_members(&keys, true);
        self.gateways.count_members(&state.hops, false);
        for key in std::mem::replace(&mut state.hops, keys) {
            self.release_hop(key);
        }
        Ok(fixed.unwrap_or_else(|| {
            if members.is_empty() {
                punt(Reason::Unsupported, None) // unusable, and no prefix refers to it
            } else if resilient {
                let buckets: Vec<_> = members.iter().map(|member| member.id).collect();
                NextHop::Group(Group::resilient(&buckets))
            } else {
                NextHop::Group(Group::avoiding(&members))
            }
        }))
    }

    /// Takes a use of a hop.
    pub(crate) fn acquire(&mut self, world: &World, key: HopKey) -> Result<NextHopId, FibError> {
        self.take(key, content(world, &key), FibWriter::add_next_hop)
    }

    /// Acquires a hop to an on-link host.
    pub(crate) fn acquire_host(
        &mut self,
        world: &World,
        key: HopKey,
    ) -> Result<NextHopId, FibError> {
        self.take(key, content(world, &key), FibWriter::add_host)
    }

    fn take(
        &mut self,
        key: HopKey,
        content: NextHop,
        add: impl FnOnce(&mut FibWriter, NextHop) -> Result<NextHopId, FibError>,
    ) -> Result<NextHopId, FibError> {
        if let Some(state) = self.hops.get_mut(&key) {
            state.uses += 1;
            return Ok(state.id);
        }
        let id = add(&mut self.fib, content)?;
        self.hops.insert(key, HopState { id, uses: 1 });
        Ok(id)
    }

    /// Releases a use of a hop; see [`Self::release`].
    pub(crate) fn release_hop(&mut self, key: HopKey) {
        if let Some(state) = self.hops.get_mut(&key) {
            state.uses -= 1;
            if state.uses == 0 {
                self.unused_hops.push(key);
            }
        }
    }

    /// Recomputes the hops through a device.
    pub(crate) fn refresh_device(&mut self, world: &World, device: u32) {
        self.outdated.remove(&device);
        for key in self.behind(device, None, usize::MAX) {
            self.refresh_hop(world, key);
        }
    }

    /// Has the hops through a device recomputed by [`Self::refresh_some`].
    pub(crate) fn refresh_later(&mut self, device: u32) {
        self.outdated.insert(device, None);
    }

    /// Recomputes some of what waits for it: there may be very many neighbours behind one device.
    pub(crate) fn refresh_some(&mut self, world: &World) {
        let mut most = TOGETHER;
        while most > 0
            && let Some((device, last)) = self.outdated.pop_first()
        {
            let keys = self.behind(device, last, most);
            if keys.len() == most {
                self.outdated.insert(device, keys.last().copied());
            }
            most -= keys.len();
            for key in keys {
                self.refresh_hop(world, key);
            }
        }
    }

    /// Whether hops wait to be recomputed.
    pub(crate) fn is_outdated(&self) -> bool {
        !self.outdated.is_empty()
    }

    /// At most `most` hops through a device, after `last`.
    fn behind(&self, device: u32, last: Option<HopKey>, most: usize) -> Vec<HopKey> {
        let first = HopKey {
            device,
            gateway: None,
            v6: false,
            mtu: 0,
        };
        let from = last.map_or(Bound::Included(first), Bound::Excluded);
        let keys = self.hops.range((from, Bound::Unbounded));
        let keys = keys.map(|(&key, _)| key).take(most);
        keys.take_while(|key| key.device == device).collect()
    }

    /// Recomputes the hops to one neighbour.
    pub(crate) fn refresh_neighbour(&mut self, world: &World, device: u32, address: IpAddr) {
        let key = |v6, mtu| HopKey {
            device,
            gateway: Some(address),
            v6,
            mtu,
        };
        let keys = self
            .hops
            .range(key(false, 0)..=key(true, u32::MAX))
            .map(|(&key, _)| key);
        for key in keys.collect::<Vec<_>>() {
            self.refresh_hop(world, key);
        }
    }

    fn refresh_hop(&mut self, world: &World, key: HopKey) -> bool {
        let Some(id) = self.hops.get(&key).map(|state| state.id) else {
            return false;
        };
        self.write(id, content(world, &key))
    }

    /// Recomputes the targets that `which` selects. Returns those whose prefixes need other entries: usability
    /// flipped, or neighbours inside the prefix are reached otherwise than before.
    pub(crate) fn refresh_targets(
        &mut self,
        world: &World,
        which: impl Fn(&Target) -> bool,
    ) -> Vec<TargetId> {
        let selects = |state: &Option<TargetState>| {
            let target = state.as_ref().map(|state| &state.target);
            target.is_some_and(&which)
        };
        let mut flipped = Vec::new();
        for index in 0..self.targets.len() {
            if selects(&self.targets[index]) && self.refresh_target(world, index).0 {
                flipped.push(TargetId(index as u32));
            }
        }
        flipped
    }

    /// Recomputes a target; returns whether its prefixes need other entries, and whether its object changed.
    fn refresh_target(&mut self, world: &World, index: usize) -> (bool, bool) {
        let Some(mut state) = self.targets[index].take() else {
            return (false, false);
        };
        let mut changed = false;
        if state.own {
            match self.renew(world, &mut state) {
                Ok(renewed) => changed = renewed,
                Err(error) => self.refuse(TargetId(index as u32), &error),
            }
        }
        let usable = world.usable(&state.target, state.v6);
        let on_link = world.on_link(&state.target);
        let flipped = (state.usable, state.on_link) != (usable, on_link);
        (state.usable, state.on_link) = (usable, on_link);
        state.devices = world.devices(&state.target, state.v6);
        state.below = world.below(&state.devices);
        self.targets[index] = Some(state);
        (flipped, changed)
    }

    /// Recomputes about `count` hops from `from` on. Returns how many were wrong, and where to
    /// continue.
    pub(crate) fn audit_hops(
        &mut self,
        world: &World,
        from: Option<HopKey>,
        count: usize,
    ) -> (usize, Option<HopKey>) {
        let first = from.map_or(Bound::Unbounded, Bound::Included);
        let mut keys = self
            .hops
            .range((first, Bound::Unbounded))
            .map(|(&key, _)| key);
        let some: Vec<_> = keys.by_ref().take(count).collect();
        let next = keys.next();
        let wrong = some.into_iter().filter(|&key| self.refresh_hop(world, key));
        (wrong.count(), next)
    }

    /// Recomputes targets. Also returns those whose prefixes need other entries.
    pub(crate) fn audit_targets(
        &mut self,
        world: &World,
        from: usize,
        count: usize,
    ) -> (usize, Vec<TargetId>, usize) {
        let end = (from + count).min(self.targets.len());
        let (mut wrong, mut flipped) = (0, Vec::new());
        for index in from..end {
            let found = self.refresh_target(world, index);
            if found.0 {
                flipped.push(TargetId(index as u32));
            }
            wrong += usize::from(found.0 || found.1);
        }
        let next = if end < self.targets.len() { end } else { 0 };
        (wrong, flipped, next)
    }

    /// Whether a family currently has routes with several paths.
    pub(crate) fn has_choice(&self, v6: bool) -> bool {
        self.choices[usize::from(v6)] > 0
    }

    /// Records whether a target has several paths.
    fn set_choice(&mut self, state: &mut TargetState, choice: bool) {
        let count = &mut self.choices[usize::from(state.v6)];
        *count += u32::from(choice);
        *count -= u32::from(std::mem::replace(&mut state.choice, choice));
    }

    /// Writes an object to the FIB; `true` if that changed it.
    fn write(&mut self, id: NextHopId, object: NextHop) -> bool {
        let differs = self.fib.next_hop(id) != Some(&object);
        if differs && let Err(e) = self.fib.set_next_hop(id, object) {
            log::error!("next hop {id} cannot be changed: {e}");
        }
        differs
    }

    /// Whether enough objects without uses wait for [`Self::purge`] that it must not be late.
    pub(crate) fn has_much_to_purge(&self) -> bool {
        self.unused_targets.len() + self.unused_hops.len() >= MUCH
    }

    /// Frees the objects without uses, now that no prefix refers to them.
    pub(crate) fn purge(&mut self) {
        for id in std::mem::take(&mut self.unused_targets) {
            if self.state(id).is_none_or(|state| state.uses > 0) {
                continue; // in use again, or purged already
            }
            let Some(mut state) = self.targets[id.0 as usize].take() else {
                continue;
            };
            self.refused.remove(&id);
            self.set_choice(&mut state, false);
            self.gateways.count(&state.hops, false);
            if state.own {
                self.gateways.count_members(&state.hops, false);
                self.remove(state.id);
            }
            for key in state.hops {
                self.release_hop(key);
            }
            self.interned.remove(&(state.v6, state.target));
            self.free.push(id.0);
        }
        for key in std::mem::take(&mut self.unused_hops) {
            if self.hops.get(&key).is_some_and(|state| state.uses == 0)
                && let Some(state) = self.hops.remove(&key)
            {
                self.remove(state.id);
            }
        }
        self.fib.reclaim();
    }

    fn remove(&mut self, id: NextHopId) {
        if let Err(e) = self.fib.remove_next_hop(id) {
            log::error!("next hop {id} cannot be freed: {e}");
        }
    }
}

fn hop_key(hop: &Hop, state: &TargetState) -> HopKey {
    let mtu = state.target.mtu.unwrap_or(0);
    HopKey {
        device: hop.device,
        gateway: hop.gateway,
        v6: state.v6,
        mtu,
    }
}

#[cfg(test)]
mod tests;
