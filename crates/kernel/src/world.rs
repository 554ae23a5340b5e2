//! The kernel's state besides routes: interfaces, addresses, neighbours, next-hop objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use bora_fib::{Encapsulation, PortId};
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
    /// What a tunnel puts in front of packets, with the number above.
    pub tunnel: Option<Tunnel>,
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

/// Destinations that are the router's own, from the local routing table; for the XDP program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalAddresses {
    /// Grows by one with each change.
    pub generation: u64,
    /// Addresses, with broadcast and anycast ones; and prefixes (`ip route add local 192.0.2.0/24 dev lo`).
    pub prefixes: BTreeSet<(IpAddr, u8)>,
}

/// The far ends that each station is behind; `None`: only Linux knows how to reach it.
pub(crate) type Stations = BTreeMap<[u8; 6], BTreeSet<Option<Ipv4Addr>>>;

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
    /// Of the far ends of tunnels, where Linux knows them.
    pub(crate) path_mtus: BTreeMap<Ipv4Addr, u32>,
    /// Of VXLAN devices. Without an entry they cannot be read.
    pub(crate) stations: BTreeMap<u32, Stations>,
    /// Of IPv4 and IPv6.
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

    /// The paths of a unicast target, its next-hop object resolved.
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
            } => Some(Hop {
                device,
                gateway,
                weight: 1,
                dead,
                encap: false,
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
        let object = target.object.and_then(|id| self.objects.get(&id));
        if matches!(
            object,
            Some(NextHopObject::Blackhole | NextHopObject::Unsupported)
        ) {
            return true;
        }
        self.ways(target).iter().any(|hop| self.alive(hop, v6))
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

    /// Whether Linux would ask for the neighbour of a hop if it sent a packet there.
    pub(crate) fn is_unconfirmed(&self, key: &HopKey) -> bool {
        key.gateway
            .and_then(|gateway| self.neighbours.get(&(gateway, key.device)))
            .is_some_and(Neighbour::unconfirmed)
    }

    /// The Ethernet address to send a neighbour's frames to.
    pub(crate) fn neighbour_mac(&self, device: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.neighbours.get(&(address, device))?.usable()
    }
}
