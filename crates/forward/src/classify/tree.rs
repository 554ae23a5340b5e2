//! Many rules: trees that cut the header space until few rules are left, which are compared at once.
//!
//! A node cuts by one octet of the key, or by half of one (HiCuts, Gupta and McKeown, Hot Interconnects 1999, with cuts at
//! octets instead of equal intervals). A rule that does not look at this octet is in every child, so rules go to
//! different trees by the addresses that they look at (EffiCuts, Vamanan et al., SIGCOMM 2010): in each tree the cuts
//! copy few rules. A leaf holds its rules in blocks of [`LANES`], side by side as vector instructions want them.
//! All packets of a group go down a tree together, so that their loads do not wait for each other.

use std::collections::HashMap;

use super::key::{GROUP, IN_PORT, KEY, Key, Keys, NO_RULE, PCP, PORTS, SOURCE, WITH_PORTS_AT};
use super::rule::{Addresses, Rule};
use super::table::octet;
use crate::Family;
use crate::simd::{Loop, Simd};

/// Rules that are compared at once.
const LANES: usize = 8;
/// A node with at most so many rules is a leaf.
const LEAF: usize = 8;
/// Octets of the key that rules can look at.
const USED: usize = 44;
const WORDS: usize = USED / 4;
/// Every source and destination port.
const ANY_PORTS: [(u16, u16); 2] = [(0, u16::MAX); 2];
/// A cut must leave less than this part of the rules in an average child.
const PROGRESS: f64 = 0.8;
/// The leaves hold at most so many copies of a rule on average; a tree that would need more has longer leaves.
const COPIES: usize = 12;

/// The compiled rules of one IP version.
#[derive(Debug)]
pub(super) struct Trees {
    /// One for each [`group`] that has rules.
    trees: Vec<Tree>,
    simd: Simd,
}

#[derive(Debug)]
struct Tree {
    /// The first one is the root.
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    /// Blocks of rules; the first one has none.
    cells: Vec<u32>,
    form: Form,
}

/// The rules of a leaf.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Its first block, and how many there are.
    block: u32,
    blocks: u32,
}

/// What a block of rules holds: their numbers; if they look at ports, the first source ports and how many follow, and the
/// same of destination ports; and for each word the values and the masks.
#[derive(Clone, Debug)]
struct Form {
    /// The words of the key that rules look at.
    words: Vec<u8>,
    ports: bool,
}

/// Where to go on: a cut, or a leaf. A leaf leads to itself, so that going down needs no branch, which could not be predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node(u64);

impl Node {
    const LEAF: u64 = 1 << 63;
    const MAX_LEAVES: usize = 1 << 19;

    /// The leaf `number`, at this place of the nodes.
    fn leaf(place: usize, number: usize) -> Self {
        Self(Self::LEAF | (number as u64) << 44 | place as u64)
    }

    fn cut(children: usize, cut: Cut) -> Self {
        let Cut { octet, shift, mask } = cut;
        let bits = u64::from(octet) << 37 | u64::from(shift / 4) << 36 | u64::from(mask) << 28;
        Self(bits | children as u64)
    }

    #[inline(always)]
    fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }

    /// Of a leaf.
    #[inline(always)]
    fn number(self) -> usize {
        (self.0 >> 44) as usize % Self::MAX_LEAVES
    }

    /// Which node a key goes to.
    #[inline(always)]
    fn child(self, octets: &[u8; KEY]) -> usize {
        let octet = octets[(self.0 >> 37) as usize % KEY];
        let child = octet >> (self.0 >> 34 & 4) & (self.0 >> 28) as u8;
        (self.0 & 0x0fff_ffff) as usize + usize::from(child)
    }
}

/// The bits of an octet that a node looks at.
#[derive(Clone, Copy, Debug)]
struct Cut {
    octet: u8,
    shift: u8,
    mask: u8,
}

