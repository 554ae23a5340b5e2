//! Builds trees.

use std::collections::HashMap;

use super::entry::{Entry, Wanted};
use super::key::{DESTINATION, HEADER, PORTS, SOURCE, WORDS};
use super::tree::{Cut, LANES, Node, Tree};

/// A node with at most this many rules is a leaf.
const LEAF: usize = LANES;
/// A cut must leave less than this part of the rules in an average child.
const PROGRESS: f64 = 0.8;
/// The leaves hold at most this many copies of a rule on average; a tree that would need more has longer
/// leaves.
const COPIES: usize = 12;
/// Most bits that a cut looks at.
const WIDEST: u8 = 16;
/// A cut that looks at more than four bits has at most this many children for each rule.
const CHILDREN: usize = 4;

/// Rules in a sample, which shows what cut is best where there are more.
const SAMPLE: usize = 4096;

/// What a look-up takes, in fifths of a nanosecond (`make bench-acl`): for each tree, each node on the way, each block of a leaf, each
/// condition of its rules.
const TREE: f64 = 6.0;
const NODE: f64 = 3.0;
const BLOCK: f64 = 6.0;
const CONDITION: f64 = 6.0;
/// No look-up takes less: one tree, whose root is a leaf of one condition.
pub(super) const LEAST: f64 = TREE + BLOCK + CONDITION;

/// Ways to share the groups of rules among trees, as a bit for each [`group`]: fewer trees copy more rules.
const WAYS: [&[u8]; 4] = [
    &[0b1111],
    &[0b0101, 0b1010],
    &[0b0011, 0b1100],
    &[0b0001, 0b0010, 0b0100, 0b1000],
];

/// Trees that have all rules together, in the way that look-ups take the shortest, and how long they take.
pub(super) fn trees(entries: &[Entry]) -> (Vec<Tree>, f64) {
    let there = entries.iter().fold(0, |all, entry| all | 1 << group(entry));
    let parts = |way: &'static [u8]| way.iter().map(move |part| part & there);
    let mut built: HashMap<u8, (Tree, f64)> = HashMap::new();
    let mut best: Option<(f64, &[u8])> = None;
    for way in WAYS {
        let mut cost = 0.0;
        for part in parts(way).filter(|part| *part != 0) {
            let (_, one) = built.entry(part).or_insert_with(|| {
                let in_part = |entry: &&Entry| part >> group(entry) & 1 != 0;
                let rules: Vec<&Entry> = entries.iter().filter(in_part).collect();
                Builder::build(&rules)
            });
            cost += *one;
        }
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, way));
        }
    }
    let (cost, way) = best.unwrap_or((0.0, WAYS[0]));
    let trees = parts(way).filter_map(|part| built.remove(&part));
    (trees.map(|(tree, _)| tree).collect(), cost)
}

/// Which tree a rule goes to: one for each choice of addresses that it looks at.
fn group(entry: &Entry) -> usize {
    let is_narrow = |first: usize, end: usize| {
        let words = entry.words[first..end].iter();
        usize::from(words.map(|word| word.mask.count_ones()).sum::<u32>() >= 8)
    };
    is_narrow(SOURCE, DESTINATION) << 1 | is_narrow(DESTINATION, HEADER)
}

struct Builder {
    tree: Tree,
    /// Rules that the leaves may still hold.
    room: usize,
    /// What look-ups of all rules in all leaves take, and how many these are.
    cost: f64,
    copies: f64,
}

/// The bits of each word that were cut by on the way.
type Done = [u32; WORDS];

impl Builder {
    fn build(entries: &[&Entry]) -> (Tree, f64) {
        let mut builder = Self {
            tree: Tree::new(entries),
            room: COPIES * entries.len(),
            cost: 0.0,
            copies: 0.0,
        };
        builder.tree.nodes[0] = builder.node(entries, &[0; WORDS], 0.0);
        builder.tree.nodes.shrink_to_fit();
        (builder.tree, TREE + builder.cost / builder.copies)
    }

