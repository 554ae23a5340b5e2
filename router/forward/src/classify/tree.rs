//! Many rules: trees that cut the header space until few rules are left, which are compared at once.
//!
//! A node cuts by some bits of a word of the key (HiCuts, Gupta and McKeown, Hot Interconnects 1999, with cuts at
//! bits instead of equal intervals). A rule that does not look at these bits is in every child, so rules go to
//! different trees by the addresses that they look at (EffiCuts, Vamanan et al., SIGCOMM 2010): in each tree the cuts
//! copy few rules. A leaf holds its rules in blocks of [`LANES`], side by side as vector instructions want them.
//! All packets of a group go down a tree together, so that their loads do not wait for each other.

use super::entry::{Entry, Wanted};
use super::key::{GROUP, Keys, NO_RULE, PLACES, PORTS, WORDS, Words};

/// Rules that are compared at once.
pub(super) const LANES: usize = 4;

/// The compiled rules of one IP version.
#[derive(Debug)]
pub(super) struct Trees {
    trees: Vec<Tree>,
}

#[derive(Debug)]
pub(super) struct Tree {
    /// The first one is the root.
    pub(super) nodes: Vec<Node>,
    /// Blocks of rules; the first one has none.
    cells: Vec<u32>,
    form: Form,
}

/// What a block of rules holds: their numbers; of the ports that rules look at, the first ones and how many follow; and of the other
/// words that they look at, values and masks.
#[derive(Clone, Debug)]
struct Form {
    ports: Vec<u8>,
    words: Vec<u8>,
}

/// A [`Form`] for the compiler.
#[derive(Clone, Copy)]
struct Part<'a> {
    ports: &'a [u8],
    words: &'a [u8],
}

/// More conditions than there are.
const MANY: usize = usize::MAX;

/// Where to go on: a cut, or the blocks of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u64);

/// The bits of a word that a node looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) word: u8,
    pub(super) shift: u8,
    pub(super) width: u8,
}

impl Cut {
    pub(super) fn children(self) -> usize {
        1 << self.width
    }

    /// As a mask of the word.
    pub(super) fn bits(self) -> u32 {
        ((1 << self.width) - 1) << self.shift
    }
}

impl Node {
    const LEAF: u64 = 1 << 63;
    pub(super) const EMPTY: Self = Self(Self::LEAF | 1 << 32);

    /// A leaf with this many blocks, fewer than 2^16.
    fn leaf(first: usize, blocks: usize) -> Self {
        Self(Self::LEAF | (blocks as u64) << 32 | first as u64)
    }

    /// The children, of which there are fewer than 2^28, follow each other.
    pub(super) fn cut(children: usize, cut: Cut) -> Self {
        let Cut { word, shift, .. } = cut;
        let mask = cut.children() as u64 - 1;
        Self(u64::from(word) << 49 | u64::from(shift) << 44 | mask << 28 | children as u64)
    }

    #[inline(always)]
    fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }

    /// Which node a key goes to.
    #[inline(always)]
    fn child(self, words: &[Words; PLACES], place: usize) -> usize {
        let word = words[(self.0 >> 49) as usize % PLACES][place];
        let child = word >> (self.0 >> 44 & 31) & (self.0 >> 28) as u32 & 0xffff;
        (self.0 & 0x0fff_ffff) as usize + child as usize
    }
}

impl Trees {
    pub(super) fn new(trees: Vec<Tree>) -> Self {
        Self { trees }
    }

    /// Octets of memory.
    pub(super) fn size(&self) -> usize {
        let size = |tree: &Tree| size_of_val(&tree.nodes[..]) + size_of_val(&tree.cells[..]);
        self.trees.iter().map(size).sum()
    }

    /// The first rule of each wanted key, or [`NO_RULE`].
    #[inline(always)]
    pub(super) fn find(&self, keys: &Keys, found: &mut Words) {
        *found = [NO_RULE; GROUP];
        for tree in &self.trees {
            let nodes = tree.descend(keys);
            // as many of each as is usual, so that their loops are unrolled
            match (tree.form.ports.len(), tree.form.words.len()) {
                (0, 1) => tree.in_leaves::<0, 1>(keys, &nodes, found),
                (0, 2) => tree.in_leaves::<0, 2>(keys, &nodes, found),
                (1, 2) => tree.in_leaves::<1, 2>(keys, &nodes, found),
                (1, 3) => tree.in_leaves::<1, 3>(keys, &nodes, found),
                (2, 3) => tree.in_leaves::<2, 3>(keys, &nodes, found),
                _ => tree.in_leaves::<MANY, MANY>(keys, &nodes, found),
            }
        }
    }
}

impl Form {
    fn of(entries: &[&Entry]) -> Self {
        let is_wanted = |word: &u8| {
            let mut all = entries.iter();
            all.any(|entry| !entry.wanted((*word).into()).is_any())
        };
        Self {
            ports: (PORTS as u8..WORDS as u8).filter(is_wanted).collect(),
            words: (0..PORTS as u8).filter(is_wanted).collect(),
        }
    }

    /// Cells of a block.
    fn stride(&self) -> usize {
        self.part::<MANY, MANY>().stride()
    }

    /// The part with as many of each as the compiler knows.
    #[inline(always)]
    fn part<const PORTS: usize, const WORDS: usize>(&self) -> Part<'_> {
        Part {
            ports: self.ports.get(..PORTS).unwrap_or(&self.ports),
            words: self.words.get(..WORDS).unwrap_or(&self.words),
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn stride(self) -> usize {
        LANES * (1 + 2 * (self.ports.len() + self.words.len()))
    }
}

impl Tree {
    /// With a root that the caller has to make.
    pub(super) fn new(entries: &[&Entry]) -> Self {
        let form = Form::of(entries);
        Self {
            nodes: vec![Node::EMPTY],
            cells: vec![NO_RULE; form.stride()],
            form,
        }
    }