impl Cut {
    fn children(self) -> usize {
        usize::from(self.mask) + 1
    }

    /// Both halves of each octet, as bits.
    fn halves(self) -> u128 {
        let halves = u128::from((self.mask << self.shift) & 0x11);
        (halves & 1 | halves >> 3) << (2 * self.octet)
    }
}

/// What a rule wants of a key.
#[derive(Clone, Debug)]
struct Entry {
    number: u32,
    value: [u8; USED],
    mask: [u8; USED],
    /// Source and destination port: the first, and how many follow.
    ports: [(u16, u16); 2],
}

impl Entry {
    fn new(number: usize, rule: &Rule) -> Self {
        let (mut value, mut mask) = ([0; USED], [0; USED]);
        for position in SOURCE..=PCP {
            let wanted = octet(rule, position);
            (value[position], mask[position]) = (wanted.value & wanted.mask, wanted.mask);
        }
        let ranges = [&rule.source_ports, &rule.destination_ports];
        if ranges.iter().any(|range| range.is_some()) {
            (value[WITH_PORTS_AT], mask[WITH_PORTS_AT]) = (1, 1);
        }
        if let Some(port) = rule.in_port {
            value[IN_PORT..IN_PORT + 2].copy_from_slice(&port.0.to_be_bytes());
            mask[IN_PORT..IN_PORT + 2].fill(0xff);
        }
        Self {
            number: number as u32,
            value,
            mask,
            ports: ranges.map(|range| {
                range.as_ref().map_or((0, u16::MAX), |range| {
                    (*range.start(), range.end() - range.start())
                })
            }),
        }
    }

    /// The values of an octet that it allows: a value and the bits that count, or an interval.
    fn allows(&self, position: usize) -> Allowed {
        let Some(at) = position.checked_sub(PORTS).filter(|at| *at < 4) else {
            return Allowed::Ternary(self.value[position], self.mask[position]);
        };
        let (first, span) = self.ports[at / 2];
        let [[high, low], [last_high, last_low]] = [first, first + span].map(u16::to_be_bytes);
        match at % 2 {
            0 => Allowed::Interval(high, last_high),
            _ if high == last_high => Allowed::Interval(low, last_low),
            _ => Allowed::Interval(0, 255),
        }
    }
}

/// Some of the 256 values of an octet.
#[derive(Clone, Copy, Debug)]
enum Allowed {
    Ternary(u8, u8),
    Interval(u8, u8),
}

impl Allowed {
    /// Whether a child of the cut has one of the values.
    fn has(self, cut: Cut, child: usize) -> bool {
        let child = child as u8;
        match self {
            Self::Ternary(value, mask) => {
                (value >> cut.shift ^ child) & mask >> cut.shift & cut.mask == 0
            }
            // the low half of an octet: which values it has depends on the high half
            Self::Interval(first, last) if cut.mask == 15 && cut.shift == 0 => {
                first >> 4 != last >> 4 || (first & 15..=last & 15).contains(&child)
            }
            Self::Interval(first, last) => {
                (first >> cut.shift..=last >> cut.shift).contains(&child)
            }
        }
    }

    fn is_any(self) -> bool {
        matches!(self, Self::Ternary(_, 0) | Self::Interval(0, 255))
    }

    /// The only value, if there is only one.
    fn only(self) -> Option<u8> {
        match self {
            Self::Ternary(value, 0xff) => Some(value),
            Self::Interval(first, last) if first == last => Some(first),
            _ => None,
        }
    }
}

impl Trees {
    pub(super) fn compile(family: Family, rules: &[(usize, &Rule)]) -> Self {
        let entries: Vec<Entry> = rules
            .iter()
            .map(|&(number, rule)| Entry::new(number, rule))
            .collect();
        let mut groups: [Vec<&Entry>; 4] = Default::default();
        for (entry, (_, rule)) in entries.iter().zip(rules) {
            groups[group(family, rule)].push(entry);
        }
        let groups = groups.iter().filter(|group| !group.is_empty());
        Self {
            trees: groups.map(|group| Builder::build(group)).collect(),
            simd: Simd::detect(),
        }
    }

