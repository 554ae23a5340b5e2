//! Bridges with ports of Bora's, and VLAN devices on them. Bora takes what is sent to the bridge's own address, and sends to
//! stations that Linux knows a port of. All that is bridged is Linux's: learning, flooding, STP.

use bora_contract::{Path, PortSettings};
use bora_fib::PortId;
use bora_forward::{Tags, XmitHash};
use bora_mirror::message::{Bridge, Link};
use bora_mirror::{BridgePort, BridgeVlan, Mirror};
use bora_wire::EtherType;

use super::bridged::{Bridged, NO_DEVICE, Stations, Way};
use super::lower::{Found, Lower, LowerPort};
use super::{Device, DeviceTable, priorities};
use crate::policy::has_other_master;
use crate::ports::Port;
use crate::ports::table::PortTable;

/// Packets of each station that Linux sees while it would remember it.
const LOOKS: u32 = 4;

/// What a bridge is to Bora.
pub(super) fn find(link: &Link, mirror: &Mirror, table: &PortTable) -> Found {
    let Some(bridge) = link.bridge else {
        return Found::Nothing;
    };
    let members = || table.iter().filter(|port| port.link.master == link.index);
    let Some(first) = members().next() else {
        return Found::Nothing;
    };
    let why = if has_other_master(mirror, link) {
        "it belongs to another bridge or a bond"
    } else if table.iter().any(|port| port.path == Path::Engine) {
        "a port takes the engine path, which knows no bridges"
    } else if members().any(|port| port.settings.veth != first.settings.veth) {
        "some of its ports are veths, and some are not"
    } else if members().all(Port::is_generic) {
        "its ports have generic XDP, which does not see all tags"
    } else if bridge.protocol != EtherType::VLAN.0 {
        "its VLANs are not those of IEEE 802.1Q"
    } else if bridge.has_mst {
        "it has Multiple Spanning Trees"
    } else if bridge.ageing.is_zero() {
        "it forgets stations at once (ageing_time 0)"
    } else if link.mac.is_none() {
        "it has no Ethernet address"
    } else {
        return Found::On(Box::new(lower(link, bridge, mirror, table)), Tags::NONE);
    };
    Found::LeftAlone(why.into())
}

/// What a VLAN device is to Bora that is on a bridge, `below`; `device` is the bridge if Bora forwards by it.
pub(super) fn find_vlan(
    link: &Link,
    (below, device): (&Link, Option<&Device>),
    mirror: &Mirror,
    table: &PortTable,
) -> Found {
    let Some(vlan) = link.vlan else {
        return Found::Nothing;
    };
    let Some(bridge) = device else {
        let has_ports = table.iter().any(|port| port.link.master == below.index);
        return if has_ports {
            Found::LeftAlone("its bridge is left to Linux".into())
        } else {
            Found::Nothing
        };
    };
    let own = vlan_of(mirror, bridge.ifindex, vlan.id);
    let filters = below.bridge.is_some_and(|bridge| bridge.filters_vlans);
    let why = if table.at(link.index).is_some() {
        "it is a port itself"
    } else if has_other_master(mirror, link) {
        "it belongs to a bridge or a bond"
    } else if vlan.protocol != EtherType::VLAN.0 {
        "its tag is not that of IEEE 802.1Q"
    } else if link.mac != below.mac {
        "its Ethernet address is not the bridge's"
    } else if let Some(why) = priorities::why_they_differ(vlan, mirror) {
        why
    } else if filters && own.is_none_or(|own| own.untagged) {
        "the bridge itself is not in this VLAN, or not with tags (`bridge vlan add dev BRIDGE vid VLAN self`)"
    } else {
        let mut lower = Lower::device(bridge);
        let in_bridge = if filters { vlan.id } else { 0 };
        let tag = Tags::one(vlan.protocol, vlan.id);
        let bridged = lower.bridged.as_mut();
        if let Some(bridged) = bridged {
            bridged.vlan = in_bridge;
            bridged.ways = ways(bridge.ifindex, in_bridge, tag, mirror, table);
            lower.ports = ports_of(&bridged.ways);
        }
        return Found::On(Box::new(lower), Tags::NONE);
    };
    Found::LeftAlone(why.into())
}

/// A VLAN of a bridge itself or of a port of one.
fn vlan_of(mirror: &Mirror, index: u32, vlan: u16) -> Option<BridgeVlan> {
    let port = mirror.bridges().ports.get(&index)?;
    port.vlans.get(&vlan).copied()
}

/// The VLAN of what the bridge itself sends and receives without a tag; 0 if it knows no VLANs.
fn own_vlan(link: &Link, bridge: Bridge, mirror: &Mirror) -> Option<u16> {
    if !bridge.filters_vlans {
        return Some(0);
    }
    let own = mirror.bridges().ports.get(&link.index)?;
    let mut vlans = own.vlans.iter();
    vlans
        .find(|(_, it)| it.pvid && it.untagged)
        .map(|(vlan, _)| *vlan)
}

