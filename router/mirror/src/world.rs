//! The kernel's state besides routes: interfaces, addresses, neighbours, next-hop objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use bora_fib::{Encapsulation, PortId, UseMark};
use serde::Serialize;

use crate::keys::HopKey;
use crate::message::{Address, Hop, Link, Neighbour, NextHopObject, RouteType, Target};
use crate::rules::Rules;
use crate::sysctl::Settings;

/// A Bora port, as the caller of the mirror describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number in the FIB.
    pub id: PortId,
    /// Source address of the frames it sends.
    pub mac: [u8; 6],
    /// Largest IP packet it can send, octets; the link's MTU may be less.
    pub mtu: u32,
    /// Whether a queueing discipline shapes what leaves there, so that Linux has to send it.
    pub shaped: bool,
    /// What a tunnel puts in front of packets, with the number above.
    pub tunnel: Option<Tunnel>,
    /// Ethernet address of everything behind it, where no neighbour is asked for: the other end of a PPPoE session.
    pub peer: Option<[u8; 6]>,
}

impl Port {
    /// Whether another port is this one but for the MTU.
    pub(crate) fn differs_in_mtu(&self, other: &Self) -> bool {
        let mtu = self.mtu;
        *self
            == Self {
                mtu,
                ..other.clone()
            }
    }
}

/// How packets get into a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// What goes in front of IPv4 and of IPv6, whose MTU is still open; `None`: Linux carries none of it. Where
    /// stations are behind it, the far end is still open, too.
    pub encapsulations: [Option<Encapsulation>; 2],
    /// Whether packets go to stations behind different far ends (VXLAN), and have an Ethernet header.
    pub has_stations: bool,
}

/// Addresses that routes of any table make the router's own, or that are no host's; for the XDP program. Linux drops packets from
/// them (`__fib_validate_source()`), so that they are the router's as destinations and as sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalAddresses {
    /// Grows by one with each change.
    pub generation: u64,
    /// Addresses, with broadcast and anycast ones; and prefixes (`ip route add local 192.0.2.0/24 dev lo`).
    pub prefixes: BTreeSet<(IpAddr, u8)>,
    /// Those that came or went since this was last asked for.
    #[serde(skip)]
    pub(crate) changed: BTreeSet<(IpAddr, u8)>,
}

/// The far ends that each station is behind; `None`: only Linux knows how to reach it.
pub(crate) type Stations = BTreeMap<[u8; 6], BTreeSet<Option<Ipv4Addr>>>;

/// What a unicast target is instead of a list of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// Its packets are dropped.
    Blackhole,
    /// Only Linux can forward by it, and why.
    OnlyLinux(&'static str),
}

/// Everything a next hop is computed from.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) links: BTreeMap<u32, Link>,
    pub(crate) addresses: BTreeSet<Address>,
    /// By address first, so that the neighbours inside a prefix are a range of the map.
    pub(crate) neighbours: BTreeMap<(IpAddr, u32), Neighbour>,
    pub(crate) objects: BTreeMap<u32, NextHopObject>,
    /// Buckets of the resilient groups: the id of the object that each leads to.
    pub(crate) buckets: BTreeMap<u32, Vec<u32>>,
    pub(crate) ports: BTreeMap<u32, Port>,
    pub(crate) settings: Settings,
    /// Destinations to which Linux forwards otherwise than its routes say.
    pub(crate) exceptions: BTreeSet<IpAddr>,
    /// Path MTUs to the far ends of tunnels, where Linux has learned them.
    pub(crate) path_mtus: BTreeMap<Ipv4Addr, u32>,
    /// Stations of VXLAN devices. Without an entry they cannot be read.
    pub(crate) stations: BTreeMap<u32, Stations>,
    /// Rules of IPv4 and IPv6.
    pub(crate) rules: [Rules; 2],
    /// Tables beside local, main and default that are mirrored; IPv4, IPv6.
    pub(crate) further: [BTreeSet<u32>; 2],
}

impl World {
    /// The further tables that are mirrored.
    pub(crate) fn further(&self, v6: bool) -> &BTreeSet<u32> {
        &self.further[usize::from(v6)]
    }

    /// Whether a device is a VRF.
    pub(crate) fn is_vrf(&self, device: u32) -> bool {
        let link = self.links.get(&device);
        link.is_some_and(|link| link.vrf_table.is_some())
    }

    /// Whether Linux looks into the table `local` first and there is no VRF, so that nothing to one of the router's own addresses is
    /// forwarded.
    pub(crate) fn asks_local_first(&self, v6: bool) -> bool {
        let rules = &self.rules[usize::from(v6)];
        rules.unread.is_none()
            && rules.list.first() == Rules::linux_own(v6).list.first()
            && !rules.list.iter().any(|rule| rule.l3mdev)
            && !self.links.values().any(|link| link.vrf_table.is_some())
    }

