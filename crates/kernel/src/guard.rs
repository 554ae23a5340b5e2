//! Never weaker than the kernel: what Linux may do to forwarded packets that Bora does not do.
//!
//! The XDP program looks at netfilter's, xfrm's and tc's hooks for every packet by itself where
//! the kernel lets it. This is the other half: it works on every kernel, sees policy routing too,
//! and can say what it found.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};
use crate::error::KernelError;
use crate::message::Frame;
use crate::socket::{Netlink, Received};
use crate::world::World;

/// What kind of thing has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasonKind {
    /// nftables or iptables: what `--bypass netfilter` overrides.
    Netfilter,
    /// Policy routing: rules other than Linux's default ones.
    Rule,
    /// IPsec policies.
    Xfrm,
    /// Filters at the ingress or egress of a port.
    Tc,
    /// The port belongs to a bridge, bond or VRF.
    Master,
}

/// Why a family stays with the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// What kind.
    pub kind: ReasonKind,
    /// What exactly, for people.
    pub text: String,
}

/// Which families must stay with the kernel, and why. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardReport {
    /// Reasons for IPv4.
    pub v4: Vec<Reason>,
    /// Reasons for IPv6.
    pub v6: Vec<Reason>,
    /// What Bora's traffic will not be subject to although it may be meant to.
    pub warnings: Vec<String>,
}

impl GuardReport {
    fn both(&mut self, kind: ReasonKind, text: String) {
        self.v4.push(Reason {
            kind,
            text: text.clone(),
        });
        self.v6.push(Reason { kind, text });
    }

    fn family(&mut self, v6: bool) -> &mut Vec<Reason> {
        if v6 { &mut self.v6 } else { &mut self.v4 }
    }

    fn finish(mut self) -> Self {
        for reasons in [&mut self.v4, &mut self.v6] {
            reasons.sort();
            reasons.dedup();
        }
        self.warnings.sort();
        self
    }
}

// include/uapi/linux/netfilter/nf_tables.h
const NFT_GETCHAIN: u16 = (10 << 8) | 4;
const NFT_NEWCHAIN: u16 = (10 << 8) | 3;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;
/// NFNLGRP_NFTABLES and XFRMNLGRP_POLICY as bit masks.
const NFTABLES_EVENTS: u32 = 1 << 6;
const XFRM_EVENTS: u32 = 1 << 3;
const XFRM_GETPOLICY: u16 = 0x15;
const XFRM_NEWPOLICY: u16 = 0x13;
/// Parent of the qdiscs `ingress` and `clsact`; parent of a root qdisc.
const TC_H_CLSACT: u32 = 0xffff_fff1;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
/// Qdiscs that only queue: leaving them out changes no rate and no order that was asked for.
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

/// How long a look without a reason is put off.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A subsystem's sockets; none where the kernel does not have it.
struct Subsystem {
    events: Netlink,
    dumps: Netlink,
}

impl Subsystem {
    fn open(protocol: i32, groups: u32, what: &'static str) -> Option<Self> {
        let open = |groups| Netlink::open(protocol, groups, 1 << 20, what);
        match (open(groups), open(0)) {
            (Ok(events), Ok(dumps)) => Some(Self { events, dumps }),
            (Err(e), _) | (_, Err(e)) => {
                log::info!("this kernel has nothing to guard there: {e}");
                None
            }
        }
    }

    /// Empties the event socket; `true` if there was anything.
    fn drain(&mut self) -> Result<bool, KernelError> {
        let mut any = false;
        while self.events.receive(|_| {})? != Received::Empty {
            any = true;
        }
        Ok(any)
    }
}

/// Watches for what has a say.
pub(crate) struct Guard {
    netfilter: Option<Subsystem>,
    xfrm: Option<Subsystem>,
    route: Netlink,
    /// What dumps have shown, when, and the old iptables' tables then.
    found: GuardReport,
    looked: Instant,
    legacy: [String; 2],
    /// Whether all of it could be read.
    complete: bool,
    /// With what shows in the links.
    report: GuardReport,
}

