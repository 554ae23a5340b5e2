//! Where packets end: swallowed, and shown to an observer before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bora_buffer::{Frame, Packet, Pool, Region};
use crossbeam_utils::CachePadded;

/// Looks at packets that leave.
pub trait Observer: std::fmt::Debug + Send {
    /// Sees the packets of one transmit call, in order; the worker waits meanwhile.
    fn observe(&mut self, region: &Region, packets: &[Packet]);
}

/// Swallows packets.
#[derive(Debug)]
pub(crate) struct Sink {
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
    pub(crate) fn new(
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
    pub(crate) fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
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
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        pool.give_many(self.swallowed.drain(..));
    }

    pub(crate) fn held(&self) -> usize {
        self.swallowed.len()
    }
}
