//! Rules that need no connection as a program for Bora: each entry has conditions on fields of a packet, and says what becomes of
//! packets that meet them. What an entry cannot say is Linux's, for just these packets.

mod conditions;
mod decide;
mod ports;
mod ranges;
mod rule;
mod values;

use std::collections::HashMap;
use std::fmt;

pub use conditions::{Conditions, FIELDS, Field, NO_WORD};
pub use decide::{DEPTH, Decision, MOST_STEPS};
pub use ranges::Ranges;

use crate::expression::{Expression, Verdict};
use crate::model::{Base, Hook, Kind, Ruleset, Table};
use crate::packet::CONNTRACK;
use crate::report::{Place, Transit};
use crate::transit::Stop;
use rule::{Part, What};

/// Most entries of a program.
pub const MOST_ENTRIES: usize = 4096;
/// Most base chains of a program.
pub const MOST_BASES: usize = 16;

/// An interface that rules may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Bora's number.
    pub number: u32,
    /// Linux's ifindex.
    pub index: u32,
    /// Its name.
    pub name: String,
}

impl Interface {
    /// Its name as it is in registers.
    fn name_octets(&self) -> [u8; 16] {
        let mut octets = [0; 16];
        for (to, from) in octets.iter_mut().zip(self.name.bytes().take(15)) {
            *to = from;
        }
        octets
    }
}

/// What becomes of packets that meet the conditions of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// On with the next entry.
    Continue,
    /// As [`Action::Continue`]; conntrack will not see the packet.
    Notrack,
    /// On with the next base chain; behind the last one it is forwarded.
    Accept,
    /// It is dropped.
    Drop,
    /// Linux decides.
    Linux,
    /// On with this entry, and behind its chain with the next one.
    Jump(usize),
    /// On with this entry.
    Goto(usize),
    /// Behind the last [`Action::Jump`]; in a base chain its policy.
    Return,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What a packet must have.
    pub conditions: Conditions,
    /// What becomes of it then.
    pub action: Action,
    /// The rule counts what it matches.
    pub counts: bool,
    /// The rule; `None` at the end of a chain.
    pub place: Option<Place>,
}

/// Where a base chain begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its first entry.
    pub entry: usize,
    /// Packets that conntrack has to see must not come here: Linux decides about them.
    pub untracked: bool,
    /// Its policy is to accept.
    pub accepts: bool,
    /// It is behind the route, so packets without one do not come here.
    pub routed: bool,
}

/// Rules as a program. A packet begins at the first of `starts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The base chains, in order; none: the rules leave all transit alone.
    pub starts: Vec<Start>,
}

/// Why rules cannot be a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They look at connections, or translate addresses, and none keeps conntrack off.
    Conntrack,
    /// They need more than [`MOST_ENTRIES`] entries or [`MOST_BASES`] base chains.
    TooMany,
    /// A base chain has a type that is not known, or a jump leads nowhere.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conntrack => "they look at connections",
            Self::TooMany => "they have more than 4096 rules, or more than 16 base chains",
            Self::Unknown => "a base chain has a type that Bora does not know",
        })
    }
}

/// Where a rule is evaluated.
struct Context<'a> {
    v6: bool,
    hook: Hook,
    behind_conntrack: bool,
    interfaces: &'a [Interface],
}

impl Ruleset {
    /// Whether a program may say more than what is known of all chains: they do not leave all transit alone, and need no
    /// connections, or rules keep conntrack off.
    pub fn is_worth_compiling(&self, v6: bool, transit: &Transit) -> bool {
        let legacy = self.tables.keys().any(|key| key.legacy);
        let mut tables = self.active(v6).map(|(_, table)| table);
        !legacy
            && !transit.chains.iter().all(|chain| chain.leaves_alone)
            && (!transit.looks_at_conntrack || tables.any(has_notrack))
    }

    /// Compiles the rules for packets in transit: unicast, not to the router itself, between two of these interfaces, without a mark, without IPv4 options or
    /// extension headers of IPv6. `tracked`: rules look at connections or translate addresses.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn compile(
        &self,
        v6: bool,
        tracked: bool,
        interfaces: &[Interface],
    ) -> Result<Program, Refusal> {
        let mut compiler = Compiler {
            v6,
            interfaces,
            program: Program::default(),
            known: HashMap::new(),
        };
        let mut keeps_off = false;
        for stop in self.stops(v6) {
            if stop.base.kind == Kind::Nat || stop.hook.is_at_device() {
                continue;
            }
            if stop.base.kind == Kind::Other {
                return Err(Refusal::Unknown);
            }
            let behind_conntrack = is_behind_conntrack(stop.hook, stop.base);
            keeps_off |= !behind_conntrack && has_notrack(stop.table);
            if tracked && behind_conntrack && !keeps_off {
                return Err(Refusal::Conntrack);
            }
            compiler.base(&stop, tracked && behind_conntrack)?;
        }
        match tracked && !keeps_off {
            true => Err(Refusal::Conntrack),
            false => Ok(compiler.program),
        }
    }
}

