//! Rules of policy routing (`ip rule`).

use std::net::IpAddr;

use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};

/// A rule: which packets it is for, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Rules are asked in this order.
    pub priority: u32,
    /// Source prefix.
    pub src: Option<(IpAddr, u8)>,
    /// Destination prefix.
    pub dst: Option<(IpAddr, u8)>,
    /// TOS octet; 0 for any.
    pub tos: u8,
    /// All six bits of DSCP (`dscp`).
    pub dscp: Option<u8>,
    /// Name of the interface it came in by.
    pub iif: Option<String>,
    /// Name of the interface it must leave by; forwarded packets have none yet.
    pub oif: Option<String>,
    /// Mark and its mask.
    pub mark: (u32, u32),
    /// The table is that of the packet's VRF, and packets of no VRF do not match.
    pub l3mdev: bool,
    /// Users, first and last.
    pub users: Option<(u32, u32)>,
    /// Tunnel; 0 for any.
    pub tunnel: u64,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// Source ports, first and last.
    pub sport: Option<(u16, u16)>,
    /// Destination ports.
    pub dport: Option<(u16, u16)>,
    /// It is for the packets that do not match (`not`).
    pub invert: bool,
    /// What to do.
    pub action: RuleAction,
    /// Routes with prefixes of this length or shorter do not count.
    pub suppress: Option<u32>,
    /// What Bora does not know of it.
    pub unknown: Option<&'static str>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleAction {
    /// Look up this table; go on if it has no route.
    Table(u32),
    /// Go on with the rule of this priority.
    Goto(u32),
    /// Go on.
    Nop,
    /// Drop.
    Blackhole,
    /// Answer that the destination cannot be reached.
    Unreachable,
    /// Answer that it is forbidden.
    Prohibit,
    /// Bora does not know.
    #[default]
    Unknown,
}

/// struct fib_rule_hdr and attributes (include/uapi/linux/fib_rules.h).
pub(crate) fn decode(payload: &[u8]) -> Result<Rule, Malformed> {
    let head = header(payload, 12, "rule message")?;
    const FIB_RULE_INVERT: u32 = 2;
    let mut rule = Rule {
        tos: head[3],
        invert: u32_at(head, 8) & FIB_RULE_INVERT != 0,
        mark: (0, 0),
        ..Rule::default()
    };
    let (mut table, mut goto) = (u32::from(head[4]), 0);
    let (dst_len, src_len) = (head[1], head[2]);
    for attribute in attributes(payload, 12) {
        read(
            &mut rule,
            (&mut table, &mut goto),
            (dst_len, src_len),
            &attribute?,
        )?;
    }
    rule.action = match head[7] {
        1 => RuleAction::Table(table),
        2 => RuleAction::Goto(goto),
        3 => RuleAction::Nop,
        6 => RuleAction::Blackhole,
        7 => RuleAction::Unreachable,
        8 => RuleAction::Prohibit,
        _ => RuleAction::Unknown,
    };
    Ok(rule)
}

fn read(
    rule: &mut Rule,
    (table, goto): (&mut u32, &mut u32),
    (dst_len, src_len): (u8, u8),
    attribute: &Attribute<'_>,
) -> Result<(), Malformed> {
    const FRA_DST: u16 = 1;
    const FRA_SRC: u16 = 2;
    const FRA_IIFNAME: u16 = 3;
    const FRA_GOTO: u16 = 4;
    const FRA_PRIORITY: u16 = 6;
    const FRA_FWMARK: u16 = 10;
    const FRA_TUN_ID: u16 = 12;
    const FRA_SUPPRESS_IFGROUP: u16 = 13;
    const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
    const FRA_TABLE: u16 = 15;
    const FRA_FWMASK: u16 = 16;
    const FRA_OIFNAME: u16 = 17;
    const FRA_PAD: u16 = 18;
    const FRA_L3MDEV: u16 = 19;
    const FRA_UID_RANGE: u16 = 20;
    const FRA_PROTOCOL: u16 = 21;
    const FRA_IP_PROTO: u16 = 22;
    const FRA_SPORT_RANGE: u16 = 23;
    const FRA_DPORT_RANGE: u16 = 24;
    const FRA_DSCP: u16 = 25;
    const FRA_SPORT_MASK: u16 = 28;
    const FRA_DPORT_MASK: u16 = 29;
    const FRA_DSCP_MASK: u16 = 30;
    match attribute.kind {
        FRA_DST => rule.dst = Some((attribute.ip()?, dst_len)),
        FRA_SRC => rule.src = Some((attribute.ip()?, src_len)),
        FRA_IIFNAME => rule.iif = Some(attribute.text()),
        FRA_OIFNAME => rule.oif = Some(attribute.text()),
        FRA_GOTO => *goto = attribute.u32()?,
        FRA_PRIORITY => rule.priority = attribute.u32()?,
        FRA_TABLE => *table = attribute.u32()?,
        FRA_FWMARK => rule.mark.0 = attribute.u32()?,
        FRA_FWMASK => rule.mark.1 = attribute.u32()?,
        FRA_L3MDEV => rule.l3mdev = first(attribute)? != 0,
        FRA_IP_PROTO => rule.protocol = first(attribute)?,
        FRA_DSCP => rule.dscp = Some(first(attribute)?),
        FRA_UID_RANGE => rule.users = Some(pair(attribute, u32::from_ne_bytes)?),
        FRA_SPORT_RANGE => rule.sport = Some(pair(attribute, u16::from_ne_bytes)?),
        FRA_DPORT_RANGE => rule.dport = Some(pair(attribute, u16::from_ne_bytes)?),
        FRA_TUN_ID => rule.tunnel = u64::from_ne_bytes(whole(attribute)?),
        FRA_SUPPRESS_PREFIXLEN => {
            rule.suppress = Some(attribute.u32()?).filter(|&length| length != u32::MAX);
        }
        FRA_SUPPRESS_IFGROUP if attribute.u32()? == u32::MAX => {}
        FRA_SUPPRESS_IFGROUP => rule.unknown = Some("suppress_ifgroup"),
        // newer kernels send them always: all bits count
        FRA_SPORT_MASK | FRA_DPORT_MASK if whole::<2>(attribute)? == [u8::MAX; 2] => {}
        FRA_DSCP_MASK if first(attribute)? == 0x3f => {}
        FRA_PROTOCOL | FRA_PAD => {}
        _ => rule.unknown = Some("a selector that Bora does not know"),
    }
    Ok(())
}

fn whole<const N: usize>(attribute: &Attribute<'_>) -> Result<[u8; N], Malformed> {
    let octets = attribute.value.first_chunk();
    octets.copied().ok_or(Malformed("rule message"))
}

fn first(attribute: &Attribute<'_>) -> Result<u8, Malformed> {
    whole::<1>(attribute).map(|[octet]| octet)
}

/// Two numbers, first and last.
fn pair<T, const N: usize>(
    attribute: &Attribute<'_>,
    number: impl Fn([u8; N]) -> T,
) -> Result<(T, T), Malformed> {
    let (Some(first), Some(last)) = (attribute.value.first_chunk(), attribute.value.last_chunk())
    else {
        return Err(Malformed("rule message"));
    };
    Ok((number(*first), number(*last)))
}
