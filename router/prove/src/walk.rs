//! The walk over all intervals of addresses, for each input and each kind of packet that rules tell apart.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bora_wire::Protocol;
use bora_worker::Tables;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

use crate::asker::Asker;
use crate::borders::{Borders, mixed, number};
use crate::exchange::ProveError;
use crate::question::Question;

/// Intervals in one step; each is asked about twice.
const STEP: usize = 64;
/// Intervals of the main table for packets that a rule tells from others by more than their destination: of all tables but this
/// one, all are asked about.
const SOME: usize = 1024;

/// Pause between two looks whether what differed can be asked about again.
const PAUSE: Duration = Duration::from_millis(10);

/// What an interval's addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Destinations,
    Sources,
}

/// A part of the walk: packets of one kind and input.
#[derive(Debug)]
struct Leg {
    template: Question,
    over: Over,
    borders: Arc<Borders>,
}

/// A walk.
pub struct Walk {
    asker: Asker,
    /// Addresses that all readers of the FIB are to look up, IPv4 and IPv6, and the place of the next interval.
    look_ups: Vec<(Arc<Borders>, usize)>,
    legs: Vec<Leg>,
    /// The next interval: leg, and place in it.
    at: (usize, usize),
}

impl Walk {
    /// A walk over all that comes in by some of the asker's inputs, by their places. `bora`: prefixes of Bora's FIB, because it may have some that Linux has not.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn new(
        mut asker: Asker,
        inputs: &[usize],
        bora: &[(IpAddr, u8)],
    ) -> Result<Self, ProveError> {
        let (mut look_ups, mut legs) = (Vec::new(), Vec::new());
        for v6 in [false, true] {
            let [mut all, mut some] = [Borders::new(v6), Borders::new(v6)];
            all.add_routes(&mut some, asker.linux())?;
            let rules = all.rules(asker.linux())?;
            all.add_rules(&rules);
            some.add_rules(&rules);
            for &(address, length) in bora {
                all.add_prefix(address, length);
            }
            all.settle();
            some.add_some(&all, SOME);
            some.settle();
            let (all, some) = (Arc::new(all), Arc::new(some));
            look_ups.push((Arc::clone(&all), 0));
            for &input in inputs {
                let plain = asker.template(input, v6);
                let leg = |template, over, borders: &Arc<Borders>| Leg {
                    template,
                    over,
                    borders: Arc::clone(borders),
                };
                legs.push(leg(plain, Over::Destinations, &all));
                let checks_sources = !v6 && asker.inputs()[input].checks_sources;
                let sources = if checks_sources { &all } else { &some };
                legs.push(leg(plain, Over::Sources, sources));
                let kinds = kinds(plain, &rules).into_iter();
                legs.extend(kinds.map(|kind| leg(kind, Over::Destinations, &some)));
            }
        }
        let intervals = legs.iter().map(|leg| &leg.borders);
        let intervals = intervals.chain(look_ups.iter().map(|(borders, _)| borders));
        asker.expect(intervals.map(|borders| 2 * borders.len() as u64).sum());
        Ok(Self {
            asker,
            look_ups,
            legs,
            at: (0, 0),
        })
    }

    /// Asks some questions; returns whether there are more. When all have been asked but for those that are to be asked again, it
    /// waits for the next of them.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn step(&mut self) -> Result<bool, ProveError> {
        let addresses = self.next_addresses();
        if !addresses.is_empty() {
            self.asker.compare_readers(&addresses)?;
            return Ok(true);
        }
        let questions = self.next_questions();
        if questions.is_empty() {
            let Some(due) = self.asker.next_due() else {
                return Ok(false);
            };
            let wait = due.saturating_duration_since(Instant::now());
            thread::sleep(wait.max(PAUSE)); // Bora may be behind
        }
        self.asker.ask(&questions)?;
        Ok(true)
    }

    /// The asker, with what it has found.
    pub fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Workers decide by these tables from now on.
    pub fn adopt_tables(&mut self, tables: Tables, caught_up: Instant) {
        self.asker.adopt_tables(tables, caught_up);
    }

    /// The next addresses for the readers of the FIB.
    fn next_addresses(&mut self) -> Vec<IpAddr> {
        let mut addresses = Vec::with_capacity(2 * STEP);
        while let (Some((borders, at)), true) = (self.look_ups.last_mut(), addresses.is_empty()) {
            let end = borders.len().min(*at + STEP);
            addresses.extend((*at..end).flat_map(|at| borders.two(at)));
            *at = end;
            if addresses.is_empty() {
                self.look_ups.pop();
            }
        }
        addresses
    }

    fn next_questions(&mut self) -> Vec<Question> {
        let mut questions = Vec::with_capacity(2 * STEP);
        while questions.len() < 2 * STEP {
            let Some(leg) = self.legs.get(self.at.0) else {
                break;
            };
            if self.at.1 >= leg.borders.len() {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            questions.extend(leg.questions(self.at.1));
            self.at.1 += 1;
        }
        questions
    }
}

impl Leg {
    /// The questions about an interval: its first address, and one inside, of another flow.
    fn questions(&self, at: usize) -> [Question; 2] {
        let [first, inside] = self.borders.two(at);
        let with = |address, ports| {
            let question = Question {
                ports,
                ..self.template
            };
            match self.over {
                Over::Destinations => Question {
                    destination: address,
                    ..question
                },
                Over::Sources => Question {
                    source: address,
                    ..question
                },
            }
        };
        let [from, to] = self.template.ports;
        [
            with(first, [from, to]),
            with(inside, [from ^ (mixed(number(inside)) as u16 & 0xff), to]),
        ]
    }
}

/// The kinds of packets that rules tell apart by more than the destination: one for each rule.
fn kinds(plain: Question, rules: &[RuleMessage]) -> Vec<Question> {
    let kinds = rules.iter().map(|rule| {
        let mut kind = Question {
            tos: rule.header.tos,
            ..plain
        };
        for one in &rule.attributes {
            match one {
                RuleAttribute::Source(address) if address.is_ipv6() == plain.is_v6() => {
                    kind.source = *address;
                }
                RuleAttribute::IpProtocol(protocol) => {
                    kind.protocol = Protocol(i32::from(*protocol) as u8);
                }
                RuleAttribute::SourcePortRange(range) => kind.ports[0] = range.start,
                RuleAttribute::DestinationPortRange(range) => kind.ports[1] = range.start,
                _ => {}
            }
        }
        kind
    });
    let mut kinds: Vec<Question> = kinds
        .filter(|kind| *kind != plain && kind.is_answered())
        .collect();
    let mut seen = HashSet::new();
    kinds.retain(|kind| seen.insert(*kind));
    kinds
}