    /// Whether the kernel would send over this device: it exists, is up, and has a carrier or is
    /// used without one (ignore_routes_with_linkdown off).
    fn device_alive(&self, device: u32, v6: bool) -> bool {
        let Some(link) = self.links.get(&device) else {
            return false;
        };
        link.up && (link.carrier || !self.ignores_linkdown(device, v6))
    }

    /// When a device is set down or loses its carrier, the kernel deletes its next-hop objects, and
    /// groups that have no others, without an event (nexthop_flush_dev()). Returns what changed.
    pub(crate) fn remove_dead_objects(&mut self, devices: &BTreeSet<u32>) -> BTreeSet<u32> {
        let links = &self.links;
        let works = |link: &Link| link.up && link.carrier;
        let is_dead = |object: &NextHopObject| match object {
            NextHopObject::Single { device, .. } => {
                devices.contains(device) && !links.get(device).is_some_and(works)
            }
            _ => false,
        };
        let dead = self.objects.iter().filter(|(_, object)| is_dead(object));
        let mut gone: BTreeSet<u32> = dead.map(|(&id, _)| id).collect();
        let mut changed = gone.clone();
        for (&id, object) in &mut self.objects {
            let NextHopObject::Group { members, .. } = object else {
                continue;
            };
            if members
                .extract_if(.., |member| gone.contains(&member.0))
                .count()
                > 0
            {
                changed.insert(id);
            }
            if members.is_empty() {
                gone.insert(id);
            }
        }
        self.objects.retain(|id, _| !gone.contains(id));
        changed
    }

    fn ignores_linkdown(&self, device: u32, v6: bool) -> bool {
        self.settings
            .interfaces
            .get(&device)
            .is_some_and(|settings| {
                if v6 {
                    settings.ignore_linkdown6
                } else {
                    settings.ignore_linkdown4
                }
            })
    }

    /// Whether the device of a path is administratively down or gone, or the path marked dead.
    pub(crate) fn is_down(&self, hop: &Hop) -> bool {
        hop.dead || !self.links.get(&hop.device).is_some_and(|link| link.up)
    }

    /// Whether a path can be used.
    pub(crate) fn alive(&self, hop: &Hop, v6: bool) -> bool {
        !hop.dead && self.device_alive(hop.device, v6)
    }

    /// Why a unicast target is not just its [`Self::ways`]. One path that Bora cannot use, or does not
    /// know, is enough: without it, its flows would take the others.
    pub(crate) fn special(&self, target: &Target, v6: bool) -> Option<Special> {
        let single = |&(id, _): &(u32, u32)| {
            matches!(self.objects.get(&id), Some(NextHopObject::Single { .. }))
        };
        let found = match target.object.map(|id| self.objects.get(&id)) {
            None | Some(Some(NextHopObject::Single { .. })) => None,
            Some(None) => Some(Special::OnlyLinux("through an unknown next-hop object")),
            Some(Some(NextHopObject::Blackhole)) => Some(Special::Blackhole),
            Some(Some(NextHopObject::Unsupported)) => Some(Special::OnlyLinux(
                "through a next-hop object of an unknown kind",
            )),
            Some(Some(NextHopObject::Group { members, .. })) => match members.as_slice() {
                // Linux allows a blackhole only alone
                [(only, _)] if self.objects.get(only) == Some(&NextHopObject::Blackhole) => {
                    Some(Special::Blackhole)
                }
                members if members.iter().all(single) => None,
                _ => Some(Special::OnlyLinux("through a group with an unknown member")),
            },
        };
        let encap = |hop: &Hop| hop.encap && self.alive(hop, v6);
        let encap = || self.ways(target).iter().any(encap);
        found.or_else(|| encap().then_some(Special::OnlyLinux("encapsulation")))
    }

    /// The device of a target that reaches its destinations directly.
    pub(crate) fn on_link(&self, target: &Target) -> Option<u32> {
        if target.kind != RouteType::Unicast {
            return None;
        }
        match self.ways(target).as_slice() {
            [only] if only.gateway.is_none() && !only.encap => Some(only.device),
            _ => None,
        }
    }

    /// The devices of a target's usable paths; a route that does not forward has one, too.
    pub(crate) fn devices(&self, target: &Target, v6: bool) -> Vec<u32> {
        let ways = self.ways(target).into_iter();
        let alive = ways.filter(|hop| target.kind != RouteType::Unicast || self.alive(hop, v6));
        alive.map(|hop| hop.device).collect()
    }

    /// What the only device of a target is on, if it is a macvlan.
    pub(crate) fn below(&self, devices: &[u32]) -> Option<u32> {
        let [device] = devices else { return None };
        Some(self.links.get(device)?.macvlan?.below)
    }

    /// The paths of a unicast target, its next-hop object resolved. See [`Self::special`].
    pub(crate) fn ways(&self, target: &Target) -> Vec<Hop> {
        let Some(id) = target.object else {
            return target.hops.clone();
        };
        match self.objects.get(&id) {
            Some(NextHopObject::Group { members, .. }) => {
                let single = |&(id, weight): &(u32, u32)| {
                    Some(Hop {
                        weight,
                        ..self.single(id)?
                    })
                };
                members.iter().filter_map(single).collect()
            }
            _ => self.single(id).into_iter().collect(),
        }
    }

