//! Bonds of Linux's bonding driver. LACP, monitoring and the choice of the active port stay with Linux; Bora follows.

use std::fs;

use bora_contract::{MAX_BOND_PORTS, PortSettings};
use bora_forward::{Tags, XmitHash};
use bora_mirror::Mirror;
use bora_mirror::message::{Bond, Link};

use super::lower::{Found, Lower, LowerPort};
use crate::policy::has_other_master;
use crate::ports::table::PortTable;
use crate::ports::{Port, path_name};

// include/uapi/linux/if_bonding.h
const ACTIVE_BACKUP: u8 = 1;
const BALANCE_XOR: u8 = 2;
const LACP: u8 = 4;

/// What a bond is to Bora.
pub(super) fn find(link: &Link, mirror: &Mirror, table: &PortTable) -> Found {
    let port_of = |member: &&Link| table.at(member.index);
    let links = mirror.links().values();
    let members: Vec<&Link> = links.filter(|other| other.master == link.index).collect();
    if members.iter().all(|member| port_of(member).is_none()) {
        return Found::Nothing;
    }
    let members = match in_order(members, &link.name) {
        Ok(members) => members,
        Err(why) => return Found::LeftAlone(why),
    };
    let ports: Vec<&Port> = members.iter().filter_map(port_of).collect();
    let Some(first) = ports.first() else {
        return Found::Nothing;
    };
    let other = members.iter().find(|member| port_of(member).is_none());
    let why = if let Some(other) = other {
        format!("{}, which belongs to it, is no port", other.name)
    } else if let Some(why) = why_not(link, mirror, &ports) {
        why
    } else {
        return Found::On(lower(link, &ports, first).into(), Tags::NONE);
    };
    Found::LeftAlone(why)
}

/// A bond's interfaces in the order in which Linux has them: a flow's hash is the number of one.
///
/// # Errors
/// Why the order is not known.
fn in_order<'a>(mut members: Vec<&'a Link>, bond: &str) -> Result<Vec<&'a Link>, String> {
    let path = format!("/proc/thread-self/net/bonding/{bond}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("Slave Interface: "));
    let names: Vec<&str> = names.collect();
    let place = |member: &&Link| names.iter().position(|name| *name == member.name);
    if let Some(member) = members.iter().find(|member| place(member).is_none()) {
        return Err(format!(
            "the bonding driver does not show {} yet",
            member.name
        ));
    }
    members.sort_by_key(place);
    Ok(members)
}

fn why_not(link: &Link, mirror: &Mirror, ports: &[&Port]) -> Option<String> {
    let Bond { mode, xmit_policy } = link.bond?;
    let twin = ports.iter().find(|port| !port.has_program());
    let mut paths = ports.windows(2);
    let why = if has_other_master(mirror, link) {
        "it belongs to a bridge".into()
    } else if ![ACTIVE_BACKUP, BALANCE_XOR, LACP].contains(&mode) {
        "its mode is none of active-backup, balance-xor, 802.3ad".into()
    } else if mode != ACTIVE_BACKUP && XmitHash::from_number(xmit_policy).is_none() {
        "its xmit_hash_policy is none of layer2, layer2+3, layer3+4".into()
    } else if ports.len() > MAX_BOND_PORTS {
        format!("it has more than {MAX_BOND_PORTS} ports")
    } else if let Some(port) = twin {
        format!("its port {} has no XDP program", port.name)
    } else if let Some(port) = ports.iter().find(|port| port.is_generic()) {
        format!("its port {} has generic XDP", port.name)
    } else if let Some(&[a, b]) = paths
        .find(|pair| pair[0].path != pair[1].path)
        .and_then(|pair| pair.first_chunk())
    {
        let of = |port: &Port| format!("{} takes {}", port.name, path_name(port.path));
        format!("its ports take different paths: {}, {}", of(a), of(b))
    } else {
        return None;
    };
    Some(why)
}

fn lower(link: &Link, ports: &[&Port], first: &Port) -> Lower {
    let is_usable = |port: &&&Port| {
        port.link.bond_port_active == Some(true) && port.settings.up && port.is_output()
    };
    let usable: Vec<_> = ports.iter().filter(is_usable).map(|port| port.id).collect();
    let any = |of: fn(&PortSettings) -> bool| ports.iter().any(|port| of(&port.settings));
    let policy = link.bond.map_or(0, |bond| bond.xmit_policy);
    let port = |port: &&Port| LowerPort {
        id: port.id,
        ifindex: port.ifindex,
    };
    Lower {
        id: None,
        name: String::new(),
        ifindex: link.index,
        mtu: link.mtu,
        ports: ports.iter().map(port).collect(),
        hash: XmitHash::from_number(policy).unwrap_or_default(),
        settings: PortSettings {
            path: first.path,
            can_redirect: ports.iter().all(|port| port.settings.can_redirect),
            no_napi: any(|port| port.no_napi),
            partial_checksum: any(|port| port.partial_checksum),
            kernel4: any(|port| port.kernel4),
            kernel6: any(|port| port.kernel6),
            shaped: any(|port| port.shaped),
            up: !usable.is_empty(),
            enabled: true,
            ..first.settings.clone()
        },
        usable,
        bypass_qdisc: ports.iter().all(|port| port.bypass_qdisc),
        is_output: ports.iter().all(|port| port.is_output()),
        tunnel: None,
        bridged: None,
    }
}
