//! VLAN devices, bonds, macvlans and PPPoE sessions of Linux on the ports, and tunnels: Bora forwards by them as by ports. Linux's configuration is the only one.

mod bond;
mod bridge;
mod bridged;
mod lower;
mod macvlan;
mod pppoe;
mod priorities;
mod totals;
mod tunnel;
mod vlan;
mod wrapping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bora_contract::{MAX_PORTS, Path, PortSettings};
use bora_fib::PortId;
use bora_forward::{Devices, Endpoint, Priorities, Tags};
use bora_mirror::Mirror;
use bora_mirror::message::Link;
use bora_wire::vlan::HEADER_LEN;
use bora_xdp::OnPorts;

use crate::guard::hooks::Held;
use crate::policy::with_policy;
use crate::ports::table::PortTable;
use crate::ports::{is_shaped, with_sysctls};
use lower::{Found, Lower};

pub(crate) use bridged::Stations;
pub(crate) use pppoe::Channels;
pub(crate) use totals::DeviceTotals;

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bond,
    /// On its ports.
    Bridge,
    /// On a port, a bond or a bridge.
    Vlan,
    /// On a port, a bond or a VLAN device. Nothing leaves by it without Linux.
    Macvlan,
    /// A PPPoE session, on a port or a VLAN device.
    Pppoe,
    /// On no port: its outer packets leave by any.
    Tunnel,
}

/// A device on the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) id: PortId,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    /// What it is on; a bond is on its ports.
    pub(crate) lower: Lower,
    /// What its packets have on the ports.
    tags: Tags,
    priorities: Priorities,
    pub(crate) settings: PortSettings,
    /// Longest packet that leaves by it without Linux, octets: Linux's virtual devices and some drivers
    /// take no frames with more tags than one, unless their MTU has room.
    longest: u32,
    /// What its number had counted for others before.
    pub(crate) before: DeviceTotals,
}

/// A device that is left to Linux, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftAlone {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) why: String,
}

/// The devices on the ports.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    /// By ifindex.
    devices: BTreeMap<u32, Device>,
    left_alone: Vec<LeftAlone>,
    /// As the workers want them.
    for_workers: Arc<Devices>,
}

/// What has changed.
#[derive(Debug, Default)]
pub(crate) struct DeviceChanges {
    /// Devices that are new or other than before.
    pub(crate) set: Vec<Device>,
    pub(crate) removed: Vec<Device>,
}

impl Device {
    pub(crate) fn is_bond(&self) -> bool {
        self.kind == Kind::Bond
    }

    /// Calls `tell` with what the program is to know of it.
    pub(crate) fn in_program<T>(&self, tell: impl FnOnce(OnPorts<'_>) -> T) -> T {
        let ports: Vec<u32> = self.lower.ports.iter().map(|port| port.ifindex).collect();
        let usable: Vec<u16> = self.lower.usable.iter().map(|port| port.0).collect();
        let bridged = self.lower.bridged.iter();
        let tagged: Vec<_> = bridged.flat_map(bridged::Bridged::tagged).collect();
        let bond = (self.lower.hash.number(), &usable[..]);
        let tunnel: Vec<_> = self.endpoints().iter().map(wrapping::key).collect();
        tell(OnPorts {
            ifindex: self.ifindex,
            lower: self.lower.ifindex,
            ports: &ports,
            settings: &self.settings,
            bond: self.is_bond().then_some(bond),
            tagged: &tagged,
            is_station: self.kind == Kind::Macvlan,
            tunnel: self.tunnel().map(|_| &tunnel[..]),
        })
    }

    /// How its packets are wrapped, if it is a tunnel.
    pub(crate) fn tunnel(&self) -> Option<&wrapping::Tunnel> {
        self.lower.tunnel.as_ref()
    }

    /// How packets of a tunnel are known when they come in; nothing while Linux takes none.
    fn endpoints(&self) -> &[Endpoint] {
        let tunnel = self.tunnel().filter(|_| self.settings.enabled);
        tunnel.map_or(&[], |tunnel| &tunnel.endpoints)
    }

    /// Whether its packets are where the other's are among those of the ports.
    fn is_placed_as(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.kind, it.lower.ifindex, it.tags, it.settings.session);
        let is_same_station = self.kind != Kind::Macvlan || self.settings.mac == other.settings.mac;
        place(self) == place(other)
            && self.lower.ports == other.lower.ports
            && self.endpoints() == other.endpoints()
            && self.lower.bridged == other.lower.bridged
            && is_same_station
    }
}

