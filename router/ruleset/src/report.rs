//! What the analysis says.

use crate::model::{Family, Hook, Kind};

/// What a condition or an effect depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// On what is constant in a flow: addresses, protocol, ports, interfaces, `ct state`, marks made from these, static
    /// sets and maps.
    Constant,
    /// On what may vary from packet to packet, or is not known.
    Varying,
}

/// A rule, or the policy of a base chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Family of the table.
    pub family: Family,
    /// The table.
    pub table: String,
    /// Whether the table belongs to legacy iptables.
    pub legacy: bool,
    /// The chain.
    pub chain: String,
    /// The rule: its position in the chain, from 1, and its handle, which is 0 in legacy iptables. `None` is the policy.
    pub rule: Option<(usize, u64)>,
    /// What it does, in a few words.
    pub text: String,
}

/// A rule or policy that stands in the way of established flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Where it is.
    pub place: Place,
    /// What it depends on.
    pub class: Class,
    /// The base chain from which it is reached: an index into [`Transit::chains`].
    pub base: usize,
}

/// What can be said of packets of established flows at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// All chains accept all of them, and do nothing else but count and set marks and the priority.
    Unconditional,
    /// All packets of a flow and direction have the same verdict, and no effect but those.
    Constant,
    /// Packets of one flow may have different verdicts or cause effects.
    Varying,
}

/// What the rules do with packets of established flows: TCP without SYN, FIN and RST, and UDP; no fragments, IPv4 options or
/// IPv6 extension headers; tracked by conntrack, in state `established`, seen in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Established {
    /// Rules and policies that may drop such packets, that have effects, or that decide whether such a one is reached.
    pub obstacles: Vec<Obstacle>,
    /// Rules that set marks to what is constant in a flow.
    pub marks: Vec<Place>,
    /// Rules that set the priority to it.
    pub priorities: Vec<Place>,
    /// Rules read conntrack's mark and rules write it: a flow is only settled when a packet of each direction has passed
    /// without a change of the mark.
    pub marks_feed_back: bool,
    /// A condition depends on routes or on the router's own addresses (`fib`, `addrtype`, `rpfilter`).
    pub fib: bool,
}

impl Established {
    /// The answer for all base chains.
    pub fn answer(&self) -> Answer {
        self.answer_of(|_| true)
    }

    /// The answer if only these base chains (indices into [`Transit::chains`]) are passed, such as those of certain
    /// devices.
    pub fn answer_of(&self, passes: impl Fn(usize) -> bool) -> Answer {
        let passed = self.obstacles.iter().filter(|it| passes(it.base));
        match passed.map(|it| it.class).max() {
            None => Answer::Unconditional,
            Some(Class::Constant) => Answer::Constant,
            Some(Class::Varying) => Answer::Varying,
        }
    }
}

/// A base chain on the way of packets in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// Family of the table.
    pub family: Family,
    /// The table.
    pub table: String,
    /// Whether the table belongs to legacy iptables.
    pub legacy: bool,
    /// Its name.
    pub name: String,
    /// Where it is called.
    pub hook: Hook,
    /// Its priority.
    pub priority: i32,
    /// Its type.
    pub kind: Kind,
    /// Its devices, if it has some; a name that ends in `*` stands for all that begin so.
    pub devices: Vec<String>,
    /// It accepts every packet in transit, and does nothing else but count.
    pub leaves_alone: bool,
}

/// What a ruleset can do with packets in transit of an IP version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transit {
    /// The base chains that such packets pass, in this order.
    pub chains: Vec<ChainReport>,
    /// What they do with established flows.
    pub established: Established,
    /// Whether any of them looks at the result of conntrack or uses its connections.
    pub looks_at_conntrack: bool,
}
