//! Follows packets in transit through all base chains on their way.

use std::collections::{BTreeMap, BTreeSet};

use crate::expression::Expression;
use crate::model::{Base, Chain, Hook, Kind, Ruleset, Table, TableKey};
use crate::packet::{Packet, State, Traffic};
use crate::report::{ChainReport, Class, Established, Obstacle, Place, Transit};
use crate::rule::Seen;
use crate::text;
use crate::walk::{RulePlace, Walk};
use crate::xt;

/// Which packets are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Linux looks into the table `local` first, and there is no VRF: no packet to one of the router's own addresses is
    /// forwarded, unless its destination is translated.
    pub local_first: bool,
}

/// A base chain on the way.
pub(crate) struct Stop<'a> {
    key: &'a TableKey,
    pub(crate) table: &'a Table,
    pub(crate) index: usize,
    pub(crate) base: &'a Base,
    pub(crate) hook: Hook,
}

impl Stop<'_> {
    fn chain(&self) -> &Chain {
        &self.table.chains[self.index]
    }

    pub(crate) fn place(&self, (chain, rule): RulePlace) -> Place {
        let chain = &self.table.chains[chain];
        let text = match rule {
            None => "policy drop".into(),
            Some(index) => text::describe(&chain.rules[index]),
        };
        Place {
            family: self.key.family,
            table: self.key.name.clone(),
            legacy: self.key.legacy,
            chain: chain.name.clone(),
            rule: rule.map(|index| (index + 1, chain.rules[index].handle)),
            text,
        }
    }

    fn report(&self, leaves_alone: bool) -> ChainReport {
        ChainReport {
            family: self.key.family,
            table: self.key.name.clone(),
            legacy: self.key.legacy,
            name: self.chain().name.clone(),
            hook: self.hook,
            priority: self.base.priority,
            kind: self.base.kind,
            devices: self.base.devices.clone(),
            leaves_alone,
        }
    }
}

impl Ruleset {
    /// What the rules can do with packets that are routed from one interface to another (unicast, not from or to the
    /// router itself, and not by the loopback interface).
    pub fn analyse(&self, question: Question) -> Transit {
        let stops = self.stops(question.v6);
        let follow = |traffic| Follow {
            question,
            traffic,
            rewritten: self.rewrites(question.v6),
            seen: Seen::default(),
            obstacles: Obstacles::new(),
            marks: BTreeSet::new(),
            priorities: BTreeSet::new(),
        };
        let mut all = follow(Traffic::All);
        let alone: Vec<bool> = stops.iter().map(|stop| all.leaves_alone(stop)).collect();
        let reports = stops.iter().zip(&alone);
        let mut transit = Transit {
            chains: reports.map(|(stop, &alone)| stop.report(alone)).collect(),
            established: Established::default(),
            looks_at_conntrack: all.seen.conntrack || self.translates(question.v6),
        };
        let mut flows = [follow(Traffic::Tcp), follow(Traffic::Udp)];
        for flow in &mut flows {
            flow.all(&stops);
        }
        transit.established = established(&stops, &flows);
        transit
    }

    /// The base chains on the way, in order.
    pub(crate) fn stops(&self, v6: bool) -> Vec<Stop<'_>> {
        let mut stops: Vec<Stop<'_>> = self
            .active(v6)
            .flat_map(|(key, table)| {
                let chains = table.chains.iter().enumerate();
                chains.filter_map(move |(index, chain)| {
                    let base = chain.base.as_ref()?;
                    let hook = base.hook.filter(|hook| hook.is_on_the_way())?;
                    Some(Stop {
                        key,
                        table,
                        index,
                        base,
                        hook,
                    })
                })
            })
            .collect();
        stops.sort_by_key(|stop| (stop.hook, stop.base.priority));
        stops
    }

    /// Tables that are in force for an IP version.
    pub(crate) fn active(&self, v6: bool) -> impl Iterator<Item = (&TableKey, &Table)> {
        let tables = self.tables.iter();
        tables.filter(move |(key, table)| !table.dormant && key.family.sees(v6))
    }

    /// Whether there is a chain of type `nat`, whichever its hook: Linux then has NAT's functions at all hooks.
    fn translates(&self, v6: bool) -> bool {
        let mut chains = self.active(v6).flat_map(|(_, table)| &table.chains);
        chains.any(|chain| {
            chain
                .base
                .as_ref()
                .is_some_and(|base| base.kind == Kind::Nat)
        })
    }

    /// Whether rules may change destinations.
    fn rewrites(&self, v6: bool) -> bool {
        let chains = self.active(v6).flat_map(|(_, table)| &table.chains);
        let mut expressions = chains
            .flat_map(|chain| &chain.rules)
            .flat_map(|rule| &rule.expressions);
        self.translates(v6) || expressions.any(rewrites)
    }
}

