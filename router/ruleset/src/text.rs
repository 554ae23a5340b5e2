//! Rules, places and chains in a few words.

use std::fmt;

use crate::expression::{Destination, Expression, PayloadBase, Verdict};
use crate::model::{Family, Hook, Rule};
use crate::report::{ChainReport, Obstacle, Place};

/// What a rule does: what it looks at and what it says, without values.
pub(crate) fn describe(rule: &Rule) -> String {
    let words: Vec<String> = rule.expressions.iter().filter_map(word).collect();
    if words.is_empty() {
        "counter".into()
    } else {
        words.join(" ")
    }
}

fn word(expression: &Expression) -> Option<String> {
    Some(match expression {
        Expression::Payload {
            base, offset, len, ..
        } => payload(*base, *offset, *len).into(),
        Expression::PayloadWrite => "payload set".into(),
        Expression::Meta { key, .. } => meta(*key).into(),
        Expression::MetaSet { key, .. } => format!("{} set", meta(*key)),
        Expression::Ct { key, .. } => ct(*key).into(),
        Expression::CtSet { key, .. } => format!("{} set", ct(*key)),
        Expression::Verdict(verdict) => verdict_text(verdict),
        Expression::Lookup {
            to: Some(Destination::Verdict),
            ..
        } => "vmap".into(),
        Expression::Lookup { set, .. } if !set.starts_with("__") => format!("@{set}"),
        Expression::DynamicSet { set } => format!("update @{set}"),
        Expression::Object { .. } => "named object".into(),
        Expression::Fib { .. } => "fib".into(),
        Expression::HeaderOption { .. } => "option".into(),
        Expression::OptionWrite => "option set".into(),
        Expression::Hash { .. } => "jhash".into(),
        Expression::Varying { name, .. }
        | Expression::Limit { name }
        | Expression::Nat { name }
        | Expression::Divert { name } => (*name).into(),
        Expression::Log => "log".into(),
        Expression::Reject => "reject".into(),
        Expression::Queue => "queue".into(),
        Expression::Notrack => "notrack".into(),
        Expression::FlowOffload { flowtable } => format!("flow add @{flowtable}"),
        Expression::Match { name, .. } if name == "comment" => return None,
        Expression::Match { name, .. } => format!("-m {name}"),
        Expression::Target { name, .. } => format!("-j {name}"),
        Expression::Unknown(name) => name.clone(),
        Expression::Compare { .. }
        | Expression::Range { .. }
        | Expression::Bitwise { .. }
        | Expression::ByteOrder { .. }
        | Expression::Immediate { .. }
        | Expression::Counter
        | Expression::Lookup { .. } => return None,
    })
}

fn payload(base: PayloadBase, offset: u32, len: usize) -> &'static str {
    match (base, offset, len) {
        (PayloadBase::Link, 0..=5, _) => "ether daddr",
        (PayloadBase::Link, 6..=11, _) => "ether saddr",
        (PayloadBase::Link, ..) => "ether",
        (PayloadBase::Network, 9, 1) => "ip protocol",
        (PayloadBase::Network, 12, 1..=4) => "ip saddr",
        (PayloadBase::Network, 16, 1..=4) => "ip daddr",
        (PayloadBase::Network, 6, 1) => "ip6 nexthdr",
        (PayloadBase::Network, 8, 5..=16) => "ip6 saddr",
        (PayloadBase::Network, 24, _) => "ip6 daddr",
        (PayloadBase::Network, ..) => "ip header",
        (PayloadBase::Transport, 0, 2) => "sport",
        (PayloadBase::Transport, 2, 2) => "dport",
        (PayloadBase::Transport, 0, 4) => "sport dport",
        (PayloadBase::Transport, 13, 1) => "tcp flags",
        (PayloadBase::Transport, ..) => "transport header",
        (PayloadBase::Inner, ..) => "payload",
    }
}

fn meta(key: u32) -> &'static str {
    match key {
        0 => "meta length",
        1 => "meta protocol",
        2 => "meta priority",
        3 => "meta mark",
        4 => "iif",
        5 => "oif",
        6 => "iifname",
        7 => "oifname",
        12 => "meta nftrace",
        15 => "meta nfproto",
        16 => "meta l4proto",
        19 => "meta pkttype",
        30..=32 => "meta time",
        _ => "meta",
    }
}

fn ct(key: u32) -> &'static str {
    match key {
        0 => "ct state",
        1 => "ct direction",
        2 => "ct status",
        3 => "ct mark",
        6 => "ct helper",
        13 => "ct label",
        14 => "ct packets",
        15 => "ct bytes",
        17 => "ct zone",
        _ => "ct",
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Queue => "queue".into(),
        Verdict::Continue => "continue".into(),
        Verdict::Break => "break".into(),
        Verdict::Return => "return".into(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
        Verdict::Other(code) => format!("verdict {code}"),
    }
}

impl fmt::Display for Family {
    /// As nft writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet => f.write_str("inet"),
            Self::Ip => f.write_str("ip"),
            Self::Ip6 => f.write_str("ip6"),
            Self::Netdev => f.write_str("netdev"),
            Self::Other(number) => write!(f, "family {number}"),
        }
    }
}

impl fmt::Display for Hook {
    /// As nft writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        })
    }
}

/// `inet fw4 forward`, or `iptables filter FORWARD` if it is legacy.
fn title((family, legacy): (Family, bool), table: &str, name: &str) -> String {
    match (legacy, family) {
        (true, Family::Ip6) => format!("ip6tables {table} {name}"),
        (true, _) => format!("iptables {table} {name}"),
        (false, _) => format!("{family} {table} {name}"),
    }
}

impl Place {
    /// Its chain: `inet fw4 forward`, or `iptables filter FORWARD` if it is legacy.
    pub fn chain_title(&self) -> String {
        title((self.family, self.legacy), &self.table, &self.chain)
    }
}

impl fmt::Display for Place {
    /// `rule 14 of chain inet fw4 forward (limit)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, _)) = self.rule {
            write!(f, "rule {number} of ")?;
        }
        write!(f, "chain {} ({})", self.chain_title(), self.text)
    }
}

impl fmt::Display for Obstacle {
    /// The place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Display for ChainReport {
    /// `chain inet fw4 forward (hook forward, priority 0)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = title((self.family, self.legacy), &self.table, &self.name);
        write!(
            f,
            "chain {title} (hook {}, priority {}",
            self.hook, self.priority
        )?;
        if !self.devices.is_empty() {
            write!(f, ", devices {}", self.devices.join(", "))?;
        }
        f.write_str(")")
    }
}
