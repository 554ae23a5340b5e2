//! A program of rules as the pages that `router/xdp/bpf/rules.h` reads.

use std::collections::{BTreeMap, HashMap};

use bora_contract::{
    RULE_BASE_ACCEPTS, RULE_BASE_ROUTED, RULE_BASE_UNTRACKED, RULE_BASES, RULE_FIELDS, RULE_PAGES,
    RuleAction,
};
use bora_ruleset::{Action, DEPTH, Field, MOST_BASES, MOST_ENTRIES, MOST_STEPS, Program, Start};

/// Octets of a page.
pub(super) const PAGE: usize = 4096;
/// A word that stands for no row (`RULE_NONE`).
const NO_ROW: u32 = u32::MAX;
/// Numbers of a node; IPv6 addresses are longer.
const KEYS: usize = 16;
const KEYS6: usize = 4;
/// The bit of an entry whose rule counts (`RULE_COUNTS`).
const COUNTS: u32 = 0x100;
/// Octets to which all arrays are aligned: those of a node.
const LINE: usize = 64;

// the reference follows packets as far as the program does
const _: () = assert!(
    MOST_ENTRIES == bora_contract::RULES
        && MOST_BASES == RULE_BASES
        && MOST_STEPS == bora_contract::RULE_STEPS
        && DEPTH == bora_contract::RULE_DEPTH
);

/// The tree of a field (`struct bora_rule_field`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) nodes: u32,
    pub(super) keys: u32,
    pub(super) rows: u32,
}

/// A program's place in the pages (`struct bora_rules`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) base_count: u32,
    pub(super) actions: u32,
    pub(super) bases: [u32; RULE_BASES],
    /// The last one is unused.
    pub(super) fields: [Tree; RULE_FIELDS + 1],
}

/// Programs of rules as the XDP program reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulePages {
    /// Whole pages.
    pub(super) octets: Vec<u8>,
    /// IPv4 and IPv6.
    pub(super) heads: [Head; 2],
}

/// Programs that take more than [`RULE_PAGES`] pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules and the elements of their sets take {} MiB, more than {}", .0.div_ceil(1 << 20), (RULE_PAGES as usize * PAGE) >> 20)]
pub struct TooLarge(usize);

impl RulePages {
    /// Lays out the programs of IPv4 and of IPv6; those without base chains are not followed.
    ///
    /// # Errors
    /// They are too large.
    pub fn new(programs: [&Program; 2]) -> Result<Self, TooLarge> {
        let mut pages = Self::default();
        for (v6, program) in programs.into_iter().enumerate() {
            if !program.starts.is_empty() {
                pages.heads[v6] = pages.program(program, v6 == 1)?;
            }
        }
        pages
            .octets
            .resize(pages.octets.len().next_multiple_of(PAGE), 0);
        Ok(pages)
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        self.octets.len()
    }

    fn program(&mut self, program: &Program, v6: bool) -> Result<Head, TooLarge> {
        let mut head = Head {
            base_count: program.starts.len() as u32,
            ..Head::default()
        };
        for (base, start) in head.bases.iter_mut().zip(&program.starts) {
            *base = start.entry as u32 | u32::from(flags(start)) << 16;
        }
        let actions: Vec<u32> = program
            .entries
            .iter()
            .map(|entry| action(entry.action) | if entry.counts { COUNTS } else { 0 })
            .collect();
        head.actions = self.words(&actions)?;
        for field in Field::ALL {
            let looked_at = program
                .entries
                .iter()
                .any(|it| it.conditions.of(field).is_some());
            if looked_at {
                head.fields[field as usize] = self.tree(program, field, v6)?;
            }
        }
        Ok(head)
    }

    /// Makes room for octets of an array; returns where it begins.
    fn room(&mut self, octets: usize) -> Result<usize, TooLarge> {
        let at = self.octets.len().next_multiple_of(LINE);
        match at + octets {
            end if end > RULE_PAGES as usize * PAGE => Err(TooLarge(end)),
            end => {
                self.octets.resize(end, 0);
                Ok(at)
            }
        }
    }

    /// Adds an array of words; returns the number of the first one.
    fn words(&mut self, words: &[u32]) -> Result<u32, TooLarge> {
        let at = self.room(4 * words.len())?;
        for (to, word) in self.octets[at..].chunks_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ok((at / 4) as u32)
    }

    /// Adds an array of 64-bit words; returns the number of the first one.
    fn wide_words(&mut self, words: &[u64]) -> Result<u32, TooLarge> {
        let at = self.room(8 * words.len())?;
        for (to, word) in self.octets[at..].chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ok((at / 8) as u32)
    }

