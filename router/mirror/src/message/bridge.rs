//! Messages of bridges, of family AF_BRIDGE: ports with their VLANs, and entries of the forwarding database (FDB).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};

const BRIDGE_VLAN_RANGE_END: u16 = 1 << 4;
pub(crate) const BR_STATE_FORWARDING: u8 = 3;
/// Message types that libc does not name.
pub(crate) const RTM_NEWVLAN: u16 = 112;
pub(crate) const RTM_DELVLAN: u16 = 113;
/// NDA_MASTER of include/uapi/linux/neighbour.h.
pub(crate) const NDA_MASTER: u16 = 9;

/// A VLAN of a bridge's port, or of the bridge itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeVlan {
    /// Frames without a tag that come in are of it.
    pub pvid: bool,
    /// Frames leave without a tag.
    pub untagged: bool,
}

/// A port of a bridge, or the bridge itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgePort {
    /// The bridge's interface index.
    pub bridge: u32,
    /// BR_STATE_*.
    pub state: u8,
    /// It learns, and has none of the settings that change what a frame may do.
    pub is_plain: bool,
    /// Those whose frames pass, by number.
    pub vlans: BTreeMap<u16, BridgeVlan>,
}

impl BridgePort {
    /// Whether frames come and go by it (BR_STATE_FORWARDING).
    pub fn forwards(&self) -> bool {
        self.state == BR_STATE_FORWARDING
    }
}

/// What a frame is for: the bridge's interface index, the VLAN (0 without VLAN filtering), and the Ethernet address.
pub type Station = (u32, u16, [u8; 6]);

/// What an event says of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeEvent {
    /// How a port is now, by interface index.
    Port(u32, BridgePort),
    /// A port has left its bridge.
    PortGone(u32),
    /// The port that a station is behind now, if any.
    Station(Station, Option<u32>),
    /// VLANs of ports whose frames do not pass, by interface index.
    Stopped(Vec<(u32, RangeInclusive<u16>)>),
    /// Something else has changed.
    Other,
}

/// An event of family AF_BRIDGE; RTM_*. It leads to a whole reading, also if it is malformed.
pub(crate) fn event(kind: u16, payload: &[u8]) -> BridgeEvent {
    match decode_event(kind, payload) {
        Ok(event) => event.unwrap_or(BridgeEvent::Other),
        Err(error) => {
            log::warn!("bridges: {error}");
            BridgeEvent::Other
        }
    }
}

fn decode_event(kind: u16, payload: &[u8]) -> Result<Option<BridgeEvent>, Malformed> {
    Ok(match kind {
        libc::RTM_NEWLINK => port(payload)?.map(|(index, port)| BridgeEvent::Port(index, port)),
        libc::RTM_DELLINK => {
            let head = header(payload, 16, "bridge port")?;
            Some(BridgeEvent::PortGone(u32_at(head, 4)))
        }
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
            let is_there = kind == libc::RTM_NEWNEIGH;
            station(payload)?
                .map(|(station, port)| BridgeEvent::Station(station, is_there.then_some(port)))
        }
        RTM_NEWVLAN => Some(BridgeEvent::Stopped(stopped(payload)?)),
        _ => None,
    })
}

/// A struct ifinfomsg of family AF_BRIDGE: a port or bridge with its interface index.
pub(crate) fn port(payload: &[u8]) -> Result<Option<(u32, BridgePort)>, Malformed> {
    const IFLA_PROTINFO: u16 = 12;
    let head = header(payload, 16, "bridge port")?;
    let index = u32_at(head, 4);
    let mut port = BridgePort {
        is_plain: true,
        ..BridgePort::default()
    };
    for attribute in attributes(payload, 16) {
        let attribute = attribute?;
        match attribute.kind {
            libc::IFLA_MASTER => port.bridge = attribute.u32()?,
            IFLA_PROTINFO => (port.state, port.is_plain) = settings(attribute)?,
            libc::IFLA_AF_SPEC => port.vlans = vlans(attribute)?,
            _ => {}
        }
    }
    Ok((port.bridge != 0).then_some((index, port)))
}

