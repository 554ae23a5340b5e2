//! Ports inside this process: nothing is copied and nothing is lost. For tests, and to measure the
//! worker's loop with nothing else in it.
//!
//! All queues of a pair, and the pools they are used with, belong to one region.

mod paced;
mod replay;
mod ring;
mod template;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{Packet, Pool, Region};

pub use paced::{Arrivals, Pace, Paced, Stamp};
use replay::Sink;
pub use replay::{Observer, Replay, SinkCounter};

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
    let (sink, counter) = Sink::new(region, None);
    let queue = Queue {
        source: Source::Replay(replay),
        sink: Destination::Sink(sink),
    };
    (queue, counter)
}

/// A queue that presents the packets of `paced` as they arrive, loses by name what nobody fetches
/// in time ([`crate::QueueStats::rx_ring_full`]), and swallows what it transmits.
pub fn paced(region: Arc<Region>, paced: Paced) -> (Queue, SinkCounter) {
    let (sink, counter) = Sink::new(region, None);
    let queue = Queue {
        source: Source::Paced(Box::new(paced)),
        sink: Destination::Sink(sink),
    };
    (queue, counter)
}

/// A queue that receives nothing, and shows `observer` what it transmits before it swallows it.
pub fn observed(region: Arc<Region>, observer: Box<dyn Observer>) -> (Queue, SinkCounter) {
    let (sink, counter) = Sink::new(region, Some(observer));
    let queue = Queue {
        source: Source::Nothing,
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
    Paced(Box<Paced>),
    Nothing,
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
            Source::Paced(paced) => paced.receive(out, max),
            Source::Nothing => 0,
        }
    }

    /// See [`crate::Queue::waiting`].
    pub fn waiting(&mut self, enough: usize) -> usize {
        match &mut self.source {
            Source::Ring(ring) => ring.available(enough),
            Source::Replay(replay) => replay.waiting(enough),
            Source::Paced(paced) => paced.waiting(enough),
            Source::Nothing => 0,
        }
    }

    /// See [`crate::Queue::refill`].
    #[inline]
    pub fn refill(&mut self, pool: &mut Pool) {
        match &mut self.source {
            // its frames come with the packets
            Source::Ring(_) | Source::Nothing => {}
            Source::Replay(replay) => replay.refill(pool),
            Source::Paced(paced) => paced.refill(pool),
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

    /// Whether the other side of a pair is gone.
    pub fn is_alone(&self) -> bool {
        matches!(&self.source, Source::Ring(ring) if ring.is_alone())
    }

    /// See [`crate::Queue::frames`].
    pub fn frames(&self) -> u32 {
        let to_come = match &self.source {
            Source::Ring(_) | Source::Nothing => 0,
            Source::Replay(replay) => replay.frames(),
            Source::Paced(paced) => paced.frames(),
        };
        let sent = match &self.sink {
            Destination::Ring(_) => 0,
            Destination::Sink(sink) => sink.held(),
        };
        (to_come + sent) as u32
    }

    /// See [`crate::Queue::wait`]: only paced packets tell when they come.
    pub fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        match &mut self.source {
            Source::Paced(paced) => Some(paced.wait()),
            _ => None,
        }
    }

    /// What came to a paced queue, to be read from any thread.
    pub(crate) fn arrivals(&self) -> Option<Arrivals> {
        match &self.source {
            Source::Paced(paced) => Some(paced.arrivals()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
