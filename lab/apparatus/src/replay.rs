//! A source that presents a few packets for ever: a loop can be measured with nothing else in it.

use std::sync::Arc;

use bora_buffer::{Frame, Packet, Pool, Region};
use bora_port::Queue;

use crate::STOCK;
use crate::queue::{Source, with_sink};
use crate::sink::SinkCounter;
use crate::template::Templates;

/// A queue that presents the packets of `replay` and swallows what it transmits; the counter says
/// how much that was.
pub fn replay(region: Arc<Region>, replay: Replay) -> (Queue, SinkCounter) {
    with_sink(replay, region, None)
}

/// Presents its packets for ever, in order. Only their first 60 octets are written (so that TTL and addresses
/// are fresh); what follows is whatever the frame held before.
#[derive(Debug)]
pub struct Replay {
    region: Arc<Region>,
    templates: Templates,
    left: u64,
    free: Vec<Frame>,
}

impl Replay {
    /// A replay of `packets` (Ethernet frames without FCS). `None` if there is none, or one that
    /// does not fit a frame of `region`.
    pub fn new(region: Arc<Region>, packets: &[&[u8]]) -> Option<Self> {
        Some(Self {
            templates: Templates::new(&region, packets)?,
            region,
            left: u64::MAX,
            free: Vec::with_capacity(STOCK),
        })
    }

    /// Ends after this many packets.
    #[must_use]
    pub fn limited(self, packets: u64) -> Self {
        Self {
            left: packets,
            ..self
        }
    }
}

impl Source for Replay {
    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = self.waiting(max.min(self.free.len()));
        self.left -= count as u64;
        let frames = self.free.drain(self.free.len() - count..);
        let (region, templates) = (&*self.region, &mut self.templates);
        out.extend(frames.map(|frame| templates.present(region, frame)));
        count
    }

    #[inline]
    fn waiting(&mut self, enough: usize) -> usize {
        (enough as u64).min(self.left) as usize
    }

    fn frames(&self) -> usize {
        self.free.len()
    }

    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        pool.take_many(STOCK - self.free.len(), &mut self.free);
    }
}