    fn tree(&mut self, program: &Program, field: Field, v6: bool) -> Result<Tree, TooLarge> {
        let wide = v6 && matches!(field, Field::Source | Field::Destination);
        let most = if wide { u128::MAX } else { u32::MAX.into() };
        let mut rows = Vec::new();
        let mut known: HashMap<Vec<u64>, u32> = HashMap::new();
        for (number, bits) in intervals(program, field, most) {
            let row = match known.get(&bits) {
                Some(&row) => row,
                None => {
                    let row = self.wide_words(&row(&bits))?;
                    known.insert(bits, row);
                    row
                }
            };
            if rows.last().is_none_or(|&(_, last)| last != row) {
                rows.push((number, row));
            }
        }
        let keys = if wide { KEYS6 } else { KEYS };
        let nodes = rows.len().div_ceil(keys);
        let mut sorted = rows.iter().copied().fuse();
        let mut placed = vec![(most, rows.last().map_or(NO_ROW, |&(_, row)| row)); nodes * keys];
        place(0, nodes, keys, &mut sorted, &mut placed);
        let numbers = placed.iter().map(|&(number, _)| number);
        let at = if wide {
            let halves = numbers.flat_map(|number| [(number >> 64) as u64, number as u64]);
            2 * self.wide_words(&halves.collect::<Vec<_>>())?
        } else {
            self.words(&numbers.map(|number| number as u32).collect::<Vec<_>>())?
        };
        let rows: Vec<u32> = placed.iter().map(|&(_, row)| row).collect();
        Ok(Tree {
            nodes: nodes as u32,
            keys: at,
            rows: self.words(&rows)?,
        })
    }
}

/// Puts numbers in ascending order into a tree whose nodes are numbered by levels.
fn place(
    node: usize,
    nodes: usize,
    keys: usize,
    sorted: &mut impl Iterator<Item = (u128, u32)>,
    placed: &mut [(u128, u32)],
) {
    if node >= nodes {
        return;
    }
    for key in 0..=keys {
        place(node * (keys + 1) + 1 + key, nodes, keys, sorted, placed);
        if key < keys
            && let Some(next) = sorted.next()
        {
            placed[node * keys + key] = next;
        }
    }
}

/// Where values of a field begin that meet the conditions of other entries, and the bits of these; the first begin at 0.
fn intervals(
    program: &Program,
    field: Field,
    most: u128,
) -> impl Iterator<Item = (u128, Vec<u64>)> {
    let mut bits = vec![0u64; program.entries.len().div_ceil(64)];
    let mut changes: BTreeMap<u128, Vec<usize>> = BTreeMap::from([(0, Vec::new())]);
    for (number, entry) in program.entries.iter().enumerate() {
        let Some(ranges) = entry.conditions.of(field) else {
            bits[number / 64] |= 1 << (number % 64);
            continue;
        };
        for (low, high) in ranges.iter() {
            changes.entry(low).or_default().push(number);
            if high < most {
                changes.entry(high + 1).or_default().push(number);
            }
        }
    }
    // one at a time: a row may have 512 octets, and there may be 200 000
    changes.into_iter().map(move |(at, entries)| {
        for number in entries {
            bits[number / 64] ^= 1 << (number % 64);
        }
        (at, bits.clone())
    })
}

/// A row: which of its words are not zero, and these words.
fn row(bits: &[u64]) -> Vec<u64> {
    let used = bits.iter().enumerate().filter(|(_, word)| **word != 0);
    let summary = used.fold(0, |summary, (at, _)| summary | 1 << at);
    [&[summary], bits].concat()
}

fn action(action: Action) -> u32 {
    let (action, to) = match action {
        Action::Continue => (RuleAction::Continue, 0),
        Action::Notrack => (RuleAction::Notrack, 0),
        Action::Accept => (RuleAction::Accept, 0),
        Action::Drop => (RuleAction::Drop, 0),
        Action::Linux => (RuleAction::Linux, 0),
        Action::Jump(to) => (RuleAction::Jump, to),
        Action::Goto(to) => (RuleAction::Goto, to),
        Action::Return => (RuleAction::Return, 0),
    };
    action as u32 | (to as u32) << 16
}

fn flags(start: &Start) -> u8 {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    flag(start.untracked, RULE_BASE_UNTRACKED)
        | flag(start.accepts, RULE_BASE_ACCEPTS)
        | flag(start.routed, RULE_BASE_ROUTED)
}