    fn node(&mut self, entries: &[&Entry], done: &Done, depth: f64) -> Node {
        let goes_on = entries.len() > LEAF && self.room > 0;
        let Some(cut) = goes_on.then(|| best_cut(entries, done)).flatten() else {
            self.room = self.room.saturating_sub(entries.len());
            let (rules, blocks) = (entries.len() as f64, entries.len().div_ceil(LANES) as f64);
            let block = BLOCK + CONDITION * self.tree.conditions() as f64;
            self.cost += rules * (NODE * depth + block * blocks);
            self.copies += rules;
            return self.tree.leaf(entries);
        };
        let mut done = *done;
        done[usize::from(cut.word)] |= cut.bits();
        let mut children = vec![Vec::new(); cut.children()];
        for entry in entries {
            each(entry.wanted(cut.word.into()), cut, |first, last| {
                let some = &mut children[first as usize..=last as usize];
                some.iter_mut().for_each(|child| child.push(*entry));
            });
        }
        let first = self.tree.nodes.len();
        self.tree.nodes.resize(first + children.len(), Node::EMPTY);
        // equal children are one
        let mut known: HashMap<Vec<u32>, Node> = HashMap::new();
        for (child, entries) in children.iter().enumerate() {
            if entries.is_empty() {
                continue;
            }
            let numbers: Vec<u32> = entries.iter().map(|entry| entry.number).collect();
            let node = match known.get(&numbers) {
                Some(&node) => node,
                None => {
                    let node = self.node(entries, &done, depth + 1.0);
                    known.insert(numbers, node);
                    node
                }
            };
            self.tree.nodes[first + child] = node;
        }
        Node::cut(first, cut)
    }
}

/// Calls `put` with the first and last of children that have a wanted value, until there are no more.
fn each(wanted: Wanted, cut: Cut, mut put: impl FnMut(u32, u32)) {
    let all = cut.children() as u32 - 1;
    match wanted {
        Wanted::Bits(bits) => {
            let value = bits.value >> cut.shift & all;
            let free = !(bits.mask >> cut.shift) & all;
            if free & (free + 1) == 0 {
                return put(value, value | free);
            }
            let mut one = 0;
            loop {
                put(value | one, value | one);
                one = one.wrapping_sub(free) & free;
                if one == 0 {
                    break;
                }
            }
        }
        Wanted::Range(first, span) => {
            let last = first.saturating_add(span);
            // which values the low bits have depends on the high ones
            match first >> cut.shift >> cut.width == last >> cut.shift >> cut.width {
                true => put(first >> cut.shift & all, last >> cut.shift & all),
                false => put(0, all),
            }
        }
    }
}

/// The cut that leaves the fewest rules in the child of an average rule, for the least copies.
fn best_cut(entries: &[&Entry], done: &Done) -> Option<Cut> {
    let mut best: Option<(f64, Cut)> = None;
    let step = entries.len().div_ceil(SAMPLE);
    for word in 0..WORDS {
        let sample = entries.iter().step_by(step);
        let wanted: Vec<Wanted> = sample.map(|entry| entry.wanted(word)).collect();
        let narrow = wanted.iter().filter(|wanted| !wanted.is_any()).count();
        if narrow * 4 < wanted.len() {
            continue; // nearly all of them would be in every child
        }
        let bits = wanted.iter().fold(0, |all, wanted| match wanted {
            Wanted::Bits(bits) => all | bits.mask,
            Wanted::Range(..) => 0xffff,
        });
        let used = if word < PORTS { 32 } else { 16 };
        for width in (4..=WIDEST).step_by(4) {
            if width > 4 && 1 << width > CHILDREN * entries.len() {
                break;
            }
            for shift in (0..=used - width).step_by(4) {
                let word = word as u8;
                let cut = Cut { word, shift, width };
                if cut.bits() & bits & !done[usize::from(word)] == 0 {
                    continue;
                }
                let Some(score) = score(&wanted, entries.len(), cut) else {
                    continue;
                };
                if best.is_none_or(|(least, _)| score < least) {
                    best = Some((score, cut));
                }
            }
        }
    }
    best.map(|(_, cut)| cut)
}

/// Cost of a cut, estimated from a sample of rules; `None` if it is of no use.
fn score(wanted: &[Wanted], rules: usize, cut: Cut) -> Option<f64> {
    // how many more each child has than the one before
    let mut steps = vec![0i32; cut.children() + 1];
    for &wanted in wanted {
        each(wanted, cut, |first, last| {
            steps[first as usize] += 1;
            steps[last as usize + 1] -= 1;
        });
    }
    let (mut size, mut total, mut squares) = (0, 0.0, 0.0);
    for step in &steps[..cut.children()] {
        size += step;
        let size = f64::from(size);
        total += size;
        squares += size * size;
    }
    let (all, sample) = (rules as f64, wanted.len() as f64);
    let left = 1.0 + (squares / total - 1.0) * (all - 1.0) / (sample - 1.0);
    // a child costs memory, too
    let copies = total / sample + cut.children() as f64 / all / 8.0;
    (left < PROGRESS * all).then(|| left / all * copies.sqrt())
}