    /// Octets of memory.
    pub(super) fn size(&self) -> usize {
        let trees = self.trees.iter();
        trees
            .map(|tree| {
                size_of_val(&tree.nodes[..])
                    + size_of_val(&tree.leaves[..])
                    + size_of_val(&tree.cells[..])
            })
            .sum()
    }

    /// The first rule of each wanted key in its place of `found`, or [`NO_RULE`].
    #[inline]
    pub(super) fn find(&self, keys: &Keys, found: &mut [u32; GROUP]) {
        self.simd.run(Find {
            trees: self,
            keys,
            found,
        });
    }
}

/// Which tree a rule goes to: one for each choice of addresses that it looks at.
fn group(family: Family, rule: &Rule) -> usize {
    let enough = match family {
        Family::V4 => 8,
        Family::V6 => 16,
    };
    let is_narrow = |bits: u32| usize::from(bits >= enough);
    match rule.addresses {
        Addresses::Any => 0,
        Addresses::V4 {
            source,
            destination,
        } => is_narrow(source.mask.count_ones()) << 1 | is_narrow(destination.mask.count_ones()),
        Addresses::V6 {
            source,
            destination,
        } => is_narrow(source.mask.count_ones()) << 1 | is_narrow(destination.mask.count_ones()),
    }
}

/// Four octets of a key.
fn word_of(octets: &[u8; USED], word: u8) -> u32 {
    let (words, _) = octets.as_chunks::<4>();
    u32::from_be_bytes(words[usize::from(word)])
}

impl Form {
    fn of(entries: &[&Entry]) -> Self {
        let is_wanted = |word: &u8| {
            let octets = usize::from(*word) * 4..usize::from(*word) * 4 + 4;
            let masks = entries.iter().map(|entry| &entry.mask[octets.clone()]);
            masks.into_iter().any(|mask| mask != [0; 4])
        };
        Self {
            words: (0..WORDS as u8).filter(is_wanted).collect(),
            ports: entries.iter().any(|entry| entry.ports != ANY_PORTS),
        }
    }

    /// Lanes before the words.
    #[inline(always)]
    fn fixed(&self) -> usize {
        1 + 4 * usize::from(self.ports)
    }

    /// Cells of a block.
    #[inline(always)]
    fn stride(&self) -> usize {
        LANES * (self.fixed() + 2 * self.words.len())
    }
}

struct Builder {
    tree: Tree,
    /// Rules that the leaves may still hold.
    room: usize,
}

impl Builder {
    fn build(entries: &[&Entry]) -> Tree {
        let form = Form::of(entries);
        let mut builder = Self {
            tree: Tree {
                nodes: vec![Node(0)],
                leaves: Vec::new(),
                cells: vec![NO_RULE; form.stride()],
                form,
            },
            room: COPIES * entries.len(),
        };
        builder.node(0, entries, 0);
        builder.tree
    }

    /// Makes the node at a place. `done` has a bit for each half of an octet that was cut by on the way.
    fn node(&mut self, place: usize, entries: &[&Entry], done: u128) {
        let goes_on =
            entries.len() > LEAF && self.room > 0 && self.tree.leaves.len() < Node::MAX_LEAVES / 2;
        let Some(cut) = goes_on.then(|| best_cut(entries, done)).flatten() else {
            return self.leaf(place, entries);
        };
        let mut children = vec![Vec::new(); cut.children()];
        for entry in entries {
            let allowed = entry.allows(cut.octet.into());
            match allowed.only() {
                Some(value) => children[usize::from(value >> cut.shift & cut.mask)].push(*entry),
                None => {
                    let places = children.iter_mut().enumerate();
                    let places = places.filter(|(child, _)| allowed.has(cut, *child));
                    places.for_each(|(_, child)| child.push(*entry));
                }
            }
        }
        let first = self.tree.nodes.len();
        self.tree.nodes.resize(first + children.len(), Node(0));
        // equal children are one
        let mut known: HashMap<Vec<u32>, Node> = HashMap::new();
        for (child, entries) in children.iter().enumerate() {
            let numbers: Vec<u32> = entries.iter().map(|entry| entry.number).collect();
            match known.get(&numbers) {
                Some(&node) => self.tree.nodes[first + child] = node,
                None => {
                    self.node(first + child, entries, done | cut.halves());
                    known.insert(numbers, self.tree.nodes[first + child]);
                }
            }
        }
        self.tree.nodes[place] = Node::cut(first, cut);
    }