/// IFLA_PROTINFO: state, and whether the port is as most are.
fn settings(info: Attribute<'_>) -> Result<(u8, bool), Malformed> {
    const IFLA_BRPORT_STATE: u16 = 1;
    const IFLA_BRPORT_LEARNING: u16 = 8;
    // MODE (hairpin), PROXYARP, PROXYARP_WIFI, VLAN_TUNNEL, NEIGH_SUPPRESS, ISOLATED, LOCKED, MAB, NEIGH_VLAN_SUPPRESS
    const UNUSUAL: [u16; 9] = [4, 10, 12, 29, 32, 33, 39, 40, 43];
    const IFLA_BRPORT_MRP_RING_OPEN: u16 = 35;
    const IFLA_BRPORT_BACKUP_PORT: u16 = 34;
    let (mut state, mut is_plain) = (0, true);
    for attribute in info.nested() {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_BRPORT_STATE => state = attribute.u8()?,
            IFLA_BRPORT_LEARNING => is_plain &= attribute.u8()? != 0,
            IFLA_BRPORT_BACKUP_PORT => is_plain = false,
            IFLA_BRPORT_MRP_RING_OPEN => is_plain &= attribute.u8()? == 0,
            kind if UNUSUAL.contains(&kind) => is_plain &= attribute.u8()? == 0,
            _ => {}
        }
    }
    Ok((state, is_plain))
}

/// IFLA_AF_SPEC: struct bridge_vlan_info for each VLAN, or for the first and the last one of a range.
fn vlans(info: Attribute<'_>) -> Result<BTreeMap<u16, BridgeVlan>, Malformed> {
    const IFLA_BRIDGE_VLAN_INFO: u16 = 2;
    const PVID: u16 = 1 << 1;
    const UNTAGGED: u16 = 1 << 2;
    let (mut vlans, mut first) = (BTreeMap::new(), 0);
    for attribute in info.nested() {
        let attribute = attribute?;
        if attribute.kind != IFLA_BRIDGE_VLAN_INFO {
            continue;
        }
        let info = header(attribute.value, 4, "VLAN of a bridge port")?;
        let [flags, vlan] = [0, 2].map(|at| u16::from_ne_bytes([info[at], info[at + 1]]));
        if flags & BRIDGE_VLAN_RANGE_END == 0 {
            first = vlan;
        }
        let is = BridgeVlan {
            pvid: flags & PVID != 0,
            untagged: flags & UNTAGGED != 0,
        };
        vlans.extend((first..=vlan).map(|vlan| (vlan, is)));
    }
    Ok(vlans)
}

/// A struct br_vlan_msg: VLANs of a port whose frames do not pass, with the port's interface index.
pub(crate) fn stopped(payload: &[u8]) -> Result<Vec<(u32, RangeInclusive<u16>)>, Malformed> {
    const BRIDGE_VLANDB_ENTRY: u16 = 1;
    const BRIDGE_VLANDB_ENTRY_INFO: u16 = 1;
    const BRIDGE_VLANDB_ENTRY_RANGE: u16 = 2;
    const BRIDGE_VLANDB_ENTRY_STATE: u16 = 3;
    let index = u32_at(header(payload, 8, "VLANs of a bridge port")?, 4);
    let mut found = Vec::new();
    for entry in attributes(payload, 8) {
        let entry = entry?;
        if entry.kind != BRIDGE_VLANDB_ENTRY {
            continue;
        }
        let (mut first, mut last, mut state) = (0, 0, BR_STATE_FORWARDING);
        for attribute in entry.nested() {
            let attribute = attribute?;
            match attribute.kind {
                BRIDGE_VLANDB_ENTRY_INFO => {
                    let info = header(attribute.value, 4, "VLAN of a bridge port")?;
                    first = u16::from_ne_bytes([info[2], info[3]]);
                }
                BRIDGE_VLANDB_ENTRY_RANGE => last = attribute.u16()?,
                BRIDGE_VLANDB_ENTRY_STATE => state = attribute.u8()?,
                _ => {}
            }
        }
        if state != BR_STATE_FORWARDING {
            found.push((index, first..=last.max(first)));
        }
    }
    Ok(found)
}

