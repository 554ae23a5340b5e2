//! The ends of a loop that is measured alone: packets from nowhere, to nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bora_buffer::{Frame, Packet, Pool, Region};
use crossbeam_utils::CachePadded;

use super::template::Templates;

/// Frames taken from the pool at once.
pub(super) const STOCK: usize = bora_buffer::MAX_BATCH;

/// Presents the same packets for ever, in order. Only their first 60 octets are written (so that
/// TTL and addresses are fresh); what follows is whatever the frame held before.
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

    #[inline]
    pub(super) fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = self.waiting(max.min(self.free.len()));
        self.left -= count as u64;
        let frames = self.free.drain(self.free.len() - count..);
        let (region, templates) = (&*self.region, &mut self.templates);
        out.extend(frames.map(|frame| templates.present(region, frame)));
        count
    }

    /// Packets that are still to come, up to `enough`.
    #[inline]
    pub(super) fn waiting(&self, enough: usize) -> usize {
        (enough as u64).min(self.left) as usize
    }

    pub(super) fn frames(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        pool.take_many(STOCK - self.free.len(), &mut self.free);
    }
}

/// Looks at packets that leave.
pub trait Observer: std::fmt::Debug + Send {
    /// Sees the packets of one transmit call, in order; the worker waits meanwhile.
    fn observe(&mut self, region: &Region, packets: &[Packet]);
}

/// Swallows packets.
#[derive(Debug)]
pub(super) struct Sink {
    region: Arc<Region>,
    observer: Option<Box<dyn Observer>>,
    swallowed: Vec<Frame>,
    packets: u64,
    count: Arc<CachePadded<AtomicU64>>,
}

/// How many packets a sink has swallowed, from any thread.
#[derive(Clone, Debug)]
pub struct SinkCounter(Arc<CachePadded<AtomicU64>>);

impl SinkCounter {
    /// Packets since the beginning.
    pub fn packets(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sink {
    pub(super) fn new(
        region: Arc<Region>,
        observer: Option<Box<dyn Observer>>,
    ) -> (Self, SinkCounter) {
        let count = Arc::new(CachePadded::new(AtomicU64::new(0)));
        let sink = Self {
            region,
            observer,
            swallowed: Vec::with_capacity(bora_buffer::MAX_BATCH),
            packets: 0,
            count: count.clone(),
        };
        (sink, SinkCounter(count))
    }

    #[inline]
    pub(super) fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        if let Some(observer) = &mut self.observer {
            observer.observe(&self.region, packets);
        }
        let count = packets.len();
        let frames = packets.drain(..);
        self.swallowed
            .extend(frames.map(|packet| packet.into_frame(&self.region)));
        self.packets += count as u64;
        self.count.store(self.packets, Ordering::Relaxed);
        count
    }

    #[inline]
    pub(super) fn reclaim(&mut self, pool: &mut Pool) {
        pool.give_many(self.swallowed.drain(..));
    }

    pub(super) fn held(&self) -> usize {
        self.swallowed.len()
    }
}
