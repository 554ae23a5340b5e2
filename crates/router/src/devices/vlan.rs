//! VLAN devices of Linux, on ports and on bonds, one or two deep.

use std::collections::BTreeMap;

use bora_forward::{Priorities, Tags};
use bora_kernel::Mirror;
use bora_kernel::message::{Link, Vlan};

use super::Device;
use super::bridge;
use super::lower::{Found, Lower};
use crate::policy::has_other_master;
use crate::port_table::PortTable;

/// Most devices that Linux allows on each other (MAX_NEST_DEV in include/linux/netdevice.h).
const MAX_NESTED: usize = 8;

/// What a VLAN device is to Bora. `bonds` holds at least those that Bora forwards by.
pub(super) fn find(
    link: &Link,
    mirror: &Mirror,
    ports: &PortTable,
    bonds: &BTreeMap<u32, Device>,
) -> Found {
    let below = link.vlan.and_then(|vlan| mirror.links().get(&vlan.below));
    if let Some(below) = below.filter(|below| below.bridge.is_some()) {
        return bridge::find_vlan(link, (below, bonds.get(&below.index)), mirror, ports);
    }
    let Some(stack) = Stack::of(link, mirror, (ports, bonds)) else {
        return Found::Nothing;
    };
    let tags = match stack.tags[..] {
        [(protocol, id)] => Some(Tags::one(protocol, id)),
        [inner, (protocol, id)] => Tags::one(protocol, id).with_inner(inner.0, inner.1),
        _ => None,
    };
    let why = if ports.at(link.index).is_some() {
        "it is a port itself"
    } else if stack.masters {
        "it belongs to a bridge or a bond, or is on such a port"
    } else if let Some(why) = link
        .vlan
        .and_then(|vlan| why_priorities_differ(vlan, mirror))
    {
        why
    } else if stack.lower.settings.generic {
        "its port has generic XDP, which does not see all tags"
    } else if link.mac.is_none() {
        "it has no Ethernet address"
    } else if let Some(tags) = tags {
        return Found::On(stack.lower.into(), tags);
    } else {
        "it has more than two tags"
    };
    Found::LeftAlone(why.into())
}

/// Why Bora cannot give packets the priorities that they have with Linux, if a VLAN device is so.
pub(super) fn why_priorities_differ(vlan: Vlan, mirror: &Mirror) -> Option<&'static str> {
    // Bora keeps no priority of a packet on its way; that of IPv4 packets is Linux's by their TOS octet
    (vlan.maps_ingress && priorities_leave(mirror)).then_some(
        "it sets priorities (ingress-qos-map), which IPv6 packets keep, and another VLAN device has an egress-qos-map",
    )
}

/// Whether the priority of a packet can show in what leaves.
fn priorities_leave(mirror: &Mirror) -> bool {
    let mut vlans = mirror.links().values().filter_map(|link| link.vlan);
    vlans.any(|vlan| vlan.egress_priorities != [0; 8])
}

/// Which priorities the tags of what leaves by a link have.
pub(super) fn priorities(link: &Link, mirror: &Mirror) -> Priorities {
    let map = |link: &Link| Some(link.vlan?.egress_priorities);
    let below = link.vlan.and_then(|vlan| mirror.links().get(&vlan.below));
    let tags = match (map(link), below.and_then(map)) {
        (Some(inner), Some(outer)) => [outer, inner],
        (own, _) => [own.unwrap_or_default(), [0; 8]],
    };
    Priorities::new(tags, mirror.settings().priority_by_tos)
}

/// A VLAN device and those below it, down to a port or a bond.
struct Stack {
    lower: Lower,
    /// EtherType and VLAN of each, innermost first.
    tags: Vec<(u16, u16)>,
    /// Whether one of them belongs to a bridge or a bond, or their port does.
    masters: bool,
}

impl Stack {
    fn of(
        link: &Link,
        mirror: &Mirror,
        (ports, bonds): (&PortTable, &BTreeMap<u32, Device>),
    ) -> Option<Self> {
        let (mut tags, mut masters, mut at) = (Vec::new(), false, link);
        while tags.len() < MAX_NESTED {
            let vlan = at.vlan?;
            tags.push((vlan.protocol, vlan.id));
            masters |= has_other_master(mirror, at);
            let lower = if let Some(port) = ports.at(vlan.below) {
                masters |= has_other_master(mirror, &port.link);
                Some(Lower::port(port))
            } else {
                let bond = bonds.get(&vlan.below).filter(|device| device.is_bond());
                bond.map(Lower::device)
            };
            if let Some(lower) = lower {
                return Some(Self {
                    lower,
                    tags,
                    masters,
                });
            }
            at = mirror.links().get(&vlan.below)?;
        }
        None
    }
}
