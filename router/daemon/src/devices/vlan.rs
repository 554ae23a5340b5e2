//! VLAN devices of Linux, on ports and on bonds, one or two deep.

use std::collections::BTreeMap;

use bora_forward::Tags;
use bora_mirror::Mirror;
use bora_mirror::message::Link;

use super::lower::{Found, Lower};
use super::{Device, bridge, priorities};
use crate::policy::has_other_master;
use crate::ports::table::PortTable;

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
        .and_then(|vlan| priorities::why_they_differ(vlan, mirror))
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