    /// The usable path of each bucket, if the target is a resilient group whose buckets are known.
    /// A bucket whose path is gone uses another bucket's until the kernel says which one.
    pub(crate) fn bucket_ways(&self, target: &Target, v6: bool) -> Option<Vec<Hop>> {
        let id = target.object?;
        let NextHopObject::Group {
            members,
            resilient: true,
        } = self.objects.get(&id)?
        else {
            return None;
        };
        let buckets = self.buckets.get(&id)?;
        let living: Vec<(u32, Hop)> = members
            .iter()
            .filter_map(|&(member, _)| Some((member, self.single(member)?)))
            .filter(|(_, hop)| self.alive(hop, v6))
            .collect();
        let way = |(index, bucket): (usize, &u32)| {
            let own = living.iter().find(|(member, _)| member == bucket);
            let other = || living.get(index.checked_rem(living.len())?);
            own.or_else(other).map(|&(_, hop)| hop)
        };
        buckets.iter().enumerate().map(way).collect()
    }

    fn single(&self, id: u32) -> Option<Hop> {
        match *self.objects.get(&id)? {
            NextHopObject::Single {
                device,
                gateway,
                dead,
                encap,
            } => Some(Hop {
                device,
                gateway,
                weight: 1,
                dead,
                encap,
            }),
            _ => None,
        }
    }

    /// Whether a target leads (also) through one of these devices, or goes away with it.
    pub(crate) fn goes_through(&self, target: &Target, devices: &BTreeSet<u32>) -> bool {
        let through = |hop: &Hop| devices.contains(&hop.device);
        match target.object {
            None => target.hops.iter().any(through), // avoids copying the paths
            Some(_) => self.ways(target).iter().any(through),
        }
    }

    /// Whether the kernel would use a route with this target: a unicast route needs a usable path.
    pub(crate) fn usable(&self, target: &Target, v6: bool) -> bool {
        if target.kind != RouteType::Unicast {
            return true;
        }
        self.special(target, v6).is_some()
            || self.ways(target).iter().any(|hop| self.alive(hop, v6))
    }

    /// The far end that a station is behind; `None`: there is not just one, or only Linux knows how to reach it.
    pub(crate) fn far_end(&self, device: u32, mac: [u8; 6]) -> Option<Ipv4Addr> {
        let stations = self.stations.get(&device)?;
        let found = stations.get(&mac).or_else(|| stations.get(&[0; 6]))?;
        match Vec::from_iter(found)[..] {
            [&far] => far,
            _ => None,
        }
    }

    /// Whether Linux would use a path as one of several, judging its neighbour as fib_good_nh() and
    /// nexthop_is_good_nh() do: an unresolved neighbour that nobody has asked for yet is good.
    /// Linux looks at the neighbour for next-hop objects always, and for IPv4 routes with
    /// fib_multipath_use_neigh.
    pub(crate) fn is_good(&self, hop: &Hop, object: bool, v6: bool) -> bool {
        if !object && (v6 || !self.settings.multipath_use_neigh) {
            return true;
        }
        hop.gateway
            .and_then(|gateway| self.neighbours.get(&(gateway, hop.device)))
            .is_none_or(Neighbour::valid)
    }

    /// The bit of a hop's neighbour if Linux would ask for it after a packet there.
    pub(crate) fn unconfirmed(&self, key: &HopKey) -> Option<UseMark> {
        let gateway = key.gateway?;
        let neighbour = self.neighbours.get(&(gateway, key.device))?;
        neighbour
            .unconfirmed()
            .then(|| UseMark::new(key.device, gateway))
    }

    /// Whether a deleted entry is held.
    pub(crate) fn holds(&self, (address, device): (IpAddr, u32)) -> bool {
        let neighbour = self.neighbours.get(&(address, device));
        neighbour.is_some_and(|neighbour| neighbour.held) && self.links.contains_key(&device)
    }

    /// Whether Linux asks for neighbours by a device, and sends there.
    pub(crate) fn asks_by(&self, device: u32) -> bool {
        let link = self.links.get(&device);
        self.ports.contains_key(&device)
            && link.is_some_and(|link| link.up && link.carrier && !link.no_arp)
    }

    /// The Ethernet address to send a hop's frames to: its neighbour's, or the device's own where nobody is asked
    /// (arp_constructor(), ndisc_constructor()).
    pub(crate) fn mac(&self, key: &HopKey) -> Option<[u8; 6]> {
        let neighbour = |gateway| self.neighbours.get(&(gateway, key.device));
        let known = key.gateway.and_then(neighbour).and_then(Neighbour::usable);
        known.or_else(|| {
            let link = self.links.get(&key.device)?;
            link.mac.filter(|_| link.no_arp)
        })
    }
}