fn is_behind_conntrack(hook: Hook, base: &Base) -> bool {
    hook != Hook::Prerouting || base.priority >= CONNTRACK
}

fn has_notrack(table: &Table) -> bool {
    let rules = table.chains.iter().flat_map(|chain| &chain.rules);
    let mut expressions = rules.flat_map(|rule| &rule.expressions);
    expressions.any(|expression| *expression == Expression::Notrack)
}

/// A chain as it is evaluated at a hook.
type Variant<'a> = (*const Table, usize, Hook, bool);

struct Compiler<'a> {
    v6: bool,
    interfaces: &'a [Interface],
    program: Program,
    /// The first entry of chains.
    known: HashMap<Variant<'a>, usize>,
}

impl Compiler<'_> {
    fn base(&mut self, stop: &Stop<'_>, untracked: bool) -> Result<(), Refusal> {
        let behind_conntrack = is_behind_conntrack(stop.hook, stop.base);
        let mut todo = Vec::new();
        self.program.starts.push(Start {
            entry: self.program.entries.len(),
            untracked,
            accepts: stop.base.accepts,
            routed: stop.hook != Hook::Prerouting,
        });
        if self.program.starts.len() > MOST_BASES {
            return Err(Refusal::TooMany);
        }
        self.chain(stop, stop.index, &mut todo)?;
        while let Some((entry, chain)) = todo.pop() {
            let variant = (
                std::ptr::from_ref(stop.table),
                chain,
                stop.hook,
                behind_conntrack,
            );
            let start = match self.known.get(&variant) {
                Some(&start) => start,
                None => {
                    let start = self.program.entries.len();
                    self.known.insert(variant, start);
                    self.chain(stop, chain, &mut todo)?;
                    start
                }
            };
            let action = &mut self.program.entries[entry].action;
            *action = match action {
                Action::Jump(_) => Action::Jump(start),
                _ => Action::Goto(start),
            };
        }
        Ok(())
    }

    /// Adds the entries of a chain; `todo`: entries that lead to other chains.
    fn chain(
        &mut self,
        stop: &Stop<'_>,
        chain: usize,
        todo: &mut Vec<(usize, usize)>,
    ) -> Result<(), Refusal> {
        let context = Context {
            v6: self.v6,
            hook: stop.hook,
            behind_conntrack: is_behind_conntrack(stop.hook, stop.base),
            interfaces: self.interfaces,
        };
        for (number, rule) in stop.table.chains[chain].rules.iter().enumerate() {
            for part in rule::parts(rule, stop.table, &context) {
                let at = self.program.entries.len();
                let (action, to) = action(&part, stop.table)?;
                todo.extend(to.map(|to| (at, to)));
                self.add(Entry {
                    conditions: part.conditions,
                    action,
                    counts: part.counts,
                    place: Some(stop.place((chain, Some(number)))),
                })?;
            }
        }
        self.add(Entry {
            conditions: Conditions::default(),
            action: Action::Return,
            counts: false,
            place: None,
        })
    }

    fn add(&mut self, entry: Entry) -> Result<(), Refusal> {
        if self.program.entries.len() == MOST_ENTRIES {
            return Err(Refusal::TooMany);
        }
        self.program.entries.push(entry);
        Ok(())
    }
}

/// What a part of a rule does, and the chain that it leads to.
fn action(part: &Part, table: &Table) -> Result<(Action, Option<usize>), Refusal> {
    let find = |name: &str| table.find(name).ok_or(Refusal::Unknown).map(Some);
    let simple = |action| Ok((action, None));
    match &part.what {
        What::Count => simple(Action::Continue),
        What::Notrack => simple(Action::Notrack),
        What::Verdict(Verdict::Accept) => simple(Action::Accept),
        What::Verdict(Verdict::Drop) => simple(Action::Drop),
        What::Verdict(Verdict::Return) => simple(Action::Return),
        What::Verdict(Verdict::Jump(name)) => Ok((Action::Jump(0), find(name)?)),
        What::Verdict(Verdict::Goto(name)) => Ok((Action::Goto(0), find(name)?)),
        What::Linux | What::Verdict(_) => simple(Action::Linux),
    }
}