    fn leaf(&mut self, place: usize, entries: &[&Entry]) {
        self.room = self.room.saturating_sub(entries.len());
        let Tree {
            nodes,
            leaves,
            cells,
            form,
            ..
        } = &mut self.tree;
        nodes[place] = Node::leaf(place, leaves.len());
        let block = match entries.len() {
            0 => 0, // the empty one
            _ => cells.len() / form.stride(),
        };
        leaves.push(Leaf {
            block: block as u32,
            blocks: entries.len().div_ceil(LANES) as u32,
        });
        for block in entries.chunks(LANES) {
            let at = cells.len();
            cells.resize(at + form.stride(), 0);
            let (lanes, _) = cells[at..].as_chunks_mut::<LANES>();
            lanes[0].fill(NO_RULE);
            for (lane, entry) in block.iter().enumerate() {
                let mut rows = lanes.iter_mut();
                let mut put = |value: u32| rows.next().map(|row| row[lane] = value);
                put(entry.number);
                if form.ports {
                    let ports = entry.ports.iter().flat_map(|&(first, span)| [first, span]);
                    ports.for_each(|port| _ = put(port.into()));
                }
                for &word in &form.words {
                    put(word_of(&entry.value, word));
                    put(word_of(&entry.mask, word));
                }
            }
        }
    }
}

/// The cut that leaves the fewest rules in the child of an average rule, for the least copies.
fn best_cut(entries: &[&Entry], done: u128) -> Option<Cut> {
    const HALVES: [(u8, u8); 2] = [(4, 15), (0, 15)];
    let mut best: Option<(f64, Cut)> = None;
    for octet in 0..USED as u8 {
        let allowed: Vec<Allowed> = entries
            .iter()
            .map(|entry| entry.allows(octet.into()))
            .collect();
        let narrow = allowed.iter().filter(|allowed| !allowed.is_any()).count();
        if narrow * 4 < entries.len() {
            continue; // nearly all of them would be in every child
        }
        let wide = (entries.len() >= 64).then_some((0, 0xff));
        for (shift, mask) in HALVES.into_iter().chain(wide) {
            let cut = Cut { octet, shift, mask };
            if cut.halves() & done == cut.halves() {
                continue;
            }
            let mut sizes = vec![0; cut.children()];
            let mut everywhere = 0;
            for allowed in &allowed {
                match allowed.only() {
                    Some(value) => sizes[usize::from(value >> shift & mask)] += 1,
                    None if allowed.is_any() => everywhere += 1,
                    None => {
                        let places = sizes.iter_mut().enumerate();
                        places
                            .filter(|(child, _)| allowed.has(cut, *child))
                            .for_each(|(_, size)| *size += 1);
                    }
                }
            }
            let (mut total, mut squares) = (0.0, 0.0);
            for size in sizes.iter().map(|size| f64::from(size + everywhere)) {
                total += size;
                squares += size * size;
            }
            let all = entries.len() as f64;
            let left = squares / total;
            // a child costs memory, too
            let copies = total / all + cut.children() as f64 / all / 8.0;
            let score = left / all * copies.sqrt();
            if left < PROGRESS * all && best.is_none_or(|(least, _)| score < least) {
                best = Some((score, cut));
            }
        }
    }
    best.map(|(_, cut)| cut)
}

