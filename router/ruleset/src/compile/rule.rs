//! One rule as conditions and what follows from them.

use super::Context;
use super::conditions::{Conditions, Field};
use super::ports;
use super::ranges::Ranges;
use super::values::{Needs, Octet, Registers};
use crate::expression::{Destination, Expression, PayloadBase, REGISTERS, Verdict};
use crate::model::{Element, Hook, Rule, Set, Table};

/// NFT_FIB_RESULT_ADDRTYPE
const FIB_ADDRESS_TYPE: u32 = 3;
/// NFTA_FIB_F_DADDR
const FIB_DESTINATION: u32 = 2;

/// What becomes of packets that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// They are counted, and go on.
    Count,
    /// Conntrack does not see them.
    Notrack,
    /// Only Linux can say.
    Linux,
    /// What the rule says.
    Verdict(Verdict),
}

/// A part of a rule; no packet meets the conditions of two, except that all others come behind those of [`What::Notrack`].
pub(super) struct Part {
    pub(super) conditions: Conditions,
    pub(super) what: What,
    /// The rule counts.
    pub(super) counts: bool,
}

/// The parts of a rule, in order.
pub(super) fn parts(rule: &Rule, table: &Table, context: &Context<'_>) -> Vec<Part> {
    let mut compiler = Compiler {
        context,
        table,
        registers: Registers {
            octets: [Octet::Unknown; REGISTERS],
            v6: context.v6,
            interfaces: context.interfaces,
        },
        ways: vec![Conditions::default()],
        counted: None,
        uncertain: false,
        parts: Vec::new(),
    };
    let ends = rule.expressions.iter().any(|it| !compiler.step(it));
    if !ends && compiler.counted.is_some() {
        compiler.end(What::Count);
    }
    compiler.parts
}

struct Compiler<'a> {
    context: &'a Context<'a>,
    table: &'a Table,
    registers: Registers<'a>,
    /// Packets that meet one of these come here.
    ways: Vec<Conditions>,
    /// Those that were counted.
    counted: Option<Vec<Conditions>>,
    /// Not all of them do: a condition is not known.
    uncertain: bool,
    parts: Vec<Part>,
}

