//! A card's events as MSI-X messages.

use std::fs::File;
use std::io::Write;

use bora_hero::map::{
    IRQ_BUS, IRQ_DROP, IRQ_FAULT, IRQ_RXHI, IRQ_RXHI_EMPTY, IRQ_RXLO, IRQ_RXLO_EMPTY, IRQ_TX,
};

use crate::config::VECTORS;

/// The events of each vector: receive, transmit, all others.
const GROUPS: [u32; VECTORS] = [
    IRQ_RXLO | IRQ_RXHI | IRQ_RXLO_EMPTY | IRQ_RXHI_EMPTY,
    IRQ_TX,
    IRQ_FAULT | IRQ_BUS | IRQ_DROP,
];

/// What of a card's events its messages have told.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// Events that were pending and not masked when last looked at.
    seen: u32,
    mask: u32,
}

impl Edges {
    /// Looks at events (IRQ_UNMASKED) and mask (IRQ_MASK); returns which vectors send a message: the first of
    /// its events has become pending, or the mask now lets one through that it held back.
    pub(crate) fn look(&mut self, events: u32, mask: u32) -> [bool; VECTORS] {
        let now = events & mask;
        let (seen, let_through) = (self.seen, now & !self.mask);
        (self.seen, self.mask) = (now, mask);
        GROUPS.map(|group| now & group != 0 && (seen & group == 0 || let_through & group != 0))
    }

    /// The guest has read IRQ_MASKED, which returned and cleared these events. Returns which vectors send a message
    /// all the same: an event that came during the read has not been told.
    pub(crate) fn clear(&mut self, events: u32) -> [bool; VECTORS] {
        let seen = self.seen;
        self.seen &= !events;
        GROUPS.map(|group| events & group != 0 && seen & group == 0)
    }

    /// Whether an event is pending that a message has told; then the card's interrupt line tells no more.
    pub(crate) fn are_told(&self) -> bool {
        self.seen != 0
    }
}

/// The vectors of a card.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    triggers: [Option<File>; VECTORS],
    /// Messages that had nowhere to go: they are sent when there is a trigger.
    pending: [bool; VECTORS],
}

impl Vectors {
    /// Sends messages.
    pub(crate) fn send(&mut self, which: [bool; VECTORS]) {
        for (vector, _) in which.into_iter().enumerate().filter(|(_, send)| *send) {
            match &mut self.triggers[vector] {
                Some(trigger) => signal(vector, trigger),
                None => self.pending[vector] = true,
            }
        }
    }

    /// Sets the eventfds of `count` vectors from `start` on; those without one have none any more.
    /// False if there are not that many vectors.
    pub(crate) fn set(&mut self, start: u32, count: u32, files: Vec<File>) -> bool {
        let range = start as usize..start as usize + count as usize;
        let Some(triggers) = self.triggers.get_mut(range.clone()) else {
            return false;
        };
        triggers.fill_with(|| None);
        for (trigger, file) in triggers.iter_mut().zip(files) {
            *trigger = Some(file);
        }
        for vector in range {
            if let (Some(trigger), true) = (&mut self.triggers[vector], self.pending[vector]) {
                self.pending[vector] = false;
                signal(vector, trigger);
            }
        }
        true
    }

    /// Forgets all triggers; messages wait from now on.
    pub(crate) fn release(&mut self) {
        self.triggers = Default::default();
    }

    /// Forgets the messages that wait.
    pub(crate) fn forget(&mut self) {
        self.pending = Default::default();
    }

    /// The first word of the pending bits.
    pub(crate) fn pending(&self) -> u64 {
        let bits = self.pending.iter().enumerate();
        bits.fold(0, |bits, (vector, &set)| bits | u64::from(set) << vector)
    }
}

