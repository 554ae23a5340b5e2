//! Large arrays of words, most pages of which are never touched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::region::{PAGE, Region};

const WORDS: usize = PAGE / 4;

/// The writer's side of an array of 32-bit words, zero at first. A page whose words are all zero
/// again goes back to the system.
#[derive(Debug)]
pub(crate) struct Sparse {
    region: Arc<Region>,
    /// Number of nonzero words in each page.
    live: Vec<u16>,
    pages: usize,
}

impl Sparse {
    pub(crate) fn new(region: Arc<Region>) -> Self {
        let pages = region.words32().len() / WORDS;
        Self {
            region,
            live: vec![0; pages],
            pages: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.region.words32().len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> u32 {
        self.region.words32()[index].load(Ordering::Relaxed)
    }

    /// Stores a word with release ordering, which publishes all earlier writes.
    pub(crate) fn set(&mut self, index: usize, word: u32) {
        let page = index / WORDS;
        let live = self.live[page];
        let was = self.get(index) != 0;
        self.region.words32()[index].store(word, Ordering::Release);
        let now = live + u16::from(word != 0) - u16::from(was);
        self.live[page] = now;
        match (live, now) {
            (0, 1) => self.pages += 1,
            (1, 0) => {
                self.pages -= 1;
                self.region.release(page);
            }
            _ => {}
        }
    }

    /// The first index, from this one on, in a page that is in use.
    pub(crate) fn next_live(&self, index: usize) -> usize {
        let page = index / WORDS;
        let empty = self.live.iter().skip(page).take_while(|&&live| live == 0);
        match empty.count() {
            0 => index,
            empty => (page + empty) * WORDS,
        }
    }

    /// Octets of the pages in use.
    pub(crate) fn octets(&self) -> usize {
        self.pages * PAGE
    }
}