/// Whether an expression may change a packet's destination.
fn rewrites(expression: &Expression) -> bool {
    match expression {
        Expression::PayloadWrite | Expression::Nat { .. } | Expression::Unknown(_) => true,
        Expression::Target { name, .. } => !xt::keeps_destination(name),
        _ => false,
    }
}

/// What stands in the way, by base chain and rule.
type Obstacles = BTreeMap<(usize, RulePlace), Class>;

/// Adds one; if it is known, the class that allows less counts.
fn note(obstacles: &mut Obstacles, place: (usize, RulePlace), class: Class) {
    let known = obstacles.entry(place).or_insert(class);
    *known = class.max(*known);
}

/// What follows packets of one kind.
struct Follow {
    question: Question,
    traffic: Traffic,
    rewritten: bool,
    seen: Seen,
    obstacles: Obstacles,
    marks: BTreeSet<(usize, RulePlace)>,
    priorities: BTreeSet<(usize, RulePlace)>,
}

impl Follow {
    fn packet(&self, stop: &Stop<'_>) -> Packet {
        Packet::new(
            self.question.v6,
            self.traffic,
            (stop.hook, stop.base),
            (self.question.local_first, self.rewritten),
        )
    }

    fn leaves_alone(&mut self, stop: &Stop<'_>) -> bool {
        let packet = self.packet(stop);
        let mut walk = Walk::new(stop.table, &packet, &mut self.seen);
        walk.base(stop.index, stop.base, State::START);
        let sets = !walk.marks.is_empty() || !walk.priorities.is_empty();
        stop.base.kind != Kind::Other && walk.obstacles().is_empty() && !sets
    }

    /// Follows packets of flows through all base chains; those of type `nat` do not see them.
    fn all(&mut self, stops: &[Stop<'_>]) {
        let mut state = State::START;
        for (at, stop) in stops.iter().enumerate() {
            if stop.base.kind == Kind::Nat {
                continue;
            }
            let packet = self.packet(stop);
            let mut walk = Walk::new(stop.table, &packet, &mut self.seen);
            let behind = walk.base(stop.index, stop.base, state);
            for &(place, class) in walk.obstacles() {
                note(&mut self.obstacles, (at, place), class);
            }
            let of_base = |&place: &RulePlace| (at, place);
            self.marks.extend(walk.marks.iter().map(of_base));
            self.priorities.extend(walk.priorities.iter().map(of_base));
            state = match behind {
                // packets of other devices do not pass the chain
                Some(behind) if stop.hook.is_at_device() => state.or(&behind, Class::Constant),
                Some(behind) => behind,
                None => state,
            };
        }
    }
}

/// What was found for flows of TCP and UDP.
fn established(stops: &[Stop<'_>], flows: &[Follow]) -> Established {
    let mut found = Obstacles::new();
    let (mut marks, mut priorities) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = Seen::default();
    for flow in flows {
        for (&place, &class) in &flow.obstacles {
            note(&mut found, place, class);
        }
        marks.extend(&flow.marks);
        priorities.extend(&flow.priorities);
        seen.reads_ct_mark |= flow.seen.reads_ct_mark;
        seen.writes_ct_mark |= flow.seen.writes_ct_mark;
        seen.fib |= flow.seen.fib;
    }
    let obstacles = found.into_iter().map(|((base, place), class)| Obstacle {
        place: stops[base].place(place),
        class,
        base,
    });
    let told = |rules: BTreeSet<(usize, RulePlace)>| {
        let places = rules.iter().map(|&(base, place)| stops[base].place(place));
        BTreeSet::from_iter(places).into_iter().collect()
    };
    Established {
        obstacles: obstacles.collect(),
        marks: told(marks),
        priorities: told(priorities),
        marks_feed_back: seen.reads_ct_mark && seen.writes_ct_mark,
        fib: seen.fib,
    }
}
