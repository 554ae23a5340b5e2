//! What a VLAN device is on: a port, or a bond.

use std::collections::BTreeMap;

use bora_contract::PortSettings;
use bora_fib::PortId;
use bora_forward::{Ports, Tags, XmitHash};
use bora_kernel::Mirror;
use bora_kernel::message::Link;

use super::{Device, bond};
use crate::port_table::PortTable;
use crate::ports::Port;

/// Most devices that Linux allows on each other (MAX_NEST_DEV in include/linux/netdevice.h).
const MAX_NESTED: usize = 8;

/// A port, or a bond with its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lower {
    /// The number of the port or bond below; `None` of a bond, which is on several ports.
    pub(crate) id: Option<PortId>,
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    /// Octets of a packet.
    pub(super) mtu: u32,
    /// The ports that packets come in by.
    pub(crate) ports: Vec<LowerPort>,
    /// Those that they may leave by, in Linux's order.
    pub(crate) usable: Vec<PortId>,
    /// What chooses among these.
    pub(crate) hash: XmitHash,
    /// What devices on it have in common with it.
    pub(super) settings: PortSettings,
    /// Whether packets can leave by it.
    pub(super) is_output: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LowerPort {
    pub(crate) id: PortId,
    pub(crate) ifindex: u32,
}

impl Lower {
    fn port(port: &Port) -> Self {
        let this = LowerPort {
            id: port.id,
            ifindex: port.ifindex,
        };
        Self {
            id: Some(port.id),
            name: port.name.clone(),
            ifindex: port.ifindex,
            mtu: port.link.mtu,
            ports: vec![this],
            usable: vec![port.id],
            hash: XmitHash::default(),
            settings: PortSettings {
                path: port.path,
                ..port.settings.clone()
            },
            is_output: port.is_output(),
        }
    }

    /// As what is below a VLAN device on a bond.
    fn bond(bond: &Device) -> Self {
        Self {
            id: Some(bond.id),
            name: bond.name.clone(),
            ifindex: bond.ifindex,
            mtu: bond.mtu,
            settings: bond.settings.clone(),
            ..bond.lower.clone()
        }
    }

    pub(super) fn has(&self, port: PortId) -> bool {
        self.ports.iter().any(|one| one.id == port)
    }

    pub(super) fn of_workers(&self) -> Ports {
        Ports {
            all: self.ports.iter().map(|port| port.id).collect(),
            usable: self.usable.clone(),
            hash: self.hash,
        }
    }
}

/// What a link is.
pub(super) enum Found {
    /// Neither VLAN device nor bond, or not on a port.
    Nothing,
    LeftAlone(String),
    On(Lower, Tags),
}

impl Found {
    /// `bonds` holds at least those that Bora forwards by.
    pub(super) fn of(
        link: &Link,
        mirror: &Mirror,
        ports: &PortTable,
        bonds: &BTreeMap<u32, Device>,
    ) -> Self {
        if link.bond.is_some() {
            return bond::find(link, mirror, ports);
        }
        let Some(stack) = Stack::of(link, mirror, (ports, bonds)) else {
            return Self::Nothing;
        };
        let is_port = |port: &Port| port.ifindex == link.index && !port.is_gone;
        let tags = match stack.tags[..] {
            [(protocol, id)] => Some(Tags::one(protocol, id)),
            [inner, (protocol, id)] => Tags::one(protocol, id).with_inner(inner.0, inner.1),
            _ => None,
        };
        let why = if ports.iter().any(is_port) {
            "it is a port itself"
        } else if stack.masters {
            "it belongs to a bridge, a bond or a VRF, or is on such a port"
        } else if stack.maps {
            "it sets priorities (egress-qos-map)"
        } else if stack.lower.settings.generic {
            "its port has generic XDP, which does not see all tags"
        } else if link.mac.is_none() {
            "it has no Ethernet address"
        } else if let Some(tags) = tags {
            return Self::On(stack.lower, tags);
        } else {
            "it has more than two tags"
        };
        Self::LeftAlone(why.into())
    }
}

/// A VLAN device and those below it, down to a port or a bond.
struct Stack {
    lower: Lower,
    /// EtherType and VLAN of each, innermost first.
    tags: Vec<(u16, u16)>,
    /// Whether one of them sets priorities.
    maps: bool,
    /// Whether one of them belongs to a bridge, a bond or a VRF, or their port does.
    masters: bool,
}

impl Stack {
    fn of(
        link: &Link,
        mirror: &Mirror,
        (ports, bonds): (&PortTable, &BTreeMap<u32, Device>),
    ) -> Option<Self> {
        let (mut tags, mut maps, mut masters, mut at) = (Vec::new(), false, false, link);
        while tags.len() < MAX_NESTED {
            let vlan = at.vlan?;
            tags.push((vlan.protocol, vlan.id));
            maps |= vlan.maps_priority;
            masters |= at.master != 0;
            let is_below = |port: &&Port| port.ifindex == vlan.below && !port.is_gone;
            let lower = if let Some(port) = ports.iter().find(is_below) {
                masters |= port.link.master != 0;
                Some(Lower::port(port))
            } else {
                let bond = bonds.get(&vlan.below).filter(|device| device.is_bond());
                bond.map(Lower::bond)
            };
            if let Some(lower) = lower {
                return Some(Self {
                    lower,
                    tags,
                    maps,
                    masters,
                });
            }
            at = mirror.links().get(&vlan.below)?;
        }
        None
    }
}
