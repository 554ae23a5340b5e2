//! Ports inside this process: nothing is copied and nothing is lost. For tests, and to measure the
//! worker's loop with nothing else in it.
//!
//! All queues of a pair, and the pools they are used with, belong to one region.

mod replay;
mod ring;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{Packet, Pool, Region};

pub use replay::{Replay, Sink, SinkCounter};

/// Two queues face to face: what one transmits the other receives. Each direction holds up to
/// `size` packets, rounded up to a power of two.
pub fn pair(size: usize) -> (Queue, Queue) {
    let (to_right, from_left) = ring::ring(size);
    let (to_left, from_right) = ring::ring(size);
    let queue = |source, sink| Queue {
        source: Source::Ring(source),
        sink: Destination::Ring(sink),
    };
    (queue(from_right, to_right), queue(from_left, to_left))
}

/// A queue that presents the packets of `replay` for ever and swallows what it transmits; the
/// counter says how much that was.
pub fn replay(region: Arc<Region>, replay: Replay) -> (Queue, SinkCounter) {
    let (sink, counter) = Sink::new(region);
    let queue = Queue {
        source: Source::Replay(replay),
        sink: Destination::Sink(sink),
    };
    (queue, counter)
}

/// One end of a memory port.
#[derive(Debug)]
pub struct Queue {
    source: Source,
    sink: Destination,
}

#[derive(Debug)]
enum Source {
    Ring(ring::Consumer),
    Replay(Replay),
}

#[derive(Debug)]
enum Destination {
    Ring(ring::Producer),
    Sink(Sink),
}

impl Queue {
    /// See [`crate::Queue::receive`].
    #[inline]
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        match &mut self.source {
            Source::Ring(ring) => ring.pop(out, max),
            Source::Replay(replay) => replay.receive(out, max),
        }
    }

    /// See [`crate::Queue::waiting`].
    pub fn waiting(&mut self, enough: usize) -> usize {
        match &mut self.source {
            Source::Ring(ring) => ring.available(enough),
            Source::Replay(_) => enough,
        }
    }

    /// See [`crate::Queue::refill`].
    #[inline]
    pub fn refill(&mut self, pool: &mut Pool) {
        match &mut self.source {
            // its frames come with the packets
            Source::Ring(_) => {}
            Source::Replay(replay) => replay.refill(pool),
        }
    }

    /// See [`crate::Queue::transmit`]. The frames of a pair go to the other side for good.
    #[inline]
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        match &mut self.sink {
            Destination::Ring(ring) => ring.push(packets),
            Destination::Sink(sink) => sink.transmit(packets),
        }
    }

    /// See [`crate::Queue::reclaim`].
    #[inline]
    pub fn reclaim(&mut self, pool: &mut Pool) {
        match &mut self.sink {
            Destination::Ring(_) => {}
            Destination::Sink(sink) => sink.reclaim(pool),
        }
    }

    /// Nobody waits to be told.
    #[inline]
    pub fn kick(&mut self) {}

    /// See [`crate::Queue::in_flight`]: packets the other side has not received, or that were
    /// swallowed and not reclaimed.
    pub fn in_flight(&self) -> u32 {
        match &self.sink {
            Destination::Ring(ring) => ring.len() as u32,
            Destination::Sink(sink) => sink.held() as u32,
        }
    }

    /// Nothing tells of a packet.
    pub fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests;
