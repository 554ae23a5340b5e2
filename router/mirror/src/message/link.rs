//! Network interfaces.

use std::time::Duration;

use super::tunnel::{self, Tunnel, TunnelKind};
use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// What `ip link` calls its kind: `veth`, `vlan`, ...; empty for plain hardware.
    pub kind: String,
    /// Ethernet address, where it has one.
    pub mac: Option<[u8; 6]>,
    /// Whether it takes frames for every Ethernet address: a bridge, a macvlan or a capture wants them.
    pub promiscuous: bool,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// IFF_UP.
    pub up: bool,
    /// The kernel's FIB counts the carrier as present (IFF_RUNNING or IFF_LOWER_UP).
    pub carrier: bool,
    /// IFF_NOARP: Linux asks for no neighbours there.
    pub no_arp: bool,
    /// The bridge or bond it belongs to; 0 if none.
    pub master: u32,
    /// Root queueing discipline, as text.
    pub qdisc: String,
    /// Receive queues it may have, 1 or more.
    pub rx_queues: u32,
    /// What a VLAN device adds to the interface below it.
    pub vlan: Option<Vlan>,
    /// What a macvlan is on, and how.
    pub macvlan: Option<Macvlan>,
    /// How a tunnel over IPv4 wraps its packets.
    pub tunnel: Option<Tunnel>,
    /// The routing table of a VRF device.
    pub vrf_table: Option<u32>,
    /// What a bridge does with frames.
    pub bridge: Option<Bridge>,
    /// How a bond chooses the port that a packet leaves by.
    pub bond: Option<Bond>,
    /// Whether packets come and go by a bond's port.
    pub bond_port_active: Option<bool>,
}

impl Link {
    /// Whether it is a VXLAN device that Bora knows.
    pub(crate) fn is_vxlan(&self) -> bool {
        let tunnel = self.tunnel.as_ref();
        tunnel.is_some_and(|tunnel| matches!(tunnel.kind, TunnelKind::Vxlan(_)))
    }
}

/// A bond: IFLA_INFO_DATA (IFLA_BOND_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bond {
    /// BOND_MODE_*.
    pub mode: u8,
    /// BOND_XMIT_POLICY_*.
    pub xmit_policy: u8,
}

/// A bridge: IFLA_INFO_DATA (IFLA_BR_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Whether it knows VLANs (`vlan_filtering`).
    pub filters_vlans: bool,
    /// EtherType of its VLANs' tags.
    pub protocol: u16,
    /// How long a station that sends nothing is known; the shorter time that STP may set counts.
    pub ageing: Duration,
    /// Multiple Spanning Tree: each VLAN has its own port states.
    pub has_mst: bool,
}

/// A VLAN device: IFLA_LINK and IFLA_INFO_DATA (IFLA_VLAN_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The interface below; 0 if that is in another network namespace.
    pub below: u32,
    /// EtherType of the tag: 0x8100 (IEEE 802.1Q) or 0x88a8 (802.1ad).
    pub protocol: u16,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
    /// The priority (PCP) that packets leave with, for the socket buffer's priorities 0 to 7 (`egress-qos-map`).
    pub egress_priorities: [u8; 8],
    /// Whether what comes in gets a priority that depends on its tag (`ingress-qos-map`).
    pub maps_ingress: bool,
}

/// A macvlan: IFLA_LINK and IFLA_INFO_DATA (IFLA_MACVLAN_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macvlan {
    /// The interface below; 0 if that is in another network namespace.
    pub below: u32,
    /// MACVLAN_MODE_*.
    pub mode: u32,
}

impl Macvlan {
    /// Whether it takes frames for other addresses than its own: `passthru` and `source`.
    pub fn is_greedy(self) -> bool {
        const PASSTHRU: u32 = 8;
        const SOURCE: u32 = 16;
        [PASSTHRU, SOURCE].contains(&self.mode)
    }
}