    /// How many conditions each rule of a leaf has.
    pub(super) fn conditions(&self) -> usize {
        self.form.ports.len() + self.form.words.len()
    }

    /// Makes a leaf of rules in order.
    pub(super) fn leaf(&mut self, entries: &[&Entry]) -> Node {
        if entries.is_empty() {
            return Node::EMPTY;
        }
        let first = self.cells.len() / self.form.stride();
        for block in entries.chunks(LANES) {
            let at = self.cells.len();
            self.cells.resize(at + self.form.stride(), 0);
            let (lanes, _) = self.cells[at..].as_chunks_mut::<LANES>();
            // unused lanes match everything, and have no number
            lanes[0].fill(NO_RULE);
            for (lane, entry) in block.iter().enumerate() {
                lanes[0][lane] = entry.number;
                let words = self.form.ports.iter().chain(&self.form.words);
                for (pair, &word) in lanes[1..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
                    (pair[0][lane], pair[1][lane]) = match entry.wanted(word.into()) {
                        Wanted::Bits(bits) => (bits.value, bits.mask),
                        Wanted::Range(first, span) => (first, span),
                    };
                }
            }
        }
        Node::leaf(first, entries.len().div_ceil(LANES))
    }

    /// The leaves of all packets, reached a level at a time.
    #[inline(always)]
    fn descend(&self, keys: &Keys) -> [Node; GROUP] {
        let root = self.nodes[0];
        let mut nodes = [root; GROUP];
        if root.is_leaf() {
            return nodes;
        }
        // this is the same for all at the root: vector instructions do it
        let children: [usize; GROUP] = std::array::from_fn(|place| root.child(&keys.words, place));
        let mut active = [0; GROUP];
        let mut count = 0;
        for (place, &child) in children.iter().enumerate() {
            let node = self.nodes[child];
            nodes[place] = node;
            active[count % GROUP] = place as u8;
            count += usize::from(!node.is_leaf());
        }
        while count != 0 {
            let mut left = 0;
            for at in 0..count {
                let place = active[at % GROUP];
                let to = usize::from(place) % GROUP;
                let node = self.nodes[nodes[to].child(&keys.words, to)];
                nodes[to] = node;
                active[left % GROUP] = place;
                left += usize::from(!node.is_leaf());
            }
            count = left;
        }
        nodes
    }

    /// Looks through the leaves of the wanted packets. `PORTS` and `WORDS` are the numbers of such conditions, or [`MANY`].
    #[inline(always)]
    fn in_leaves<const PORTS: usize, const WORDS: usize>(
        &self,
        keys: &Keys,
        nodes: &[Node; GROUP],
        found: &mut Words,
    ) {
        let form = self.form.part::<PORTS, WORDS>();
        let mut wanted = keys.wanted;
        while wanted != 0 {
            let place = wanted.trailing_zeros() as usize % GROUP;
            wanted &= wanted - 1;
            found[place] = self.in_leaf(form, nodes[place], (keys, place), found[place]);
        }
    }

    /// The lower of `best` and the first rule of a leaf that matches.
    #[inline(always)]
    fn in_leaf(&self, form: Part<'_>, leaf: Node, key: (&Keys, usize), best: u32) -> u32 {
        let first = leaf.0 as u32 as usize;
        let mut found = best.min(self.in_block(form, first, key));
        // few leaves have more blocks, so that processors guess this branch; the rest is without any
        for block in 1..(leaf.0 >> 32) as u16 {
            if found < best {
                break; // rules are in order
            }
            found = best.min(self.in_block(form, first + usize::from(block), key));
        }
        found
    }

    /// The first rule of a block that matches, or [`NO_RULE`].
    #[inline(always)]
    fn in_block(&self, form: Part<'_>, block: usize, (keys, place): (&Keys, usize)) -> u32 {
        let stride = form.stride();
        let block = &self.cells[block * stride..block * stride + stride];
        let Some((numbers, block)) = block.split_first_chunk::<LANES>() else {
            return NO_RULE;
        };
        let (lanes, _) = block.as_chunks::<LANES>();
        let (pairs, _) = lanes.as_chunks::<2>();
        let mut wrong = [0; LANES];
        let mut pairs = pairs.iter();
        let word = |word: u8| keys.words[usize::from(word) % PLACES][place];
        for (&port, [firsts, spans]) in form.ports.iter().zip(&mut pairs) {
            let port = word(port);
            let outside =
                |lane: usize| port.wrapping_sub(firsts[lane]).max(spans[lane]) ^ spans[lane];
            or(&mut wrong, &std::array::from_fn(outside));
        }
        for (&at, [values, masks]) in form.words.iter().zip(pairs) {
            let word = word(at);
            let differs = |lane: usize| (word ^ values[lane]) & masks[lane];
            or(&mut wrong, &std::array::from_fn(differs));
        }
        // the first lane that matches has the lowest number
        let mut matches = 0;
        for (lane, &wrong) in wrong.iter().enumerate() {
            matches |= u32::from(wrong == 0) << lane;
        }
        let first = numbers[matches.trailing_zeros() as usize % LANES];
        if matches == 0 { NO_RULE } else { first }
    }
}

#[inline(always)]
fn or(all: &mut [u32; LANES], one: &[u32; LANES]) {
    for (all, one) in all.iter_mut().zip(one) {
        *all |= one;
    }
}