impl DeviceTable {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Device> {
        self.devices.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    /// The devices of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Device> {
        self.iter().filter(move |device| device.kind == kind)
    }

    pub(crate) fn left_alone(&self) -> &[LeftAlone] {
        &self.left_alone
    }

    /// The bond that a port belongs to.
    pub(crate) fn bond_of(&self, port: PortId) -> Option<&Device> {
        self.iter()
            .find(|device| device.is_bond() && device.lower.has(port))
    }

    /// Takes the devices as Linux has them now. A device keeps its number as long as it exists; a new one gets
    /// one that no device had before. `counted`: everything that was ever counted under a number.
    pub(crate) fn follow(
        &mut self,
        mirror: &Mirror,
        ports: &PortTable,
        held: &Held,
        channels: &Channels,
        counted: impl Fn(PortId) -> DeviceTotals,
    ) -> DeviceChanges {
        let before = std::mem::take(&mut self.devices);
        let in_use: BTreeSet<PortId> = before.values().map(|device| device.id).collect();
        let numbers =
            (MAX_PORTS..usize::from(bridged::NO_DEVICE.0)).map(|number| PortId(number as u16));
        let mut free = numbers.filter(|number| !in_use.contains(number));
        self.left_alone.clear();
        let links = mirror.links().values();
        let mut links: Vec<_> = links.filter_map(|it| Some((Kind::of(it)?, it))).collect();
        links.sort_by_key(|&(kind, _)| kind); // what others may be on comes first
        let around = tunnel::Around::new(held, mirror);
        for (kind, link) in links {
            let found = match kind {
                Kind::Bond => bond::find(link, mirror, ports),
                Kind::Bridge => bridge::find(link, mirror, ports),
                Kind::Vlan => vlan::find(link, mirror, ports, &self.devices),
                Kind::Macvlan => macvlan::find(link, mirror, ports, &self.devices),
                Kind::Pppoe => pppoe::find(link, channels, mirror, ports, &self.devices),
                Kind::Tunnel => tunnel::find(link, mirror, ports, &around, |ifindex| {
                    let port = ports.at(ifindex).map(|port| port.id);
                    port.or_else(|| Some(self.devices.get(&ifindex)?.id))
                }),
            };
            let (lower, tags) = match found {
                Found::Nothing => continue,
                Found::LeftAlone(why) => {
                    self.leave_alone(kind, link, why);
                    continue;
                }
                Found::On(lower, tags) => (lower, tags),
            };
            let known = before.get(&link.index).map(|old| (old.id, old.before));
            let Some(kept) = known.or_else(|| free.next().map(|id| (id, counted(id)))) else {
                let why = "there are too many devices on the ports";
                self.leave_alone(kind, link, why.into());
                continue;
            };
            let device = device(kept, kind, link, (*lower, tags), mirror);
            self.devices.insert(link.index, device);
        }
        let set = self.iter();
        let set = set.filter(|device| before.get(&device.ifindex) != Some(device));
        let removed = before.values();
        let removed = removed.filter(|old| {
            // an ifindex may be another device's at once
            let now = self.devices.get(&old.ifindex);
            now.is_none_or(|now| !now.is_placed_as(old))
        });
        let changes = DeviceChanges {
            set: set.cloned().collect(),
            removed: removed.cloned().collect(),
        };
        if !changes.is_empty() {
            self.for_workers = Arc::new(self.of_workers());
        }
        changes
    }

