//! Which of a stream's latest frames have come.

use std::collections::VecDeque;

/// Most bits of a window, one for each frame.
pub(crate) const LONGEST: usize = 1 << 20;
/// Fewest.
pub(crate) const SHORTEST: usize = 1 << 12;
/// Most flows of which the latest frame is noted one by one; with more, a look into the bitmap takes
/// at most [`LONGEST`] / 4096 steps.
const NOTED_FLOWS: u32 = 4096;
/// Holes that are remembered: with more than these after it, a hole that stays open is forgotten.
const HOLES: usize = 256;

/// A bitmap over the sequence numbers up to the highest that came, and what RFC 4737 needs beside.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    words: Vec<u64>,
    /// Highest number that came, plus one.
    next: u64,
    flows: u64,
    /// Flow of the frame `next`.
    next_flow: u64,
    /// Highest number of each flow, plus one; empty with one flow or very many.
    latest: Vec<u64>,
    /// Oldest first.
    holes: VecDeque<Hole>,
    /// How many came, copies and those that came too late apart.
    came: u64,
}

/// Numbers that had not come when a later one did.
#[derive(Clone, Copy, Debug)]
struct Hole {
    first: u64,
    /// How many have not come since.
    missing: u64,
    /// Due time of the later one.
    stamp: u64,
    /// How many had come before the later one.
    came: u64,
}

/// How a frame relates to those that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Later than all of its flow.
    InOrder,
    /// After a later one of its flow (RFC 4737, 3.3), and how many frames of the stream came from the
    /// first later one of the stream on (RFC 4737, 4.2, reordering extent).
    Reordered(u64),
    /// Came before.
    Copy,
    /// So far behind that it cannot be told whether it came before.
    TooLate,
}

impl Window {
    /// A window of `bits` frames, rounded up to a power of two.
    pub(crate) fn new(bits: usize, flows: u32) -> Self {
        let noted = if flows > 1 && flows <= NOTED_FLOWS {
            flows
        } else {
            0
        };
        Self {
            words: vec![0; bits.next_power_of_two().max(128) / 64],
            next: 0,
            flows: flows.max(1).into(),
            next_flow: 0,
            latest: vec![0; noted as usize],
            holes: VecDeque::new(),
            came: 0,
        }
    }

    /// Highest number that came, plus one.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Notes that frame n, due at `stamp`, came.
    #[inline]
    pub(crate) fn note(&mut self, n: u64, stamp: u64) -> Arrival {
        if n == self.next {
            self.enter(n);
            return Arrival::InOrder;
        }
        self.note_other(n, stamp)
    }

    fn note_other(&mut self, n: u64, stamp: u64) -> Arrival {
        if n > self.next {
            self.remember(Hole {
                first: self.next,
                missing: n - self.next,
                stamp,
                came: self.came,
            });
            self.next_flow = n % self.flows;
            self.enter(n);
            return Arrival::InOrder;
        }
        if n < self.oldest() {
            return Arrival::TooLate;
        }
        if self.has(n) {
            return Arrival::Copy;
        }
        self.set(n);
        let extent = self.fill(n);
        self.came += 1;
        if self.overtaken(n) {
            return Arrival::Reordered(extent);
        }
        if let Some(latest) = self.latest.get_mut((n % self.flows) as usize) {
            *latest = n + 1;
        }
        Arrival::InOrder
    }

    /// Takes n out of its hole; how many frames came since that was there. If it is forgotten, those
    /// since the oldest that is not: at least as many came.
    fn fill(&mut self, n: u64) -> u64 {
        // most often the newest or one close to it
        let mut holes = self.holes.iter_mut().rev();
        if let Some(hole) = holes.find(|hole| hole.first <= n) {
            hole.missing -= 1;
            return self.came - hole.came;
        }
        self.holes.front().map_or(0, |hole| self.came - hole.came)
    }

    /// Moves on to n, which is `next` or above and of flow `next_flow`.
    #[inline]
    fn enter(&mut self, n: u64) {
        let (begun, last) = (self.next.div_ceil(64), n / 64);
        if begun <= last {
            self.clear(begun, last);
        }
        self.set(n);
        self.next = n + 1;
        self.came += 1;
        if self.flows > 1 {
            if let Some(latest) = self.latest.get_mut(self.next_flow as usize) {
                *latest = n + 1;
            }
            self.next_flow += 1;
            if self.next_flow == self.flows {
                self.next_flow = 0;
            }
        }
    }

    #[inline]
    fn clear(&mut self, first: u64, last: u64) {
        if last - first >= self.words.len() as u64 {
            self.words.fill(0);
            return;
        }
        for word in first..=last {
            *self.word(word * 64) = 0;
        }
    }

    #[inline]
    fn word(&mut self, n: u64) -> &mut u64 {
        let mask = self.words.len() - 1;
        &mut self.words[(n as usize / 64) & mask]
    }

    #[inline]
    fn set(&mut self, n: u64) {
        *self.word(n) |= 1 << (n % 64);
    }

    #[inline]
    fn has(&self, n: u64) -> bool {
        let mask = self.words.len() - 1;
        self.words[(n as usize / 64) & mask] >> (n % 64) & 1 != 0
    }

    /// The first number that the window reaches back to.
    fn oldest(&self) -> u64 {
        let words = self.next.div_ceil(64);
        words.saturating_sub(self.words.len() as u64) * 64
    }

    /// Whether a later frame of the same flow came.
    fn overtaken(&self, n: u64) -> bool {
        match self.latest.get((n % self.flows) as usize) {
            Some(&latest) => n < latest,
            // what is highest of all came
            None if self.flows == 1 => true,
            None => {
                let mut later = (n + self.flows..self.next).step_by(self.flows as usize);
                later.any(|later| self.has(later))
            }
        }
    }

    #[cold]
    fn remember(&mut self, hole: Hole) {
        if self.holes.len() == HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    /// Due time of the frame that showed the last hole of which a frame never came.
    pub(crate) fn last_hole(&self) -> Option<u64> {
        let mut newest_first = self.holes.iter().rev();
        newest_first
            .find(|hole| hole.missing > 0)
            .map(|hole| hole.stamp)
    }
}

#[cfg(test)]
mod tests;
