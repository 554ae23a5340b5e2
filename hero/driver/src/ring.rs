//! Descriptor vectors and completion rings in the host's memory.
//!
//! A card processes and completes the descriptors of a ring in order. So the driver only counts:
//! descriptor n has buffer n modulo [`SLOTS`], and its completion is word n modulo [`SLOTS`].

use crate::device::Device;
use crate::registers::{CPL_BASE, RXHI_DESC, RXLO_DESC, TX_DESC};

/// Words of a completion ring, and buffers of a ring.
pub(crate) const SLOTS: u64 = 256;
/// Most descriptors of a vector.
pub(crate) const VECTOR: u64 = 32;
/// Octets of a buffer.
pub(crate) const BUFFER: u32 = 2048;
/// Octets of a completion ring, and of a vector with all its descriptors.
const COMPLETIONS: u32 = SLOTS as u32 * 8;
const VECTOR_OCTETS: u32 = VECTOR as u32 * 8;

/// Memory of a card, from `card * AREA`: completion rings, then from [`VECTORS`] a slot for each
/// outstanding vector, then from [`BUFFERS`] the buffers.
const AREA: u32 = 2 << 20;
const VECTORS: u32 = 0x1_0000;
const BUFFERS: u32 = 0x4_0000;

/// The rings of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Low,
    High,
    Transmit,
}

impl Which {
    /// The register that takes vectors, and the bit position in LEVELS of the number of vectors it
    /// accepts.
    pub(crate) fn register(self) -> (u8, u32) {
        match self {
            Self::Low => (RXLO_DESC, 0),
            Self::High => (RXHI_DESC, 4),
            Self::Transmit => (TX_DESC, 8),
        }
    }
}

/// Tells a card the addresses of its completion rings.
pub(crate) fn place(device: &mut impl Device, card: usize) {
    device.write(CPL_BASE, card as u32 * AREA);
}

/// A completed descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Bus address of the buffer.
    pub(crate) address: u32,
    /// Octets of the frame.
    pub(crate) octets: usize,
    /// The buffer or the frame was bad.
    pub(crate) error: bool,
}

/// A completion has the wrong buffer, or more octets than the buffer holds: driver and card
/// disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("completion {number} of ring {ring:?} is {word:#018x}")]
pub(crate) struct OutOfStep {
    ring: Which,
    number: u64,
    word: u64,
}

/// One ring.
#[derive(Debug)]
pub(crate) struct Ring {
    which: Which,
    card: u32,
    /// Descriptors given, and completions taken, since the card's reset.
    given: u64,
    completed: u64,
    vectors: u64,
}

impl Ring {
    /// An empty ring after the card's reset, with all completions cleared.
    pub(crate) fn new(device: &mut impl Device, card: usize, which: Which) -> Self {
        let ring = Self {
            which,
            card: card as u32,
            given: 0,
            completed: 0,
            vectors: 0,
        };
        let first = ring.completion_address(0);
        device.octets_mut(first, COMPLETIONS as usize).fill(0);
        ring
    }

    fn base(&self, area: u32, octets: u32) -> u32 {
        self.card * AREA + area + self.which as u32 * octets
    }

    pub(crate) fn completion_address(&self, number: u64) -> u32 {
        self.base(0, COMPLETIONS) + (number % SLOTS) as u32 * 8
    }

    /// Where buffer `number` is.
    pub(crate) fn buffer(&self, number: u64) -> u32 {
        self.base(BUFFERS, SLOTS as u32 * BUFFER) + (number % SLOTS) as u32 * BUFFER
    }

    /// The number of the next descriptor to be given.
    pub(crate) fn next(&self) -> u64 {
        self.given
    }

    /// Descriptors given and not completed.
    pub(crate) fn out(&self) -> u64 {
        self.given - self.completed
    }

    /// Descriptors that may still be given.
    pub(crate) fn room(&self) -> u64 {
        SLOTS - self.out()
    }

    /// Completions taken since the card's reset.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Gives the card a vector of the next buffers, one for each length. The caller ensures that
    /// the card accepts one, and that there are 1 to [`VECTOR`] lengths and [`Ring::room`] for
    /// them.
    pub(crate) fn give(&mut self, device: &mut impl Device, lengths: &[u16]) {
        // there are as many slots as buffers, so the card has fetched the previous vector of this
        // slot
        let slot = (self.vectors % SLOTS) as u32;
        let vector = self.base(VECTORS, SLOTS as u32 * VECTOR_OCTETS) + slot * VECTOR_OCTETS;
        for (index, &length) in lengths.iter().enumerate() {
            let buffer = self.buffer(self.given + index as u64);
            let descriptor = u64::from(length) << 32 | u64::from(buffer);
            device.set_word(vector + index as u32 * 8, descriptor);
        }
        self.vectors += 1;
        self.given += lengths.len() as u64;
        device.write(self.which.register().0, vector | lengths.len() as u32);
    }