/// The look-up of a group of keys.
struct Find<'a> {
    trees: &'a Trees,
    keys: &'a Keys,
    found: &'a mut [u32; GROUP],
}

impl Loop for Find<'_> {
    #[inline(always)]
    fn run(self) {
        let mut places = [0u8; GROUP];
        let mut count = 0;
        let mut wanted = self.keys.wanted;
        while wanted != 0 {
            places[count % GROUP] = wanted.trailing_zeros() as u8;
            count += 1;
            wanted &= wanted - 1;
        }
        self.found.fill(NO_RULE);
        for tree in &self.trees.trees {
            tree.find(&self.keys.keys, &places[..count], self.found);
        }
    }
}

impl Tree {
    #[inline(always)]
    fn find(&self, keys: &[Key; GROUP], places: &[u8], found: &mut [u32; GROUP]) {
        let mut nodes = [self.nodes[0]; GROUP];
        let mut all_leaves = nodes[0].is_leaf();
        while !all_leaves {
            all_leaves = true;
            for &place in places {
                let place = usize::from(place) % GROUP;
                let node = self.nodes[nodes[place].child(&keys[place].octets)];
                nodes[place] = node;
                all_leaves &= node.is_leaf();
            }
        }
        for &place in places {
            let place = usize::from(place) % GROUP;
            let leaf = self.leaves[nodes[place].number()];
            found[place] = self.in_leaf(leaf, &keys[place], found[place]);
        }
    }

    /// The lower of `best` and the first rule of a leaf that matches.
    #[inline(always)]
    fn in_leaf(&self, leaf: Leaf, key: &Key, best: u32) -> u32 {
        let (first, stride) = (leaf.block as usize, self.form.stride());
        let mut found = best.min(self.in_block(first * stride, key));
        // few leaves have more blocks, so that processors guess this branch; the rest is without any
        for block in 1..leaf.blocks as usize {
            if found < best {
                break; // rules are in order
            }
            found = best.min(self.in_block((first + block) * stride, key));
        }
        found
    }

    /// The first rule of the block at a cell that matches, or [`NO_RULE`].
    #[inline(always)]
    fn in_block(&self, at: usize, key: &Key) -> u32 {
        let block = &self.cells[at..at + self.form.stride()];
        let (lanes, _) = block.as_chunks::<LANES>();
        let Some((fixed, words)) = lanes.split_at_checked(self.form.fixed()) else {
            return NO_RULE;
        };
        let mut wrong = [0; LANES];
        if let [_, source, sources, destination, destinations] = fixed {
            let ports = key.port_numbers();
            wrong = outside(ports[0], source, sources);
            or(&mut wrong, &outside(ports[1], destination, destinations));
        }
        for (pair, &word) in words.as_chunks::<2>().0.iter().zip(&self.form.words) {
            let [values, masks] = pair;
            let key = key.word(word);
            let differs = |lane: usize| (key ^ values[lane]) & masks[lane];
            or(&mut wrong, &std::array::from_fn(differs));
        }
        // unused lanes match everything, and have no number
        let lanes = fixed[0].iter().zip(&wrong);
        lanes
            .map(|(&number, &wrong)| if wrong == 0 { number } else { NO_RULE })
            .fold(NO_RULE, u32::min)
    }
}

/// Not 0 in the lanes whose interval the port is not in.
#[inline(always)]
fn outside(port: u32, first: &[u32; LANES], span: &[u32; LANES]) -> [u32; LANES] {
    std::array::from_fn(|lane| u32::from(port.wrapping_sub(first[lane]) > span[lane]))
}

#[inline(always)]
fn or(all: &mut [u32; LANES], one: &[u32; LANES]) {
    for (all, one) in all.iter_mut().zip(one) {
        *all |= one;
    }
}