/// struct ifinfomsg. Messages of other families (AF_BRIDGE) are about bridge ports, not links.
pub(super) fn decode(payload: &[u8]) -> Result<Option<Link>, Malformed> {
    let head = header(payload, 16, "link message")?;
    if head[0] != libc::AF_UNSPEC as u8 {
        return Ok(None);
    }
    let flags = u32_at(head, 8);
    let has = |flag: i32| flags & flag as u32 != 0;
    let mut link = Link {
        index: u32_at(head, 4),
        name: String::new(),
        kind: String::new(),
        mac: None,
        promiscuous: false,
        mtu: 0,
        up: has(libc::IFF_UP),
        carrier: has(libc::IFF_RUNNING | libc::IFF_LOWER_UP),
        no_arp: has(libc::IFF_NOARP),
        master: 0,
        qdisc: String::new(),
        rx_queues: 1,
        vlan: None,
        macvlan: None,
        tunnel: None,
        vrf_table: None,
        bridge: None,
        bond: None,
        bond_port_active: None,
    };
    let (mut below, mut is_elsewhere) = (0, false);
    for attribute in attributes(payload, 16) {
        let attribute = attribute?;
        match attribute.kind {
            libc::IFLA_IFNAME => link.name = attribute.text(),
            libc::IFLA_ADDRESS => link.mac = attribute.mac(),
            libc::IFLA_MTU => link.mtu = attribute.u32()?,
            libc::IFLA_PROMISCUITY => link.promiscuous = attribute.u32()? > 0,
            libc::IFLA_NUM_RX_QUEUES => link.rx_queues = attribute.u32()?.max(1),
            libc::IFLA_MASTER => link.master = attribute.u32()?,
            libc::IFLA_QDISC => link.qdisc = attribute.text(),
            libc::IFLA_LINK => below = attribute.u32()?,
            libc::IFLA_LINK_NETNSID => is_elsewhere = true,
            libc::IFLA_LINKINFO => {
                let info = Info::of(attribute)?;
                link.kind = info.kind;
                match (link.kind.as_str(), info.data) {
                    ("vlan", Some(data)) => link.vlan = Some(vlan(data)?),
                    ("macvlan", Some(data)) => link.macvlan = Some(macvlan(data)?),
                    ("gre" | "ipip" | "sit" | "vxlan", Some(data)) => {
                        link.tunnel = tunnel::decode(&link.kind, data)?;
                    }
                    ("vrf", Some(data)) => link.vrf_table = vrf_table(data)?,
                    ("bridge", Some(data)) => link.bridge = Some(bridge(data)?),
                    ("bond", Some(data)) => link.bond = Some(bond(data)?),
                    _ => {}
                }
                if let ("bond", Some(data)) = (info.port_kind.as_str(), info.port_data) {
                    link.bond_port_active = Some(is_active(data)?);
                }
            }
            _ => {}
        }
    }
    let below = if is_elsewhere { 0 } else { below };
    if let Some(vlan) = &mut link.vlan {
        vlan.below = below;
    }
    if let Some(macvlan) = &mut link.macvlan {
        macvlan.below = below;
    }
    if let Some(tunnel) = link.tunnel.as_mut().filter(|_| is_elsewhere) {
        tunnel.unsupported = Some("its outer packets are in another network namespace");
    }
    Ok(Some(link))
}

/// IFLA_LINKINFO: names of kinds, and what there is of the kinds themselves.
#[derive(Default)]
struct Info<'a> {
    kind: String,
    data: Option<Attribute<'a>>,
    /// The kind as a port of a bond, a bridge, ...
    port_kind: String,
    port_data: Option<Attribute<'a>>,
}