    fn leave_alone(&mut self, kind: Kind, link: &Link, why: String) {
        self.left_alone.push(LeftAlone {
            name: link.name.clone(),
            kind,
            why,
        });
    }

    /// The devices that the FIB may lead to.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (u32, bora_mirror::Port)> {
        let outputs = self.iter().filter(|device| device.lower.is_output);
        outputs.map(|device| {
            let info = bora_mirror::Port {
                id: device.id,
                mac: device.settings.mac,
                mtu: device.longest,
                shaped: device.settings.shaped,
                tunnel: device.tunnel().map(|tunnel| tunnel.output(device.id)),
                peer: device.settings.pppoe().map(|(_, peer)| peer),
            };
            (device.ifindex, info)
        })
    }

    /// The devices as the workers want them, another `Arc` only if they have changed.
    pub(crate) fn for_workers(&self) -> &Arc<Devices> {
        &self.for_workers
    }

    fn of_workers(&self) -> Devices {
        // the engine knows no bridges and no PPPoE
        let known = self
            .iter()
            .filter(|it| it.lower.bridged.is_none() && it.kind != Kind::Pppoe);
        Devices::new(known.map(|device| bora_forward::Device {
            ingress: (&device.settings).into(),
            ports: device.lower.of_workers(),
            tags: device.tags,
            priorities: device.priorities,
            is_station: device.kind == Kind::Macvlan,
            endpoints: device.endpoints().to_vec(),
            only_from: device.tunnel().and_then(|tunnel| tunnel.only_from),
        }))
    }
}

impl DeviceChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

impl Kind {
    /// What kind of device a link is; `None` if Bora forwards by none such.
    fn of(link: &Link) -> Option<Self> {
        if link.bond.is_some() {
            Some(Self::Bond)
        } else if link.bridge.is_some() {
            Some(Self::Bridge)
        } else if link.vlan.is_some() {
            Some(Self::Vlan)
        } else if pppoe::is_ppp(link) {
            Some(Self::Pppoe)
        } else {
            let macvlan = link.macvlan.map(|_| Self::Macvlan);
            macvlan.or(link.tunnel.as_ref().map(|_| Self::Tunnel))
        }
    }
}

fn device(
    (id, before): (PortId, DeviceTotals),
    kind: Kind,
    link: &Link,
    (lower, tags): (Lower, Tags),
    mirror: &Mirror,
) -> Device {
    let more_tags = tags.len().saturating_sub(HEADER_LEN) as u32;
    let priorities = priorities::of(link, mirror);
    let below = &lower.settings;
    let settings = with_sysctls(below.clone(), mirror, link.index);
    let settings = PortSettings {
        index: id.0,
        path: if link.up { below.path } else { Path::Kernel },
        trunk: lower.id.unwrap_or(id).0,
        below: match kind {
            Kind::Macvlan => below.index,
            _ => id.0,
        },
        shaped: below.shaped || is_shaped(mirror, link.index, lower.bypass_qdisc),
        tags: tags.octets(),
        priorities: priorities.bits(),
        ageing_ms: lower
            .bridged
            .as_ref()
            .map_or(0, bridged::Bridged::ageing_ms),
        mac: match kind {
            Kind::Pppoe => below.mac,
            _ => link.mac.unwrap_or_default(),
        },
        up: below.up && link.up && link.carrier,
        enabled: below.enabled && link.up,
        can_redirect: below.can_redirect && lower.is_output,
        no_napi: below.no_napi && lower.is_output,
        promiscuous: true, // nothing tells what is on it, such as a macvtap
        ..settings
    };
    let settings = with_policy(settings, mirror, link);
    Device {
        id,
        kind,
        name: link.name.clone(),
        ifindex: link.index,
        mtu: link.mtu,
        tags,
        priorities,
        longest: link.mtu.min(lower.mtu.saturating_sub(more_tags)),
        before,
        settings,
        lower,
    }
}
