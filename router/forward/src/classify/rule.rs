//! What a rule matches and what it does.

use std::ops::RangeInclusive;

use bora_fib::{NextHopId, PortId};

use crate::class::{Class, MAX_CLASSES};

/// Most rules of one set.
pub const MAX_RULES: usize = 1 << 17;

/// A value and the bits of it that count: `x` matches if `(value ^ x) & mask == 0` (HERO09). The
/// default matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ternary<T> {
    /// The value of the bits.
    pub value: T,
    /// Ones where bits count.
    pub mask: T,
}

impl Ternary<u8> {
    /// The whole octet.
    pub const fn exact(value: u8) -> Self {
        let mask = 0xff;
        Self { value, mask }
    }

    /// For [`Rule::tos`]: this code point, whatever the ECN bits (RFC 2474 3, RFC 3168 5).
    pub const fn dscp(code_point: u8) -> Self {
        Self {
            value: code_point << 2,
            mask: 0xfc,
        }
    }
}

/// Source and destination address; says which IP version a rule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Any, of both versions.
    #[default]
    Any,
    /// IPv4, host order.
    V4 {
        /// Source.
        source: Ternary<u32>,
        /// Destination.
        destination: Ternary<u32>,
    },
    /// IPv6, host order.
    V6 {
        /// Source.
        source: Ternary<u128>,
        /// Destination.
        destination: Ternary<u128>,
    },
}

/// What happens to a packet that matches. The rule counts it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Dropped, [`crate::Reason::Rule`].
    Drop,
    /// Goes on.
    Pass {
        /// Its class; `None` leaves it to the packet's DSCP.
        class: Option<Class>,
        /// The next hop to use instead of the route's. (A port would not do, because it does not
        /// say which neighbour.) MTU and missing neighbours are handled as for routes.
        output: Option<NextHopId>,
    },
}

impl Action {
    /// Nothing but counting.
    pub const COUNT: Self = Self::Pass {
        class: None,
        output: None,
    };
}

/// One ordered rule: all conditions must hold; the default has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Addresses and IP version.
    pub addresses: Addresses,
    /// IPv4 TOS octet or IPv6 traffic class.
    pub tos: Ternary<u8>,
    /// IPv4 protocol, or what follows IPv6's extension headers. Where that is hidden, the packet is dropped
    /// ([`crate::Reason::HiddenUpperLayer`]).
    pub protocol: Ternary<u8>,
    /// Priority code point, 0..=7, of the outermost VLAN tag; `Some` never matches untagged
    /// packets.
    pub pcp: Option<Ternary<u8>>,
    /// Source ports (TCP, UDP, UDP-Lite, DCCP, SCTP). `Some` never matches packets without ports,
    /// among them all fragments but the first (RFC 1858 says what a filter can know of those).
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports, likewise.
    pub destination_ports: Option<RangeInclusive<u16>>,
    /// Port the packet came in by.
    pub in_port: Option<PortId>,
    /// What to do.
    pub action: Action,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            addresses: Addresses::Any,
            tos: Ternary::default(),
            protocol: Ternary::default(),
            pcp: None,
            source_ports: None,
            destination_ports: None,
            in_port: None,
            action: Action::COUNT,
        }
    }
}

/// Why a rule set was refused; rules are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// More than [`MAX_RULES`].
    TooMany(usize),
    /// A port range ends before it begins.
    EmptyPorts {
        /// The rule.
        rule: usize,
    },
    /// A priority code point beyond 7.
    Pcp {
        /// The rule.
        rule: usize,
    },
    /// A class beyond [`MAX_CLASSES`].
    Class {
        /// The rule.
        rule: usize,
        /// What it asks for.
        class: Class,
    },
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(count) => write!(f, "{count} rules; at most {MAX_RULES} are possible"),
            Self::EmptyPorts { rule } => {
                write!(f, "rule {rule}: the port range ends before it begins")
            }
            Self::Pcp { rule } => write!(f, "rule {rule}: a VLAN priority is 0 to 7"),
            Self::Class { rule, class } => write!(
                f,
                "rule {rule}: class {} is beyond {}",
                class.0,
                MAX_CLASSES - 1
            ),
        }
    }
}

impl std::error::Error for RuleError {}

pub(super) fn check(rules: &[Rule]) -> Result<(), RuleError> {
    if rules.len() > MAX_RULES {
        return Err(RuleError::TooMany(rules.len()));
    }
    for (rule, one) in rules.iter().enumerate() {
        let mut ports = [&one.source_ports, &one.destination_ports].into_iter();
        if ports.any(|ports| ports.as_ref().is_some_and(RangeInclusive::is_empty)) {
            return Err(RuleError::EmptyPorts { rule });
        }
        if one.pcp.is_some_and(|pcp| pcp.value > 7) {
            return Err(RuleError::Pcp { rule });
        }
        match one.action {
            Action::Pass {
                class: Some(class), ..
            } if usize::from(class.0) >= MAX_CLASSES => {
                return Err(RuleError::Class { rule, class });
            }
            _ => {}
        }
    }
    Ok(())
}
