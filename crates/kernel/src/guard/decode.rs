//! Decodes the messages about firewall chains, rules, IPsec policies and qdiscs.

use super::report::{GuardReport, Reason, ReasonKind};
use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};
use crate::message::Frame;
use crate::world::World;

// include/uapi/linux/netfilter/nf_tables.h
const NFT_NEWCHAIN: u16 = (10 << 8) | 3;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const XFRM_NEWPOLICY: u16 = 0x13;
/// Parent of the qdiscs `ingress` and `clsact`; parent of a root qdisc.
const TC_H_CLSACT: u32 = 0xffff_fff1;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
/// Qdiscs that only queue. Bora may bypass them, because they carry no configured rate or order.
const PLAIN_QDISCS: [&str; 8] = [
    "noqueue",
    "pfifo_fast",
    "fq_codel",
    "fq",
    "mq",
    "pfifo",
    "bfifo",
    "noop",
];

/// A base chain of nftables (iptables-nft makes them too). Empty chains that accept count too: this
/// is simple, and the traffic is already in the kernel when somebody adds a rule.
pub(super) fn chain(report: &mut GuardReport, frame: &Frame<'_>) -> Result<(), Malformed> {
    if frame.kind != NFT_NEWCHAIN {
        return Ok(());
    }
    let family = header(frame.payload, 4, "nftables chain")?[0];
    let (mut table, mut name, mut hook, mut policy) = (String::new(), String::new(), None, None);
    for attribute in attributes(frame.payload, 4) {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_CHAIN_TABLE => table = attribute.text(),
            NFTA_CHAIN_NAME => name = attribute.text(),
            NFTA_CHAIN_HOOK => hook = Some(hook_number(&attribute)?),
            NFTA_CHAIN_POLICY => policy = Some(attribute.u32_be()?),
            _ => {}
        }
    }
    let Some(hook) = hook else { return Ok(()) };
    let Some((family, concerns, hook)) = hook_of(family, hook) else {
        return Ok(());
    };
    let policy = if policy == Some(0) { "drop" } else { "accept" };
    let text = format!(
        "nftables: table {family} {table} chain {name} (hook {hook}, policy {policy}; free: `nft delete table {family} {table}`)"
    );
    let kind = ReasonKind::Netfilter;
    match concerns {
        Concerns::Both => report.both(kind, text),
        Concerns::V4 => report.add(false, kind, text),
        Concerns::V6 => report.add(true, kind, text),
        Concerns::Local => report.local.push(Reason { kind, text }),
    }
    Ok(())
}

/// Which packets something concerns.
enum Concerns {
    Both,
    V4,
    V6,
    /// IPv4 packets to or from the router itself, among them those of tunnels.
    Local,
}

fn hook_number(attribute: &Attribute<'_>) -> Result<u32, Malformed> {
    for nested in attribute.nested() {
        let nested = nested?;
        if nested.kind == NFTA_HOOK_HOOKNUM {
            return nested.u32_be();
        }
    }
    Err(Malformed("nftables hook"))
}

/// Names of family and hook and which packets they concern, if these may be Bora's.
fn hook_of(family: u8, hook: u32) -> Option<(&'static str, Concerns, &'static str)> {
    let (name, concerns) = match family {
        1 => ("inet", Concerns::Both),
        2 => ("ip", Concerns::V4),
        10 => ("ip6", Concerns::V6),
        5 => {
            let hook = if hook == 0 { "ingress" } else { "egress" };
            return Some(("netdev", Concerns::Both, hook));
        }
        _ => return None, // arp, bridge
    };
    let hook = match hook {
        0 => "prerouting",
        // forwarded packets do not pass these, and there are no tunnels over IPv6
        1 | 3 if family == 10 => return None,
        1 => return Some((name, Concerns::Local, "input")),
        2 => "forward",
        3 => return Some((name, Concerns::Local, "output")),
        4 => "postrouting",
        5 => "ingress",
        _ => return None,
    };
    Some((name, concerns, hook))
}

/// An IPsec policy (struct xfrm_userpolicy_info).
pub(super) fn policy(report: &mut GuardReport, frame: &Frame<'_>) -> Result<(), Malformed> {
    if frame.kind != XFRM_NEWPOLICY {
        return Ok(());
    }
    let head = header(frame.payload, 161, "xfrm policy")?;
    let direction = match head[160] {
        0 => "in",
        1 => "out",
        2 => "fwd",
        _ => return Ok(()),
    };
    let family = i32::from(u16::from_ne_bytes([head[40], head[41]]));
    let text = format!(
        "xfrm: policy index {} (dir {direction}; `ip xfrm policy` shows it)",
        u32_at(head, 156)
    );
    let kind = ReasonKind::Xfrm;
    match family {
        _ if direction == "in" => report.local.push(Reason { kind, text }),
        libc::AF_INET => report.add(false, kind, text),
        libc::AF_INET6 => report.add(true, kind, text),
        _ => report.both(kind, text),
    }
    Ok(())
}

/// A queueing discipline (struct tcmsg) of a port.
pub(super) fn qdisc(
    report: &mut GuardReport,
    frame: &Frame<'_>,
    world: &World,
) -> Result<(), Malformed> {
    if frame.kind != libc::RTM_NEWQDISC {
        return Ok(());
    }
    let head = header(frame.payload, 20, "qdisc message")?;
    let (device, parent) = (u32_at(head, 4), u32_at(head, 12));
    let Some(link) = world
        .links
        .get(&device)
        .filter(|_| world.ports.contains_key(&device))
    else {
        return Ok(());
    };
    let mut kind = String::new();
    for attribute in attributes(frame.payload, 20) {
        let attribute = attribute?;
        if attribute.kind == TCA_KIND {
            kind = attribute.text();
        }
    }
    if parent == TC_H_CLSACT {
        report.both(
            ReasonKind::Tc,
            format!("tc: {kind} on {} may filter", link.name),
        );
    } else if parent == TC_H_ROOT && !PLAIN_QDISCS.contains(&kind.as_str()) {
        let name = &link.name;
        report.warnings.push(format!(
            "tc: {kind} on {name} does not see the packets that Bora sends there"
        ));
    }
    Ok(())
}
