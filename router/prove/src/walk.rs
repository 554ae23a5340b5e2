//! The walk over all intervals of addresses, for each input and each kind of packet that rules tell apart.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use bora_wire::Protocol;
use bora_worker::Tables;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

use crate::asker::Asker;
use crate::borders::Borders;
use crate::exchange::ProveError;
use crate::question::Question;

/// Intervals in one step; each is asked about twice.
const STEP: usize = 64;
/// Intervals for packets that a rule tells from others by more than addresses.
const SOME: usize = 4096;

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
        let mut legs = Vec::new();
        for v6 in [false, true] {
            let mut borders = Borders::new(v6);
            borders.add_routes(asker.linux())?;
            let rules = borders.rules(asker.linux())?;
            borders.add_rules(&rules);
            for &(address, length) in bora {
                borders.add_prefix(address, length);
            }
            borders.settle();
            let (all, some) = (Arc::new(borders.clone()), Arc::new(borders.some(SOME)));
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
        asker.expect(legs.iter().map(|leg| 2 * leg.borders.len() as u64).sum());
        let at = (0, 0);
        Ok(Self { asker, legs, at })
    }

    /// Asks some questions; returns whether there are more. When all have been asked but for those that are to be asked again, it
    /// waits for the next of them.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn step(&mut self) -> Result<bool, ProveError> {
        let questions = self.next_questions();
        if questions.is_empty() {
            let Some(due) = self.asker.next_due() else {
                return Ok(false);
            };
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        self.asker.ask(&questions)?;
        Ok(true)
    }

    /// The asker, with what it has found.
    pub fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Workers decide by these tables from now on.
    pub fn adopt_tables(&mut self, tables: Tables) {
        self.asker.adopt_tables(tables);
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
        let (first, last) = self.borders.interval(at);
        let inside = first + mixed(first) % (last - first).saturating_add(1).max(1);
        let with = |address, ports| {
            let address = self.borders.address(address);
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
            with(inside, [from ^ (mixed(inside) as u16 & 0xff), to]),
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
        .filter(|kind| *kind != plain && is_answered(kind))
        .collect();
    let mut seen = HashSet::new();
    kinds.retain(|kind| seen.insert(*kind));
    kinds
}

/// Whether Linux answers questions about the protocol (rtm_getroute_parse_ip_proto()).
fn is_answered(question: &Question) -> bool {
    const ICMP: Protocol = Protocol(1);
    let icmp = match question.is_v6() {
        true => Protocol::ICMPV6,
        false => ICMP,
    };
    [Protocol::TCP, Protocol::UDP, icmp].contains(&question.protocol)
}

/// A number that looks random (SplitMix64), the same each time.
fn mixed(number: u128) -> u128 {
    let mix = |word: u64| {
        let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    };
    let low = mix(number as u64 ^ (number >> 64) as u64 ^ 0x9e37_79b9_7f4a_7c15);
    u128::from(mix(low)) << 64 | u128::from(low)
}