impl Compiler<'_> {
    /// Follows an expression; `false` if it ends the rule.
    fn step(&mut self, expression: &Expression) -> bool {
        match expression {
            Expression::Payload {
                base,
                offset,
                len,
                to,
            } => self.payload(*base, *offset, *len, *to),
            Expression::Meta { key, to } => self.meta(*key, *to),
            Expression::Ct { key, to } => self.ct(*key, *to),
            Expression::Fib { result, flags, to } => {
                self.registers.store(*to, &[Octet::Unknown; 16]);
                if (*result, *flags) == (FIB_ADDRESS_TYPE, FIB_DESTINATION) {
                    self.registers.store(*to, &[0, 1, 2, 3].map(Octet::Type));
                }
                true
            }
            Expression::HeaderOption { to, .. }
            | Expression::Hash { to, .. }
            | Expression::Varying { to, .. } => {
                self.registers.store(*to, &[Octet::Unknown; 16]);
                true
            }
            Expression::Immediate { to, value } => {
                let octets: Vec<Octet> = value.iter().map(|&octet| Octet::Known(octet)).collect();
                self.registers.store(*to, &octets);
                true
            }
            Expression::Compare { from, how, with } => {
                let needs = self.registers.compare(*from, *how, with);
                self.need(needs)
            }
            Expression::Range {
                from,
                low,
                high,
                inverted,
            } => {
                let ranges = [(&low[..], &high[..])];
                let needs = self.registers.within(*from, low.len(), &ranges);
                let needs = if *inverted {
                    self.registers.inverted(needs)
                } else {
                    needs
                };
                self.need(needs)
            }
            Expression::Bitwise {
                from,
                to,
                len,
                operation,
            } => {
                self.registers.bitwise(*from, *to, *len, operation);
                true
            }
            Expression::ByteOrder {
                from,
                to,
                len,
                size,
            } => {
                self.registers.byteorder(*from, *to, *len, *size);
                true
            }
            Expression::Lookup {
                set,
                from,
                to,
                inverted,
            } => self.lookup(set, *from, *to, *inverted),
            Expression::Counter => {
                self.counted = Some(self.ways.clone());
                true
            }
            Expression::Notrack => self.notrack(),
            Expression::Match { name, .. } if name == "comment" => true,
            Expression::Match {
                name,
                revision,
                info,
            } => match ports::needs(name, *revision, info) {
                Some(values) => self.need(Needs::Values(values)),
                None => self.leave(),
            },
            Expression::Verdict(Verdict::Continue) => true,
            Expression::Verdict(verdict) => self.end(What::Verdict(verdict.clone())),
            _ => self.end(What::Linux),
        }
    }

    /// The rule has nothing more to say.
    fn end(&mut self, what: What) -> bool {
        let what = if self.uncertain { What::Linux } else { what };
        for conditions in std::mem::take(&mut self.ways) {
            self.part(conditions, what.clone());
        }
        false
    }

    fn part(&mut self, conditions: Conditions, what: What) {
        if !conditions.are_impossible() {
            let counts = self.counted.is_some();
            self.parts.push(Part {
                conditions,
                what,
                counts,
            });
        }
    }

    /// Linux does what the rule would do.
    fn leave(&mut self) -> bool {
        self.end(What::Linux)
    }

    /// Only packets that have what is needed go on.
    fn need(&mut self, needs: Needs) -> bool {
        match needs {
            Needs::Never => return false,
            Needs::Values(values) if values.is_empty() => {}
            // what was counted before goes on or not, which no part can say
            _ if self.counted.is_some() => {
                self.ways = self.counted.take().unwrap_or_default();
                return self.leave();
            }
            Needs::Unknown => self.uncertain = true,
            Needs::Values(values) => {
                for conditions in &mut self.ways {
                    for (field, ranges) in &values {
                        conditions.add(*field, ranges);
                    }
                }
            }
        }
        true
    }

    fn payload(&mut self, base: PayloadBase, offset: u32, len: usize, to: usize) -> bool {
        let v6 = self.context.v6;
        let octets: Vec<Octet> = (offset..).take(len).map(|at| octet(v6, base, at)).collect();
        self.registers.store(to, &octets);
        let there = Ranges::one(0, u128::from(u16::MAX));
        // a fragment may have no such header
        let words = [Field::FirstWord, Field::SecondWord];
        let read = |word: &Field| {
            octets
                .iter()
                .any(|it| matches!(it, Octet::Field(field, ..) if field == word))
        };
        let needs = words
            .into_iter()
            .filter(read)
            .map(|word| (word, there.clone()))
            .collect();
        self.need(Needs::Values(needs))
    }

    /// NFT_META_*
    fn meta(&mut self, key: u32, to: usize) -> bool {
        let protocol: u16 = if self.context.v6 { 0x86dd } else { 0x0800 };
        let known = |octets: &[u8]| octets.iter().map(|&octet| Octet::Known(octet)).collect();
        let input = self.context.hook != Hook::Postrouting;
        let octets: Vec<Octet> = match key {
            1 => known(&protocol.to_be_bytes()),
            3 => known(&[0; 4]), // no mark: what sets one is Linux's
            4 if input => (0..4).map(|at| Octet::Index(Field::Input, at)).collect(),
            5 | 7 if self.context.hook == Hook::Prerouting => return false, // there is no output yet
            5 => (0..4).map(|at| Octet::Index(Field::Output, at)).collect(),
            6 if input => (0..16).map(|at| Octet::Name(Field::Input, at)).collect(),
            7 => (0..16).map(|at| Octet::Name(Field::Output, at)).collect(),
            15 => known(&[if self.context.v6 { 10 } else { 2 }]),
            16 => vec![Octet::Field(Field::Protocol, 0, 0xff)],
            19 => known(&[0]), // PACKET_HOST
            _ => vec![Octet::Unknown; 16],
        };
        self.registers.store(to, &octets);
        true
    }

    /// NFT_CT_*; conntrack has not seen packets that come here.
    fn ct(&mut self, key: u32, to: usize) -> bool {
        const UNTRACKED: u32 = 1 << 6;
        match key {
            _ if !self.context.behind_conntrack => {
                self.registers.store(to, &[Octet::Unknown; 16]);
                true
            }
            0 => {
                self.registers
                    .store(to, &UNTRACKED.to_ne_bytes().map(Octet::Known));
                true
            }
            _ => false, // there is no connection
        }
    }

    /// It does nothing where conntrack has seen the packet already.
    fn notrack(&mut self) -> bool {
        if self.context.behind_conntrack {
            return true;
        }
        if self.uncertain {
            return self.leave();
        }
        for conditions in self.ways.clone() {
            let what = What::Notrack;
            self.parts.push(Part {
                conditions,
                what,
                counts: false,
            });
        }
        true
    }

    fn lookup(&mut self, name: &str, from: usize, to: Option<Destination>, inverted: bool) -> bool {
        let set = self.table.sets.get(name).filter(|set| !set.dynamic);
        let parts = set.and_then(|set| self.registers.parts(from, set.key_len));
        let Some((set, parts)) = set.zip(parts) else {
            return match to {
                Some(Destination::Verdict) => self.leave(),
                Some(Destination::Register(to)) => {
                    self.registers.store(to, &[Octet::Unknown; 16]);
                    self.need(Needs::Unknown)
                }
                None => self.need(Needs::Unknown),
            };
        };
        match to {
            Some(Destination::Verdict) => self.verdicts(set, &parts),
            Some(Destination::Register(to)) => {
                self.registers.store(to, &[Octet::Unknown; 16]);
                self.need(Needs::Unknown)
            }
            None => match &parts[..] {
                [part] => {
                    let needs = self.within(set, *part, |_| true);
                    let needs = if inverted {
                        self.registers.inverted(needs)
                    } else {
                        needs
                    };
                    self.need(needs)
                }
                _ if inverted => self.need(Needs::Unknown),
                parts => self.one_of(set, parts),
            },
        }
    }

    /// What is needed for a value to be a key of these elements of a set.
    fn within(
        &self,
        set: &Set,
        (at, len): (usize, usize),
        wanted: impl Fn(Option<&Verdict>) -> bool,
    ) -> Needs {
        let all = set.elements.iter().flatten();
        let catches_all = all.clone().any(|it| it.key.is_none());
        if catches_all || set.elements.is_none() {
            return Needs::Unknown;
        }
        let ranges = ranges(set);
        let wanted = ranges
            .iter()
            .filter(|(.., element)| wanted(element.verdict.as_ref()));
        let wanted: Vec<_> = wanted.map(|(low, high, _)| (*low, &high[..])).collect();
        if wanted
            .iter()
            .any(|(low, high)| low.len() != len || high.len() != len)
        {
            return Needs::Unknown;
        }
        self.registers.within(at, len, &wanted)
    }

    /// Each element of a set of several values is a way of its own.
    fn one_of(&mut self, set: &Set, parts: &[(usize, usize)]) -> bool {
        match self.ways_of(set, parts) {
            Some(ways) if self.counted.is_none() => {
                self.ways = ways.into_iter().map(|(conditions, _)| conditions).collect();
                true
            }
            _ => self.need(Needs::Unknown),
        }
    }

    /// Conditions of each element beside those of each way, and its verdict; `None` if they are not known or too many.
    fn ways_of(
        &self,
        set: &Set,
        parts: &[(usize, usize)],
    ) -> Option<Vec<(Conditions, Option<Verdict>)>> {
        let elements = set.elements.as_ref()?;
        if elements.len().saturating_mul(self.ways.len()) > super::MOST_ENTRIES {
            return None;
        }
        let mut found = Vec::new();
        for element in elements {
            let low = element.key.as_deref()?;
            let high = element.last.as_deref().unwrap_or(low);
            let mut values = Vec::new();
            let mut at = 0;
            for &(from, len) in parts {
                let part = (low.get(at..at + len)?, high.get(at..at + len)?);
                match self.registers.within(from, len, &[part]) {
                    Needs::Values(more) => values.extend(more),
                    Needs::Never => values.push((Field::Protocol, Ranges::default())),
                    Needs::Unknown => return None,
                }
                at += len;
            }
            for way in &self.ways {
                let mut conditions = way.clone();
                for (field, ranges) in &values {
                    conditions.add(*field, ranges);
                }
                if !conditions.are_impossible() {
                    found.push((conditions, element.verdict.clone()));
                }
            }
        }
        Some(found)
    }

    /// A map of verdicts.
    fn verdicts(&mut self, set: &Set, parts: &[(usize, usize)]) -> bool {
        if self.counted.is_some() || self.uncertain {
            self.ways = self
                .counted
                .take()
                .unwrap_or(std::mem::take(&mut self.ways));
            return self.leave();
        }
        let ways = match parts {
            [part] => self.by_verdict(set, *part),
            parts => self.ways_of(set, parts),
        };
        let Some(ways) = ways else {
            return self.leave();
        };
        for (conditions, verdict) in ways {
            match verdict {
                Some(Verdict::Continue) => {}
                Some(verdict) => self.part(conditions, What::Verdict(verdict)),
                None => self.part(conditions, What::Linux),
            }
        }
        false
    }

    /// The ways to each verdict of a map whose keys are single values.
    fn by_verdict(
        &self,
        set: &Set,
        part: (usize, usize),
    ) -> Option<Vec<(Conditions, Option<Verdict>)>> {
        let mut found = Vec::new();
        for verdict in &set.possible {
            match self.within(set, part, |it| it == Some(verdict)) {
                Needs::Values(values) => {
                    for way in &self.ways {
                        let mut conditions = way.clone();
                        for (field, ranges) in &values {
                            conditions.add(*field, ranges);
                        }
                        found.push((conditions, Some(verdict.clone())));
                    }
                }
                Needs::Never => {}
                Needs::Unknown => return None,
            }
        }
        Some(found)
    }
}