    /// Whether a completion has come.
    pub(crate) fn has_completion(&self, device: &impl Device) -> bool {
        let word = device.word(self.completion_address(self.completed));
        let first_pass = (self.completed / SLOTS).is_multiple_of(2);
        self.out() > 0 && (word >> 50 & 1 == 1) == first_pass
    }

    /// Takes the next completion, if it has come. The driver may use its buffer until it gives it
    /// to the card again.
    ///
    /// # Errors
    /// See [`OutOfStep`].
    pub(crate) fn take(&mut self, device: &impl Device) -> Result<Option<Completion>, OutOfStep> {
        if !self.has_completion(device) {
            return Ok(None);
        }
        let word = device.word(self.completion_address(self.completed));
        let completion = Completion {
            address: word as u32,
            octets: (word >> 32 & 0xFFFF) as usize,
            error: word >> 49 & 1 == 1,
        };
        let expected = self.buffer(self.completed);
        if completion.address != expected || completion.octets > BUFFER as usize {
            return Err(OutOfStep {
                ring: self.which,
                number: self.completed,
                word,
            });
        }
        self.completed += 1;
        Ok(Some(completion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;

    /// Completes all of the last vector, as a card does.
    fn complete(card: &mut Plain, ring: &Ring, number: &mut u64, octets: u16) {
        let given = card.registers[usize::from(ring.which.register().0)];
        let (vector, count) = (given & !0xFF, given & 0xFF);
        for index in 0..count {
            let descriptor = card.word(vector + index * 8);
            let phase = u64::from((*number / SLOTS).is_multiple_of(2));
            let word = descriptor & 0xFFFF_FFFF | u64::from(octets) << 32 | phase << 50;
            card.set_word(ring.completion_address(*number), word);
            *number += 1;
        }
    }

    #[test]
    fn vectors_are_completed_in_order_over_many_passes() {
        let mut card = Plain::new();
        for which in [Which::Low, Which::High, Which::Transmit] {
            let mut ring = Ring::new(&mut card, 3, which);
            assert_eq!(ring.take(&card), Ok(None), "no completion is there yet");
            let mut number = 0;
            for turn in 0..1000u64 {
                let lengths: Vec<u16> = (0..turn % 32 + 1).map(|n| 60 + n as u16).collect();
                let first = ring.next();
                ring.give(&mut card, &lengths);
                assert!(!ring.has_completion(&card));
                complete(&mut card, &ring, &mut number, 99);
                for index in 0..lengths.len() as u64 {
                    let completion = ring.take(&card).unwrap().expect("it was completed");
                    assert_eq!(completion.address, ring.buffer(first + index));
                    assert_eq!((completion.octets, completion.error), (99, false));
                }
                assert_eq!((ring.out(), ring.take(&card)), (0, Ok(None)));
            }
        }
    }

    #[test]
    fn descriptors_are_as_the_reference_says() {
        let mut card = Plain::new();
        let mut ring = Ring::new(&mut card, 1, Which::High);
        ring.give(&mut card, &[60, 1514]);
        let given = card.registers[usize::from(RXHI_DESC)];
        assert_eq!(given & 0xFF, 2);
        for (index, octets) in [(0, 60), (1, 1514)] {
            let descriptor = card.word((given & !0xFF) + index * 8);
            let buffer = ring.buffer(index.into());
            assert_eq!(descriptor, octets << 32 | u64::from(buffer));
            assert_eq!(buffer % BUFFER, 0, "aligned, and within a page");
        }
        assert_eq!(ring.room(), SLOTS - 2);
    }

    #[test]
    fn areas_do_not_overlap() {
        let mut card = Plain::new();
        let mut areas = Vec::new();
        for number in 0..4 {
            for which in [Which::Low, Which::High, Which::Transmit] {
                let ring = Ring::new(&mut card, number, which);
                let vectors = ring.base(VECTORS, SLOTS as u32 * VECTOR_OCTETS);
                areas.push((ring.completion_address(0), COMPLETIONS));
                areas.push((vectors, SLOTS as u32 * VECTOR_OCTETS));
                areas.push((ring.buffer(0), SLOTS as u32 * BUFFER));
            }
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        let last = areas.last().unwrap();
        assert!(last.0 + last.1 <= 4 * AREA);
    }

    #[test]
    fn another_buffer_or_length_is_noticed() {
        for (address, octets) in [(8, 60), (0, 2049)] {
            let mut card = Plain::new();
            let mut ring = Ring::new(&mut card, 0, Which::Low);
            ring.give(&mut card, &[2048]);
            let word = u64::from(ring.buffer(0) + address) | octets << 32 | 1 << 50;
            card.set_word(ring.completion_address(0), word);
            assert!(ring.take(&card).is_err());
            assert_eq!(ring.completed(), 0);
        }
    }
}
