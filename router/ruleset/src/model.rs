//! A ruleset as tables, chains, rules and sets, whether it came from nftables or from legacy iptables.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::expression::{Expression, Verdict};

/// The family of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Both IP versions.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Frames at the ingress and egress of devices.
    Netdev,
    /// ARP, bridges, and what is not known: no packets that are routed.
    Other(u8),
}

impl Family {
    /// By its number (NFPROTO_*).
    pub fn new(number: u8) -> Self {
        match number {
            1 => Self::Inet,
            2 => Self::Ip,
            5 => Self::Netdev,
            10 => Self::Ip6,
            other => Self::Other(other),
        }
    }

    /// Its number (NFPROTO_*).
    pub fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::Ip => 2,
            Self::Netdev => 5,
            Self::Ip6 => 10,
            Self::Other(number) => number,
        }
    }

    /// Whether its chains see packets of this IP version.
    pub fn sees(self, v6: bool) -> bool {
        match self {
            Self::Inet | Self::Netdev => true,
            Self::Ip => !v6,
            Self::Ip6 => v6,
            Self::Other(_) => false,
        }
    }
}

/// Where a base chain is called, in the order that transit passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// At the ingress of a device.
    Ingress,
    /// Before the route is looked up.
    Prerouting,
    /// To the router itself.
    Input,
    /// From one interface to another.
    Forward,
    /// From the router itself.
    Output,
    /// Before a packet leaves.
    Postrouting,
    /// At the egress of a device.
    Egress,
}

impl Hook {
    /// By the number that the family gives it.
    pub(crate) fn new(family: Family, number: u32) -> Option<Self> {
        match (family, number) {
            (Family::Netdev, 0) | (Family::Inet, 5) => Some(Self::Ingress),
            (Family::Netdev, 1) => Some(Self::Egress),
            (Family::Netdev | Family::Other(_), _) => None,
            (_, 0) => Some(Self::Prerouting),
            (_, 1) => Some(Self::Input),
            (_, 2) => Some(Self::Forward),
            (_, 3) => Some(Self::Output),
            (_, 4) => Some(Self::Postrouting),
            _ => None,
        }
    }

    /// Whether packets in transit pass it.
    pub fn is_on_the_way(self) -> bool {
        !matches!(self, Self::Input | Self::Output)
    }

    /// Whether it is at a device: its packets may not be IP yet, or not tracked yet.
    pub(crate) fn is_at_device(self) -> bool {
        matches!(self, Self::Ingress | Self::Egress)
    }
}

/// The type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sees all packets.
    Filter,
    /// Sees the first packet of a connection.
    Nat,
    /// Sees all packets, and looks the route up again if it changed them.
    Route,
    /// Not known: it may do anything.
    Other,
}

/// What makes a chain a base chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Where it is called; `None` if that is not known.
    pub hook: Option<Hook>,
    /// Chains of a hook are called in ascending order.
    pub priority: i32,
    /// Whether what reaches its end is accepted.
    pub accepts: bool,
    /// Its type.
    pub kind: Kind,
    /// Its devices; a name that ends in `*` stands for all that begin so.
    pub devices: Vec<String>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its handle; 0 in legacy iptables.
    pub handle: u64,
    /// What it does, in order.
    pub expressions: Vec<Expression>,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// What makes it a base chain.
    pub base: Option<Base>,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
}

/// An element of a set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// `None`: it stands for all that no other element matches.
    pub key: Option<Vec<u8>>,
    /// The last key of a range, where the element itself says it; other ranges end where the next one of [`Set::ends`] or the
    /// next element begins.
    pub last: Option<Vec<u8>>,
    /// What a verdict map says.
    pub verdict: Option<Verdict>,
}

/// A set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// It belongs to one rule and never changes.
    pub anonymous: bool,
    /// Its elements are ranges.
    pub interval: bool,
    /// It maps to verdicts.
    pub verdicts: bool,
    /// Packets or time change it, or a limit or quota belongs to its elements.
    pub dynamic: bool,
    /// Octets of a key.
    pub key_len: usize,
    /// Its number of elements, if it was declared with one.
    pub size: u32,
    /// Its elements; `None` if they have not been read.
    pub elements: Option<Vec<Element>>,
    /// Where ranges end, excluded.
    pub ends: Vec<Vec<u8>>,
    /// The verdicts of all elements.
    pub(crate) possible: BTreeSet<Verdict>,
    /// Whether an element stands for all that no other matches.
    pub(crate) catches_all: bool,
}

/// Which table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    /// Its family.
    pub family: Family,
    /// Its name.
    pub name: String,
    /// Whether it belongs to legacy iptables.
    pub legacy: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Its base chains are not called.
    pub dormant: bool,
    /// Its chains.
    pub chains: Vec<Chain>,
    /// Its sets and maps.
    pub sets: HashMap<String, Set>,
    index: HashMap<String, usize>,
}

impl Table {
    /// Index of the chain of this name, which is made if there is none.
    pub(crate) fn chain(&mut self, name: &str) -> usize {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let chain = Chain {
            name: name.into(),
            ..Chain::default()
        };
        self.index.insert(name.into(), self.chains.len());
        self.chains.push(chain);
        self.chains.len() - 1
    }

    /// Index of the chain of this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

/// Most elements that an anonymous set may have to be read.
const MOST_ELEMENTS: u32 = 1024;

/// All tables of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// The tables.
    pub tables: BTreeMap<TableKey, Table>,
}

impl Ruleset {
    /// Sets and maps whose elements the analysis wants to know ([`request::elements`](crate::request::elements)):
    /// verdict maps, and small sets that belong to one rule. All others are taken as sets of anything.
    pub fn wanted_sets(&self) -> impl Iterator<Item = (&TableKey, &str)> {
        self.unread(|set| set.verdicts || set.anonymous && set.size <= MOST_ELEMENTS)
    }

    /// Further sets whose elements [`Ruleset::compile`] wants to know.
    pub fn further_sets(&self) -> impl Iterator<Item = (&TableKey, &str)> {
        self.unread(|set| !set.dynamic)
    }

    /// Sets whose elements have not been read.
    fn unread(&self, wanted: fn(&Set) -> bool) -> impl Iterator<Item = (&TableKey, &str)> {
        self.tables.iter().flat_map(move |(key, table)| {
            let sets = table.sets.iter();
            let sets = sets.filter(move |(_, set)| set.elements.is_none() && wanted(set));
            sets.map(move |(name, _)| (key, name.as_str()))
        })
    }
}