/// First and last keys of a set's elements, whose keys are single values, and the elements.
fn ranges(set: &Set) -> Vec<(&[u8], Vec<u8>, &Element)> {
    let elements = set.elements.iter().flatten();
    let tells_last = elements.clone().any(|it| it.last.is_some());
    let keys = elements.clone().filter_map(|it| it.key.as_deref());
    let mut borders: Vec<&[u8]> = Vec::new();
    if set.interval && !tells_last {
        borders.extend(set.ends.iter().map(Vec::as_slice).chain(keys));
        borders.sort_unstable();
    }
    let last = |element: &Element, key: &[u8]| match &element.last {
        Some(last) => last.clone(),
        None if !set.interval || tells_last => key.to_vec(),
        None => {
            let behind = borders.partition_point(|&border| border <= key);
            borders
                .get(behind)
                .map_or(vec![0xff; key.len()], |border| before(border))
        }
    };
    let all = elements.filter_map(|it| it.key.as_deref().map(|key| (key, last(it, key), it)));
    all.collect()
}

/// The number before one, as octets.
fn before(octets: &[u8]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    for octet in octets.iter_mut().rev() {
        *octet = octet.wrapping_sub(1);
        if *octet != 0xff {
            break;
        }
    }
    octets
}

/// An octet of a packet's headers.
fn octet(v6: bool, base: PayloadBase, at: u32) -> Octet {
    let field = |field, first| Octet::Field(field, (at - first) as usize, 0xff);
    match (base, v6, at) {
        (PayloadBase::Network, false, 9) | (PayloadBase::Network, true, 6) => {
            Octet::Field(Field::Protocol, 0, 0xff)
        }
        (PayloadBase::Network, false, 12..=15) => field(Field::Source, 12),
        (PayloadBase::Network, false, 16..=19) => field(Field::Destination, 16),
        (PayloadBase::Network, true, 8..=23) => field(Field::Source, 8),
        (PayloadBase::Network, true, 24..=39) => field(Field::Destination, 24),
        (PayloadBase::Transport, _, 0..=1) => field(Field::FirstWord, 0),
        (PayloadBase::Transport, _, 2..=3) => field(Field::SecondWord, 2),
        _ => Octet::Unknown,
    }
}
