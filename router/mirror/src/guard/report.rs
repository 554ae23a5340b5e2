//! What must stay with the kernel, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use super::firewall::Firewall;
use super::flowtable::Flowtable;

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasonKind {
    /// nftables or iptables; `--bypass netfilter` overrides it.
    Netfilter,
    /// Policy routing: the rules cannot be read.
    Rule,
    /// IPsec policies.
    Xfrm,
    /// Filters at the ingress or egress of a port.
    Tc,
    /// The port belongs to a bridge or bond.
    Master,
    /// A sysctl has Linux forward by what only Linux knows.
    Sysctl,
}

/// Why an IP version stays with the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// Its kind.
    pub kind: ReasonKind,
    /// The rule, policy or hook, as text.
    pub text: String,
}

/// Which IP versions must stay with the kernel, and why; empty if none must.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardReport {
    /// Reasons for IPv4.
    pub v4: Vec<Reason>,
    /// Reasons for IPv6.
    pub v6: Vec<Reason>,
    /// Why tunnels stay with the kernel: what looks at packets to and from the router itself.
    pub local: Vec<Reason>,
    /// Queueing disciplines that shape, police, mark or order what leaves by an interface, by its index: the kind of one.
    pub shapers: BTreeMap<u32, String>,
    /// Where Linux puts established flows, which then pass its chains no more.
    pub flowtables: Vec<Flowtable>,
    /// What netfilter's rules do with transit; nothing if they could not all be read.
    #[serde(skip)]
    pub firewall: Option<Firewall>,
}

impl GuardReport {
    /// Whether chains of nftables or iptables, or what could not be seen of them, keep an IP version with the kernel.
    pub fn has_chains(&self, v6: bool) -> bool {
        let mut reasons = if v6 { &self.v6 } else { &self.v4 }.iter();
        reasons.any(|reason| reason.kind == ReasonKind::Netfilter)
    }

    /// Adds a reason for both IP versions.
    pub(super) fn both(&mut self, kind: ReasonKind, text: String) {
        self.add(false, kind, text.clone());
        self.add(true, kind, text);
    }

    /// Adds a reason for one IP version.
    pub(super) fn add(&mut self, v6: bool, kind: ReasonKind, text: String) {
        let reasons = if v6 { &mut self.v6 } else { &mut self.v4 };
        reasons.push(Reason { kind, text });
    }

    /// Sorts it and removes duplicates.
    pub(super) fn finish(mut self) -> Self {
        for reasons in [&mut self.v4, &mut self.v6, &mut self.local] {
            reasons.sort();
            reasons.dedup();
        }
        self.flowtables.sort();
        self
    }
}