impl<'a> Info<'a> {
    fn of(attribute: Attribute<'a>) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for info in attribute.nested() {
            let info = info?;
            match info.kind {
                libc::IFLA_INFO_KIND => found.kind = info.text(),
                libc::IFLA_INFO_DATA => found.data = Some(info),
                libc::IFLA_INFO_SLAVE_KIND => found.port_kind = info.text(),
                libc::IFLA_INFO_SLAVE_DATA => found.port_data = Some(info),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// IFLA_INFO_DATA of a bond (include/uapi/linux/if_link.h).
fn bond(data: Attribute<'_>) -> Result<Bond, Malformed> {
    const IFLA_BOND_MODE: u16 = 1;
    const IFLA_BOND_XMIT_HASH_POLICY: u16 = 14;
    let (mut mode, mut xmit_policy) = (0, 0);
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_BOND_MODE => mode = attribute.u8()?,
            IFLA_BOND_XMIT_HASH_POLICY => xmit_policy = attribute.u8()?,
            _ => {}
        }
    }
    Ok(Bond { mode, xmit_policy })
}

/// IFLA_INFO_SLAVE_DATA of a bond's port: BOND_STATE_ACTIVE and BOND_LINK_UP, which are 0.
fn is_active(data: Attribute<'_>) -> Result<bool, Malformed> {
    const IFLA_BOND_SLAVE_STATE: u16 = 1;
    const IFLA_BOND_SLAVE_MII_STATUS: u16 = 2;
    for attribute in data.nested() {
        let attribute = attribute?;
        let is_state = matches!(
            attribute.kind,
            IFLA_BOND_SLAVE_STATE | IFLA_BOND_SLAVE_MII_STATUS
        );
        if is_state && attribute.u8()? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// IFLA_INFO_DATA of a bridge. Times are in hundredths of a second.
fn bridge(data: Attribute<'_>) -> Result<Bridge, Malformed> {
    const IFLA_BR_FORWARD_DELAY: u16 = 1;
    const IFLA_BR_AGEING_TIME: u16 = 4;
    const IFLA_BR_STP_STATE: u16 = 5;
    const IFLA_BR_VLAN_FILTERING: u16 = 7;
    const IFLA_BR_VLAN_PROTOCOL: u16 = 8;
    const IFLA_BR_MULTI_BOOLOPT: u16 = 46;
    const BR_BOOLOPT_MST_ENABLE: u32 = 1 << 2;
    let (mut delay, mut ageing, mut stp) = (0, 0, false);
    let mut bridge = Bridge {
        filters_vlans: false,
        protocol: libc::ETH_P_8021Q as u16,
        ageing: Duration::ZERO,
        has_mst: false,
    };
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_BR_FORWARD_DELAY => delay = attribute.u32()?,
            IFLA_BR_AGEING_TIME => ageing = attribute.u32()?,
            IFLA_BR_STP_STATE => stp = attribute.u32()? != 0,
            IFLA_BR_VLAN_FILTERING => bridge.filters_vlans = attribute.u8()? != 0,
            IFLA_BR_VLAN_PROTOCOL => bridge.protocol = u16::from_be(attribute.u16()?),
            IFLA_BR_MULTI_BOOLOPT => {
                let options = header(attribute.value, 8, "options of a bridge")?;
                bridge.has_mst = u32_at(options, 0) & BR_BOOLOPT_MST_ENABLE != 0;
            }
            _ => {}
        }
    }
    let hundredths = if stp { ageing.min(delay) } else { ageing };
    bridge.ageing = Duration::from_millis(10 * u64::from(hundredths));
    Ok(bridge)
}

/// IFLA_INFO_DATA of a VLAN device, without the interface below it.
fn vlan(data: Attribute<'_>) -> Result<Vlan, Malformed> {
    const IFLA_VLAN_ID: u16 = 1;
    const IFLA_VLAN_EGRESS_QOS: u16 = 3;
    const IFLA_VLAN_INGRESS_QOS: u16 = 4;
    const IFLA_VLAN_PROTOCOL: u16 = 5;
    let mut vlan = Vlan {
        below: 0,
        protocol: libc::ETH_P_8021Q as u16,
        id: 0,
        egress_priorities: [0; 8],
        maps_ingress: false,
    };
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_VLAN_ID => vlan.id = attribute.u16()?,
            IFLA_VLAN_PROTOCOL => vlan.protocol = u16::from_be(attribute.u16()?),
            IFLA_VLAN_EGRESS_QOS => vlan.egress_priorities = egress_priorities(attribute)?,
            IFLA_VLAN_INGRESS_QOS => vlan.maps_ingress = attribute.nested().next().is_some(),
            _ => {}
        }
    }
    Ok(vlan)
}

/// IFLA_VLAN_EGRESS_QOS: struct ifla_vlan_qos_mapping for each priority of socket buffers that has one of tags.
fn egress_priorities(map: Attribute<'_>) -> Result<[u8; 8], Malformed> {
    let mut priorities = [0; 8];
    for mapping in map.nested() {
        let mapping = mapping?.value;
        let head = header(mapping, 8, "egress-qos-map")?;
        let (from, to) = (u32_at(head, 0), u32_at(head, 4));
        if let Some(priority) = priorities.get_mut(from as usize) {
            *priority = (to & 7) as u8;
        }
    }
    Ok(priorities)
}

/// IFLA_INFO_DATA of a macvlan, without the interface below it.
fn macvlan(data: Attribute<'_>) -> Result<Macvlan, Malformed> {
    const IFLA_MACVLAN_MODE: u16 = 1;
    let mut macvlan = Macvlan { below: 0, mode: 0 };
    for attribute in data.nested() {
        let attribute = attribute?;
        if attribute.kind == IFLA_MACVLAN_MODE {
            macvlan.mode = attribute.u32()?;
        }
    }
    Ok(macvlan)
}

/// IFLA_INFO_DATA of a VRF device.
fn vrf_table(data: Attribute<'_>) -> Result<Option<u32>, Malformed> {
    const IFLA_VRF_TABLE: u16 = 1;
    for attribute in data.nested() {
        let attribute = attribute?;
        if attribute.kind == IFLA_VRF_TABLE {
            return attribute.u32().map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
