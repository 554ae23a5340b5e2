//! Decodes the messages about firewall chains, rules, IPsec policies and qdiscs.

use bora_ruleset::Family;

use super::own_table::OwnTable;
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
/// Parent of the qdiscs `ingress` and `clsact`.
const TC_H_CLSACT: u32 = 0xffff_fff1;
/// The handle of a qdisc that nobody has configured: Linux has made it itself (net.core.default_qdisc).
const TC_H_UNSPEC: u32 = 0;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// Qdiscs that only queue: without an option below they have no rate, no marks, and no order among flows that an operator chose.
const PLAIN_QDISCS: [&str; 7] = [
    "noqueue",
    "pfifo_fast",
    "fq_codel",
    "fq",
    "mq",
    "pfifo",
    "bfifo",
];
// include/uapi/linux/pkt_sched.h
const TCA_FQ_CODEL_CE_THRESHOLD: u16 = 7;
const TCA_FQ_FLOW_MAX_RATE: u16 = 7;
const TCA_FQ_CE_THRESHOLD: u16 = 12;
/// An option of qdiscs that is not in use.
const NONE: u32 = u32::MAX;

/// A base chain of nftables (iptables-nft makes them too). Empty chains that accept count too: this
/// is simple, and the traffic is already in the kernel when somebody adds a rule.
pub(super) fn chain(
    report: &mut GuardReport,
    frame: &Frame<'_>,
    own: &OwnTable,
) -> Result<(), Malformed> {
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
    if own.is(Family::new(family), &table) {
        return Ok(());
    }
    let Some((family, concerns, hook)) = hook_of(family, hook) else {
        return Ok(());
    };
    let policy = if policy == Some(0) { "drop" } else { "accept" };
    let way = match family {
        "netdev" => "",
        _ => "a flowtable takes established flows past it, see docs/firewall.md; ",
    };
    let text = format!(
        "nftables: table {family} {table} chain {name} (hook {hook}, policy {policy}; {way}`nft delete table {family} {table}` \
         removes it with all that it filters)"
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

/// A queueing discipline (struct tcmsg). What filters at a port is a reason; what shapes counts at any interface, because
/// packets may leave by a device on it.
pub(super) fn qdisc(
    report: &mut GuardReport,
    frame: &Frame<'_>,
    world: &World,
) -> Result<(), Malformed> {
    if frame.kind != libc::RTM_NEWQDISC {
        return Ok(());
    }
    let head = header(frame.payload, 20, "qdisc message")?;
    let (device, handle, parent) = (u32_at(head, 4), u32_at(head, 8), u32_at(head, 12));
    let (mut kind, mut options) = (String::new(), None);
    for attribute in attributes(frame.payload, 20) {
        let attribute = attribute?;
        match attribute.kind {
            TCA_KIND => kind = attribute.text(),
            TCA_OPTIONS => options = Some(attribute),
            _ => {}
        }
    }
    if parent == TC_H_CLSACT {
        let port = world.ports.get(&device).and(world.links.get(&device));
        if let Some(link) = port {
            let text = format!("tc: {kind} on {} may filter", link.name);
            report.both(ReasonKind::Tc, text);
        }
    } else if handle != TC_H_UNSPEC && shapes(&kind, options)? {
        report.shapers.insert(device, kind);
    }
    Ok(())
}

/// Whether a queueing discipline that somebody has configured does more than queue.
fn shapes(kind: &str, options: Option<Attribute<'_>>) -> Result<bool, Malformed> {
    if !PLAIN_QDISCS.contains(&kind) {
        return Ok(true);
    }
    let limits: &[u16] = match kind {
        "fq" => &[TCA_FQ_FLOW_MAX_RATE, TCA_FQ_CE_THRESHOLD],
        "fq_codel" => &[TCA_FQ_CODEL_CE_THRESHOLD],
        _ => return Ok(false),
    };
    for option in options.iter().flat_map(Attribute::nested) {
        let option = option?;
        if limits.contains(&option.kind) && option.u32()? != NONE {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One option of a qdisc, inside TCA_OPTIONS.
    fn options(kind: u16, value: u32) -> Vec<u8> {
        let mut octets = [12u16, TCA_OPTIONS, 8, kind].map(u16::to_ne_bytes).concat();
        octets.extend(value.to_ne_bytes());
        octets
    }

    #[test]
    fn limits_of_plain_qdiscs_shape() {
        for (kind, option, value, expected) in [
            ("fq", TCA_FQ_FLOW_MAX_RATE, 125_000, true),
            ("fq", TCA_FQ_FLOW_MAX_RATE, NONE, false),
            ("fq", TCA_FQ_CE_THRESHOLD, 1000, true),
            ("fq", TCA_FQ_CE_THRESHOLD, NONE, false),
            ("fq", 1, 10_000, false), // limit
            ("fq_codel", TCA_FQ_CODEL_CE_THRESHOLD, 1000, true),
            ("fq_codel", 1, 5000, false), // target
            ("pfifo", 1, 5, false),
            ("cake", 1, 0, true),
            ("htb", 1, 0, true),
        ] {
            let octets = options(option, value);
            let found = attributes(&octets, 0).next().transpose().unwrap();
            assert_eq!(
                shapes(kind, found).unwrap(),
                expected,
                "{kind} {option} {value}"
            );
        }
        let short = [8u16, TCA_OPTIONS, 4, TCA_FQ_CE_THRESHOLD]
            .map(u16::to_ne_bytes)
            .concat();
        let found = attributes(&short, 0).next().transpose().unwrap();
        assert!(shapes("fq", found).is_err());
    }
}