fn signal(vector: usize, mut trigger: &File) {
    match trigger.write_all(&1u64.to_ne_bytes()) {
        Ok(()) => {}
        // it has been signalled already, more often than it can count
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        Err(error) => log::warn!("vector {vector}: its eventfd refuses a message: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    const NONE: [bool; VECTORS] = [false; VECTORS];
    const RX: [bool; VECTORS] = [true, false, false];

    #[test]
    fn an_event_that_comes_while_the_guest_reads_is_told() {
        let mut edges = Edges::default();
        let mask = IRQ_RXLO | IRQ_TX;
        assert_eq!(edges.look(IRQ_RXLO, mask), RX);
        assert_eq!(edges.clear(IRQ_RXLO | IRQ_TX), [false, true, false]);
        assert_eq!(edges.look(0, mask), NONE);
    }

    #[test]
    fn an_event_is_told_once() {
        let mut edges = Edges::default();
        assert_eq!(edges.look(0, IRQ_RXLO), NONE);
        assert_eq!(edges.look(IRQ_RXLO, IRQ_RXLO), RX);
        assert_eq!(edges.look(IRQ_RXLO | IRQ_TX, IRQ_RXLO), NONE);
        assert!(edges.are_told());
    }

    #[test]
    fn what_reading_cleared_is_told_again() {
        let mut edges = Edges::default();
        assert_eq!(edges.look(IRQ_RXLO, IRQ_RXLO), RX);
        edges.clear(IRQ_RXLO);
        assert_eq!(edges.look(IRQ_RXLO, IRQ_RXLO), RX, "it came at that moment");
    }

    #[test]
    fn a_pending_event_is_told_when_the_mask_lets_it_through() {
        let mut edges = Edges::default();
        assert_eq!(edges.look(IRQ_RXLO | IRQ_TX, 0), NONE);
        assert_eq!(edges.look(IRQ_RXLO | IRQ_TX, IRQ_RXLO), RX);
        assert_eq!(edges.look(IRQ_RXLO | IRQ_TX, IRQ_RXLO), NONE, "no change");
        let both = IRQ_RXLO | IRQ_TX;
        assert_eq!(edges.look(both, both), [false, true, false]);
        assert_eq!(edges.look(both, 0), NONE);
        assert_eq!(edges.look(both, both), [true, true, false]);
    }

    #[test]
    fn each_event_has_its_vector() {
        for bit in 0..8 {
            let vector = match 1 << bit {
                IRQ_TX => 1,
                IRQ_FAULT | IRQ_BUS | IRQ_DROP => 2,
                _ => 0,
            };
            let told = Edges::default().look(1 << bit, 0xFF);
            assert_eq!(told, std::array::from_fn(|one| one == vector), "bit {bit}");
        }
    }

    /// An eventfd, twice.
    fn trigger() -> (File, File) {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let file = File::from(eventfd(0, flags).unwrap());
        (file.try_clone().unwrap(), file)
    }

    fn count(file: &mut File) -> u64 {
        let mut count = [0; 8];
        match file.read_exact(&mut count) {
            Ok(()) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    #[test]
    fn a_message_without_trigger_waits() {
        let mut vectors = Vectors::default();
        vectors.send([true, false, true]);
        assert_eq!(vectors.pending(), 0b101);
        let (theirs, mut ours) = trigger();
        assert!(vectors.set(0, 1, vec![theirs]));
        assert_eq!((count(&mut ours), vectors.pending()), (1, 0b100));
        vectors.send(RX);
        assert_eq!(count(&mut ours), 1);
        vectors.release();
        vectors.send(RX);
        assert_eq!((count(&mut ours), vectors.pending()), (0, 0b101));
        vectors.forget();
        assert_eq!(vectors.pending(), 0);
    }

    #[test]
    fn vectors_that_do_not_exist_are_refused() {
        let mut vectors = Vectors::default();
        for (start, count) in [
            (0, 4),
            (3, 1),
            (u32::MAX, 1),
            (0, u32::MAX),
            (u32::MAX, u32::MAX),
        ] {
            assert!(!vectors.set(start, count, Vec::new()), "{start} {count}");
        }
        assert!(vectors.set(3, 0, Vec::new()));
    }
}