/// The ports that Bora can use for the packets of a VLAN, whose tag inside the bridge is `tag`.
fn ways(bridge: u32, vlan: u16, tag: Tags, mirror: &Mirror, table: &PortTable) -> Vec<Way> {
    let known = &mirror.bridges().ports;
    let way = |port: &Port| {
        let state = known.get(&port.ifindex)?;
        if state.bridge != bridge || !is_usable(port, state, mirror) {
            return None;
        }
        if vlan == 0 {
            return Some(Way {
                id: port.id,
                ifindex: port.ifindex,
                tagged: (!tag.is_empty()).then_some(tag),
                untagged: tag.is_empty(),
                leaves: tag,
            });
        }
        let on_wire = Tags::one(EtherType::VLAN.0, vlan);
        let of_port = state.vlans.get(&vlan)?;
        Some(Way {
            id: port.id,
            ifindex: port.ifindex,
            tagged: Some(on_wire),
            untagged: of_port.pvid,
            leaves: if of_port.untagged {
                Tags::NONE
            } else {
                on_wire
            },
        })
    };
    table.iter().filter_map(way).collect()
}

/// Whether frames come and go by a port of a bridge as Bora expects.
fn is_usable(port: &Port, state: &BridgePort, mirror: &Mirror) -> bool {
    let is_below = |link: &Link| link.vlan.is_some_and(|vlan| vlan.below == port.ifindex);
    port.has_program()
        && !port.is_generic()
        && port.is_output()
        && port.path == Path::Express
        && port.settings.up
        && port.offloads.hidden_tags.is_none()
        && state.forwards()
        && state.is_plain
        // Linux gives a port's own VLAN devices their frames before the bridge
        && !mirror.links().values().any(is_below)
}

fn lower(link: &Link, bridge: Bridge, mirror: &Mirror, table: &PortTable) -> Lower {
    let vlan = own_vlan(link, bridge, mirror);
    let ways = match vlan {
        Some(vlan) => ways(link.index, vlan, Tags::NONE, mirror, table),
        None => Vec::new(),
    };
    let members = table.iter().filter(|port| port.link.master == link.index);
    let members: Vec<&Port> = members.collect();
    let any = |of: fn(&PortSettings) -> bool| members.iter().any(|port| of(&port.settings));
    let mtus = members.iter().map(|port| port.link.mtu);
    Lower {
        id: None,
        name: String::new(),
        ifindex: link.index,
        mtu: mtus.chain([link.mtu]).min().unwrap_or_default(),
        ports: ports_of(&ways),
        usable: Vec::new(),
        hash: XmitHash::default(),
        settings: PortSettings {
            path: Path::Express,
            can_redirect: members.iter().all(|port| port.settings.can_redirect),
            partial_checksum: any(|port| port.partial_checksum),
            veth: any(|port| port.veth),
            shaped: any(|port| port.shaped),
            bypass_netfilter: any(|port| port.bypass_netfilter),
            up: true,
            enabled: true,
            gated: true,
            ..PortSettings::default()
        },
        bypass_qdisc: members.iter().all(|port| port.bypass_qdisc),
        is_output: true,
        tunnel: None,
        bridged: Some(Bridged {
            bridge: link.index,
            vlan: vlan.unwrap_or_default(),
            ways,
            ageing: bridge.ageing / LOOKS,
        }),
    }
}

fn ports_of(ways: &[Way]) -> Vec<LowerPort> {
    let port = |way: &Way| LowerPort {
        id: way.id,
        ifindex: way.ifindex,
    };
    ways.iter().map(port).collect()
}

impl DeviceTable {
    /// The device that gets what comes in without a tag by a port of a bridge, or none of them; `None` of other ports.
    pub(crate) fn untagged_of(&self, port: PortId) -> Option<PortId> {
        let way = |device: &'_ Device| {
            let bridged = device.lower.bridged.as_ref()?;
            let way = bridged.ways.iter().find(|way| way.id == port)?;
            Some(if way.untagged { device.id } else { NO_DEVICE })
        };
        self.iter().filter_map(way).min()
    }

    /// Where the stations of bridges are, as far as Bora may send there.
    pub(crate) fn stations(&self, mirror: &Mirror) -> Stations {
        let mut stations = Stations::new();
        for device in self.iter() {
            let Some(bridged) = &device.lower.bridged else {
                continue;
            };
            let (bridge, vlan) = (bridged.bridge, bridged.vlan);
            let all = (bridge, vlan, [0; 6])..=(bridge, vlan, [0xff; 6]);
            for (&(_, _, mac), port) in mirror.bridges().stations.range(all) {
                let way = bridged.ways.iter().find(|way| way.ifindex == *port);
                let place = way.map(|way| (way.id.0, way.leaves.octets()));
                stations.extend(place.map(|place| ((device.id.0, mac), place)));
            }
        }
        stations
    }
}
