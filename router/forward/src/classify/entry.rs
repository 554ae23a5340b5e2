//! What a rule wants of a key's words.

use super::key::{DESTINATION, HEADER, IN_PORT, PORTS, PROTOCOL, SOURCE, TAGGED, WORDS, words_of};
use super::rule::{Addresses, Rule, Ternary};

/// Every port, and none.
const ANY: (u32, u32) = (0, u32::MAX);

/// A rule as conditions on words.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) number: u32,
    /// The value and the bits that count, of the words before the ports.
    pub(super) words: [Ternary<u32>; PORTS],
    /// Source and destination port: the first, and how many follow.
    pub(super) ports: [(u32, u32); WORDS - PORTS],
}

/// What one word must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// These bits; those of the value that do not count are 0.
    Bits(Ternary<u32>),
    /// From the first number to the sum of both.
    Range(u32, u32),
}

impl Wanted {
    pub(super) fn is_any(self) -> bool {
        match self {
            Self::Bits(bits) => bits.mask == 0,
            Self::Range(first, span) => (first, span) == ANY,
        }
    }
}

impl Entry {
    pub(super) fn new(number: usize, rule: &Rule) -> Self {
        let mut words = [Ternary::default(); PORTS];
        let mut put = |first: usize, values: &[u32], masks: &[u32]| {
            for ((word, &value), &mask) in words[first..].iter_mut().zip(values).zip(masks) {
                let value = value & mask;
                *word = Ternary { value, mask };
            }
        };
        match rule.addresses {
            Addresses::Any => {}
            Addresses::V4 {
                source,
                destination,
            } => {
                put(SOURCE, &[source.value], &[source.mask]);
                put(DESTINATION, &[destination.value], &[destination.mask]);
            }
            Addresses::V6 {
                source: from,
                destination: to,
            } => {
                put(SOURCE, &words_of(from.value), &words_of(from.mask));
                put(DESTINATION, &words_of(to.value), &words_of(to.mask));
            }
        }
        let pcp = rule.pcp.map_or(Ternary::default(), |pcp| Ternary {
            value: pcp.value | TAGGED,
            mask: pcp.mask & 7 | TAGGED,
        });
        let Rule { tos, protocol, .. } = rule;
        let octets = |[tos, protocol, pcp]: [u8; 3]| u32::from_be_bytes([tos, protocol, pcp, 0]);
        let header = octets([tos.value, protocol.value, pcp.value]);
        put(
            HEADER,
            &[header],
            &[octets([tos.mask, protocol.mask, pcp.mask])],
        );
        if let Some(port) = rule.in_port {
            put(IN_PORT, &[port.0.into()], &[u32::MAX]);
        }
        let ports = [&rule.source_ports, &rule.destination_ports];
        Self {
            number: number as u32,
            words,
            ports: ports.map(|range| {
                range.as_ref().map_or(ANY, |range| {
                    let (first, last) = (u32::from(*range.start()), u32::from(*range.end()));
                    (first, last - first)
                })
            }),
        }
    }

    /// Whether it looks at the protocol or at ports.
    pub(super) fn reads_upper_layer(&self) -> bool {
        self.words[HEADER].mask & PROTOCOL != 0 || self.ports.iter().any(|ports| *ports != ANY)
    }

    /// What it wants of one of the [`WORDS`].
    pub(super) fn wanted(&self, word: usize) -> Wanted {
        match word.checked_sub(PORTS) {
            None => Wanted::Bits(self.words[word]),
            Some(port) => Wanted::Range(self.ports[port].0, self.ports[port].1),
        }
    }

    /// The words that it looks at, with what it wants of them.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (usize, Wanted)> {
        let all = (0..WORDS).map(|word| (word, self.wanted(word)));
        all.filter(|(_, wanted)| !wanted.is_any())
    }
}
