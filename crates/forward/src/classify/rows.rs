//! Sets of rules as rows of bits.

use std::collections::HashMap;

/// A set of rules, one bit each, 64 a word; the first rule is the lowest bit.
pub(super) type Bits = Vec<u64>;

/// All rows of one index, each stored once. A row of one word is the set itself; longer ones are
/// preceded by a summary word, with a bit for every word that is not zero.
#[derive(Debug)]
pub(super) struct Rows {
    words: usize,
    /// Row after row.
    pub(super) cells: Vec<u64>,
    known: HashMap<Bits, u32>,
}

impl Rows {
    pub(super) fn new(rules: usize) -> Self {
        Self {
            words: rules.div_ceil(64),
            cells: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// The empty set.
    pub(super) fn none(&self) -> Bits {
        vec![0; self.words]
    }

    /// Whether a row has a summary word.
    pub(super) fn summarised(&self) -> bool {
        self.words > 1
    }

    /// Where the row of a set starts in `cells`.
    pub(super) fn add(&mut self, bits: Bits) -> u32 {
        if let Some(&start) = self.known.get(&bits) {
            return start;
        }
        let start = self.cells.len() as u32;
        if self.summarised() {
            let summary = bits.iter().enumerate();
            let summary = summary.map(|(word, &bits)| u64::from(bits != 0) << word);
            self.cells.push(summary.sum());
        }
        self.cells.extend(&bits);
        self.known.insert(bits, start);
        start
    }

    /// Frees what only building needs.
    pub(super) fn seal(&mut self) {
        self.known = HashMap::new();
        self.cells.shrink_to_fit();
    }
}