impl Guard {
    pub(crate) fn open() -> Result<Self, KernelError> {
        Ok(Self {
            netfilter: Subsystem::open(libc::NETLINK_NETFILTER, NFTABLES_EVENTS, "nftables"),
            xfrm: Subsystem::open(libc::NETLINK_XFRM, XFRM_EVENTS, "xfrm policies"),
            route: Netlink::open(
                libc::NETLINK_ROUTE,
                0,
                1 << 20,
                "rules and queueing disciplines",
            )?,
            found: GuardReport::default(),
            looked: Instant::now(),
            legacy: legacy_tables(),
            complete: false,
            report: GuardReport::default(),
        })
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.netfilter, &self.xfrm]
            .into_iter()
            .flatten()
            .map(|s| s.events.as_fd())
    }

    pub(crate) fn report(&self) -> &GuardReport {
        &self.report
    }

    /// Reads off the events; `true` if the report may be out of date.
    pub(crate) fn drain(&mut self) -> Result<bool, KernelError> {
        let mut any = false;
        for subsystem in [&mut self.netfilter, &mut self.xfrm].into_iter().flatten() {
            any |= subsystem.drain()?;
        }
        Ok(any)
    }

    /// Whether to look again without an event: the old iptables has none, and to be sure of the others.
    pub(crate) fn is_due(&self) -> bool {
        !self.complete || self.looked.elapsed() >= LOOK_AGAIN || self.legacy != legacy_tables()
    }

    /// Looks at everything again; `true` if the report changed.
    pub(crate) fn evaluate(&mut self, world: &World) -> bool {
        (self.looked, self.legacy) = (Instant::now(), legacy_tables());
        self.found = self.look(world);
        self.follow_links(world)
    }

    /// The same after changes of links alone.
    pub(crate) fn follow_links(&mut self, world: &World) -> bool {
        let mut report = self.found.clone();
        masters(world, &mut report);
        let report = report.finish();
        let changed = report != self.report;
        self.report = report;
        changed
    }

    /// What dumps show; what cannot be read is a reason, too.
    fn look(&mut self, world: &World) -> GuardReport {
        let (mut report, mut complete) = (GuardReport::default(), true);
        if let Some(netfilter) = &mut self.netfilter {
            let question = Question {
                kind: ReasonKind::Netfilter,
                message: NFT_GETCHAIN,
                body: &[libc::AF_UNSPEC as u8, 0, 0, 0], // struct nfgenmsg
            };
            complete &= question.ask(&mut netfilter.dumps, &mut report, chain);
        }
        self.legacy_reasons(&mut report);
        for v6 in [false, true] {
            complete &= self.rules(v6, &mut report);
        }
        if let Some(xfrm) = &mut self.xfrm {
            let question = Question {
                kind: ReasonKind::Xfrm,
                message: XFRM_GETPOLICY,
                body: &[],
            };
            complete &= question.ask(&mut xfrm.dumps, &mut report, policy);
        }
        let question = Question {
            kind: ReasonKind::Tc,
            message: libc::RTM_GETQDISC,
            body: &[0; 20], // struct tcmsg
        };
        let each = |report: &mut GuardReport, frame: &Frame<'_>| qdisc(report, frame, world);
        complete &= question.ask(&mut self.route, &mut report, each);
        self.complete = complete;
        report
    }

    fn legacy_reasons(&self, report: &mut GuardReport) {
        let commands = [("iptables", "iptable"), ("ip6tables", "ip6table")];
        for (v6, ((command, module), tables)) in commands.iter().zip(&self.legacy).enumerate() {
            for table in tables.split_whitespace() {
                let text =
                    format!("{command} (legacy): table {table} (free: `rmmod {module}_{table}`)");
                report.family(v6 == 1).push(Reason {
                    kind: ReasonKind::Netfilter,
                    text,
                });
            }
        }
    }

    /// Compares the rules with those of a fresh Linux; `false` if they could not all be read.
    fn rules(&mut self, v6: bool, report: &mut GuardReport) -> bool {
        let mut head = [0; 12]; // struct fib_rule_hdr
        head[0] = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let mut found = Vec::new();
        let each = |found: &mut Vec<Rule>, frame: Frame<'_>| {
            if frame.kind == libc::RTM_NEWRULE {
                // what cannot be understood is no default rule
                found.push(rule(frame.payload).unwrap_or_default());
            }
        };
        let dumped = self
            .route
            .dump(libc::RTM_GETRULE, &head, &mut found, Vec::clear, each);
        match Dumped::from(dumped) {
            Dumped::Whole => {}
            Dumped::Unsupported => return true,
            Dumped::Overtaken => return false,
            Dumped::Failed(text) => {
                let kind = ReasonKind::Rule;
                report.family(v6).push(Reason { kind, text });
                return false;
            }
        }
        let mut missing = vec![(0, 255), (32766, 254)];
        if !v6 {
            missing.push((32767, 253));
        }
        for rule in &found {
            let place = missing.iter().position(|&(priority, table)| {
                rule.plain && (rule.priority, rule.table) == (priority, table)
            });
            match place {
                Some(at) => drop(missing.swap_remove(at)),
                None => {
                    let text = format!("ip rule: priority {} is not Linux's own", rule.priority);
                    report.family(v6).push(Reason {
                        kind: ReasonKind::Rule,
                        text,
                    });
                }
            }
        }
        for (priority, table) in missing {
            let text =
                format!("ip rule: the rule of priority {priority} for table {table} is gone");
            report.family(v6).push(Reason {
                kind: ReasonKind::Rule,
                text,
            });
        }
        true
    }
}

