//! Macvlans of Linux on ports, bonds and VLAN devices: what is sent to their addresses is theirs. keepalived and FRR make them for
//! virtual routers (RFC 5798). Nothing leaves by one without Linux, which may hand it to another macvlan.

use std::collections::BTreeMap;

use bora_forward::Tags;
use bora_mirror::Mirror;
use bora_mirror::message::Link;

use super::lower::{Found, Lower};
use super::{Device, Kind};
use crate::policy::has_other_master;
use crate::ports::table::PortTable;

/// What a macvlan is to Bora. `devices` holds at least the bonds and VLAN devices that Bora forwards by.
pub(super) fn find(
    link: &Link,
    mirror: &Mirror,
    ports: &PortTable,
    devices: &BTreeMap<u32, Device>,
) -> Found {
    let Some(macvlan) = link.macvlan else {
        return Found::Nothing;
    };
    let port = ports.at(macvlan.below);
    let device = devices.get(&macvlan.below);
    let (lower, tags) = match (port, device) {
        (Some(port), _) => (Lower::port(port), Tags::NONE),
        (None, Some(device)) => (Lower::device(device), device.tags),
        (None, None) => return Found::Nothing,
    };
    let is_on_bond = device.is_some_and(|it| it.kind == Kind::Vlan && it.lower.ports.len() > 1);
    let why = if lower.bridged.is_some() {
        "it is on a bridge"
    } else if ports.at(link.index).is_some() {
        "it is a port itself"
    } else if has_other_master(mirror, link) {
        "it belongs to a bridge or a bond"
    } else if port.is_some_and(|port| has_other_master(mirror, &port.link)) {
        "its port belongs to a bridge or a bond"
    } else if macvlan.is_greedy() {
        "its mode is passthru or source: it takes frames of its port"
    } else if lower.settings.generic {
        "its port has generic XDP"
    } else if is_on_bond {
        "it is on a VLAN device of a bond"
    } else if link.mac.is_none() {
        "it has no Ethernet address"
    } else {
        let lower = Lower {
            is_output: false,
            ..lower
        };
        return Found::On(lower.into(), tags);
    };
    Found::LeftAlone(why.into())
}