/// A struct ndmsg of family AF_BRIDGE. `None` for the bridge's own addresses and what is no entry of a bridge.
pub(crate) fn station(payload: &[u8]) -> Result<Option<(Station, u32)>, Malformed> {
    const NTF_SELF: u8 = 1 << 1;
    const NDA_VLAN: u16 = 5;
    let head = header(payload, 12, "station of a bridge")?;
    let port = u32_at(head, 4);
    let state = u16::from_ne_bytes([head[8], head[9]]);
    let (mut mac, mut vlan, mut bridge) = (None, 0, 0);
    for attribute in attributes(payload, 12) {
        let attribute = attribute?;
        match attribute.kind {
            libc::NDA_LLADDR => mac = attribute.mac(),
            NDA_VLAN => vlan = attribute.u16()?,
            NDA_MASTER => bridge = attribute.u32()?,
            _ => {}
        }
    }
    let is_own = state & libc::NUD_PERMANENT != 0 || port == bridge;
    let is_entry = head[10] & NTF_SELF == 0 && bridge != 0 && !is_own;
    Ok(mac
        .filter(|_| is_entry)
        .map(|mac| ((bridge, vlan, mac), port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Body;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        Body::new(&[]).attribute(kind, value).octets().to_vec()
    }

    fn message(head: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
        [head, &attributes.concat()].concat()
    }

    #[test]
    fn ranges_of_vlans_are_read() {
        let info = |flags: u16, vlan: u16| {
            attribute(2, &[flags.to_ne_bytes(), vlan.to_ne_bytes()].concat())
        };
        let spec = [info(6, 1), info(1 << 3, 10), info(1 << 4, 12)].concat();
        let mut head = [0; 16];
        (head[0], head[4]) = (libc::AF_BRIDGE as u8, 3);
        let protinfo = [attribute(1, &[3]), attribute(8, &[1]), attribute(33, &[0])].concat();
        let payload = message(
            &head,
            &[
                attribute(libc::IFLA_MASTER, &7u32.to_ne_bytes()),
                attribute(12 | 0x8000, &protinfo),
                attribute(libc::IFLA_AF_SPEC, &spec),
            ],
        );
        let (index, found) = port(&payload).unwrap().unwrap();
        assert_eq!((index, found.bridge), (3, 7));
        assert!(found.forwards() && found.is_plain);
        let numbers: Vec<u16> = found.vlans.keys().copied().collect();
        assert_eq!(numbers, [1, 10, 11, 12]);
        assert!(found.vlans[&1].pvid && found.vlans[&1].untagged && !found.vlans[&11].untagged);
    }

    #[test]
    fn ports_that_do_not_learn_or_are_isolated_are_not_plain() {
        for (kind, value) in [(8, 0), (33, 1), (39, 1), (4, 1)] {
            let info = [attribute(1, &[3]), attribute(kind, &[value])].concat();
            let info = Attribute {
                kind: 12,
                value: &info,
            };
            assert_eq!(settings(info).unwrap(), (3, false), "{kind}");
        }
    }

    #[test]
    fn vlans_in_other_states_than_forwarding_are_found() {
        let entry = |vlan: u16, last: Option<u16>, state: u8| {
            let info = attribute(1, &[[0; 2], vlan.to_ne_bytes()].concat());
            let last = last.map(|last| attribute(2, &last.to_ne_bytes()));
            let of = [info, last.unwrap_or_default(), attribute(3, &[state])];
            attribute(1 | 0x8000, &of.concat())
        };
        let mut head = [0; 8];
        (head[0], head[4]) = (libc::AF_BRIDGE as u8, 3);
        let entries = [
            entry(1, Some(9), 3),
            entry(10, None, 4),
            entry(11, Some(20), 1),
        ];
        let found = stopped(&message(&head, &entries));
        assert_eq!(found, Ok(vec![(3, 10..=10), (3, 11..=20)]));
    }

    #[test]
    fn stations_are_read_and_own_addresses_are_not() {
        let entry = |state: u16, flags: u8| {
            let mut head = [0; 12];
            (head[0], head[4], head[10]) = (libc::AF_BRIDGE as u8, 3, flags);
            head[8..10].copy_from_slice(&state.to_ne_bytes());
            message(
                &head,
                &[
                    attribute(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 9]),
                    attribute(NDA_MASTER, &7u32.to_ne_bytes()),
                    attribute(5, &10u16.to_ne_bytes()),
                ],
            )
        };
        let wanted = ((7, 10, [2, 0, 0, 0, 0, 9]), 3);
        assert_eq!(station(&entry(libc::NUD_REACHABLE, 0)), Ok(Some(wanted)));
        assert_eq!(station(&entry(libc::NUD_PERMANENT, 0)), Ok(None));
        assert_eq!(station(&entry(libc::NUD_REACHABLE, 2)), Ok(None));
    }
}
