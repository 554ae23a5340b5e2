//! Ports inside this process: two queues face to face. Nothing is copied and nothing is lost.
//!
//! All queues of a pair, and the pools they are used with, belong to one region.

mod ring;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use bora_buffer::{Packet, Pool, SharedFrames};

use crate::closing::Closing;
use crate::port_queue::PortQueue;
use crate::tally::{StatsReader, Tally};

/// Two queues face to face: what one transmits the other receives. Each direction holds up to
/// `size` packets, rounded up to a power of two.
pub fn pair(size: usize) -> (Queue, Queue) {
    let (to_right, from_left) = ring::ring(size);
    let (to_left, from_right) = ring::ring(size);
    let queue = |source, sink| Queue { source, sink };
    (queue(from_right, to_right), queue(from_left, to_left))
}

/// One end of a memory port.
#[derive(Debug)]
pub struct Queue {
    source: ring::Consumer,
    sink: ring::Producer,
}

impl Queue {
    /// Whether the other side is gone.
    pub fn is_alone(&self) -> bool {
        self.source.is_alone()
    }
}

impl PortQueue for Queue {
    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        self.source.pop(out, max)
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.source.available(enough)
    }

    /// Its frames come with the packets.
    #[inline]
    fn refill(&mut self, _: &mut Pool) {}

    /// The frames go to the other side for good.
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.sink.push(packets)
    }

    #[inline]
    fn reclaim(&mut self, _: &mut Pool) {}

    /// Packets that the other side has not received.
    fn in_flight(&self) -> u32 {
        self.sink.len() as u32
    }

    fn frames(&self) -> u32 {
        0
    }

    /// Its owner empties it before.
    fn close(self: Box<Self>, _: &SharedFrames) -> Option<Closing> {
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(StatsReader::new(Arc::<Tally>::default()))
    }
}