/// A dump to ask for, and the kind of reason it is if nobody understands the answer.
struct Question<'a> {
    kind: ReasonKind,
    message: u16,
    body: &'a [u8],
}

impl Question<'_> {
    /// Asks, and lets `each` add to the report; `false` if not everything could be read.
    fn ask(
        self,
        socket: &mut Netlink,
        report: &mut GuardReport,
        each: impl Fn(&mut GuardReport, &Frame<'_>) -> Result<(), Malformed>,
    ) -> bool {
        let before = report.clone();
        let restart = |report: &mut GuardReport| *report = before.clone();
        let each = |report: &mut GuardReport, frame: Frame<'_>| {
            if let Err(e) = each(report, &frame) {
                report.both(self.kind, format!("message type {}: {e}", frame.kind));
            }
        };
        match Dumped::from(socket.dump(self.message, self.body, report, restart, each)) {
            Dumped::Whole | Dumped::Unsupported => true,
            Dumped::Overtaken => false,
            Dumped::Failed(text) => {
                report.both(self.kind, text);
                false
            }
        }
    }
}

/// How a dump ended.
enum Dumped {
    Whole,
    /// Changes overtook it: something may be missing.
    Overtaken,
    /// The kernel has no such subsystem: there is nothing to guard.
    Unsupported,
    Failed(String),
}

impl From<Result<bool, KernelError>> for Dumped {
    fn from(dumped: Result<bool, KernelError>) -> Self {
        match dumped {
            Ok(true) => Self::Whole,
            Ok(false) => Self::Overtaken,
            Err(KernelError::Dump { source, .. })
                if matches!(
                    source.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT)
                ) =>
            {
                Self::Unsupported
            }
            Err(e) => Self::Failed(e.to_string()),
        }
    }
}

/// A base chain of nftables (iptables-nft makes them too). Empty ones that accept count as well:
/// simple, and a rule that comes later finds the traffic already in the kernel.
fn chain(report: &mut GuardReport, frame: &Frame<'_>) -> Result<(), Malformed> {
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
    let Some((family, v4, v6, hook)) = forwarding_hook(family, hook) else {
        return Ok(());
    };
    let policy = if policy == Some(0) { "drop" } else { "accept" };
    let text = format!(
        "nftables: table {family} {table} chain {name} (hook {hook}, policy {policy}; free: `nft delete table {family} {table}`)"
    );
    for (concerned, reasons) in [(v4, &mut report.v4), (v6, &mut report.v6)] {
        if concerned {
            reasons.push(Reason {
                kind: ReasonKind::Netfilter,
                text: text.clone(),
            });
        }
    }
    Ok(())
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

/// Names of family and hook, and the families concerned, for hooks that forwarded packets pass.
fn forwarding_hook(family: u8, hook: u32) -> Option<(&'static str, bool, bool, &'static str)> {
    let (name, v4, v6) = match family {
        1 => ("inet", true, true),
        2 => ("ip", true, false),
        10 => ("ip6", false, true),
        5 => {
            let hook = if hook == 0 { "ingress" } else { "egress" };
            return Some(("netdev", true, true, hook));
        }
        _ => return None, // arp, bridge
    };
    let hook = match hook {
        0 => "prerouting",
        2 => "forward",
        4 => "postrouting",
        5 => "ingress",
        _ => return None, // input, output: not for forwarded packets
    };
    Some((name, v4, v6, hook))
}

/// Names of the tables of the old iptables, IPv4 and IPv6, which has neither events nor netlink.
fn legacy_tables() -> [String; 2] {
    ["ip_tables_names", "ip6_tables_names"]
        .map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default())
}

/// A policy-routing rule, as far as it matters whether it is one of Linux's own.
#[derive(Debug, Default)]
struct Rule {
    priority: u32,
    table: u32,
    /// Looks up `table` for every packet.
    plain: bool,
}

fn rule(payload: &[u8]) -> Result<Rule, Malformed> {
    // include/uapi/linux/fib_rules.h
    const FRA_PRIORITY: u16 = 6;
    const FRA_TABLE: u16 = 15;
    const FRA_SUPPRESS_IFGROUP: u16 = 13;
    const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
    const FRA_PAD: u16 = 18;
    const FRA_PROTOCOL: u16 = 21;
    const FR_ACT_TO_TBL: u8 = 1;
    const FIB_RULE_INVERT: u32 = 2;
    let head = header(payload, 12, "rule message")?;
    let mut rule = Rule {
        priority: 0,
        table: u32::from(head[4]),
        plain: true,
    };
    rule.plain =
        head[1..4] == [0; 3] && head[7] == FR_ACT_TO_TBL && u32_at(head, 8) & FIB_RULE_INVERT == 0;
    for attribute in attributes(payload, 12) {
        let attribute = attribute?;
        match attribute.kind {
            FRA_PRIORITY => rule.priority = attribute.u32()?,
            FRA_TABLE => rule.table = attribute.u32()?,
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP => {
                rule.plain &= attribute.u32()? == u32::MAX;
            }
            FRA_PROTOCOL | FRA_PAD => {}
            _ => rule.plain = false,
        }
    }
    Ok(rule)
}

/// An IPsec policy (struct xfrm_userpolicy_info) for forwarded or sent packets.
fn policy(report: &mut GuardReport, frame: &Frame<'_>) -> Result<(), Malformed> {
    if frame.kind != XFRM_NEWPOLICY {
        return Ok(());
    }
    let head = header(frame.payload, 161, "xfrm policy")?;
    let direction = match head[160] {
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
        libc::AF_INET => report.v4.push(Reason { kind, text }),
        libc::AF_INET6 => report.v6.push(Reason { kind, text }),
        _ => report.both(kind, text),
    }
    Ok(())
}

/// A queueing discipline (struct tcmsg) of a port.
fn qdisc(report: &mut GuardReport, frame: &Frame<'_>, world: &World) -> Result<(), Malformed> {
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
            "tc: {kind} on {name} does not see what Bora sends there"
        ));
    }
    Ok(())
}

/// Ports inside a bridge, bond or VRF: Linux treats what they receive differently.
fn masters(world: &World, report: &mut GuardReport) {
    for link in world
        .ports
        .keys()
        .filter_map(|device| world.links.get(device))
    {
        if link.master != 0 {
            let master = world.links.get(&link.master);
            let master = master.map_or("another device", |master| master.name.as_str());
            report.both(
                ReasonKind::Master,
                format!("{} belongs to {master}", link.name),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_a_reason() {
        let mut guard = Guard::open().unwrap();
        guard.route = crate::socket::deaf();
        guard.evaluate(&World::default());
        for reasons in [&guard.report.v4, &guard.report.v6] {
            for kind in [ReasonKind::Rule, ReasonKind::Tc] {
                let unread = |r: &&Reason| r.kind == kind && r.text.starts_with("cannot read");
                assert_eq!(reasons.iter().filter(unread).count(), 1, "{reasons:?}");
            }
        }
    }
}
