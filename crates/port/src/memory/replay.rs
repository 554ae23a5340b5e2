//! The ends of a loop that is measured alone: packets from nowhere, to nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bora_buffer::{Frame, Packet, Pool, Region};

/// Octets of each packet that are written anew each time it is presented: the shortest frame.
const HEADERS: usize = 60;
/// Frames taken from the pool at once.
const STOCK: usize = 256;

/// Presents the same packets for ever, in order. Only their first 60 octets are written (so that
/// TTL and addresses are fresh); what follows is whatever the frame held before.
#[derive(Debug)]
pub struct Replay {
    region: Arc<Region>,
    templates: Vec<([u8; HEADERS], usize)>,
    next: usize,
    free: Vec<Frame>,
}

impl Replay {
    /// A replay of `packets` (Ethernet frames without FCS). `None` if there is none, or one that
    /// does not fit a frame of `region`.
    pub fn new(region: Arc<Region>, packets: &[&[u8]]) -> Option<Self> {
        let fit = |packet: &&[u8]| packet.len() <= region.capacity();
        if packets.is_empty() || !packets.iter().all(fit) {
            return None;
        }
        let template = |packet: &&[u8]| {
            let mut headers = [0; HEADERS];
            let length = packet.len().min(HEADERS);
            headers[..length].copy_from_slice(&packet[..length]);
            (headers, packet.len())
        };
        Some(Self {
            templates: packets.iter().map(template).collect(),
            region,
            next: 0,
            free: Vec::with_capacity(STOCK),
        })
    }

    #[inline]
    pub(super) fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = max.min(self.free.len());
        let frames = self.free.drain(self.free.len() - count..);
        let (region, templates) = (&*self.region, &self.templates[..]);
        let mut next = self.next;
        out.extend(frames.map(|frame| {
            let (headers, length) = &templates[next];
            next = if next + 1 < templates.len() {
                next + 1
            } else {
                0
            };
            let packet = frame.into_packet_spread(region, *length);
            let mut packet = packet.expect("checked in `new`");
            let octets = region.octets_mut(&mut packet);
            match octets.first_chunk_mut() {
                Some(chunk) => *chunk = *headers,
                None => octets.copy_from_slice(&headers[..*length]),
            }
            packet
        }));
        self.next = next;
        count
    }

    #[inline]
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        pool.take_many(STOCK - self.free.len(), &mut self.free);
    }
}

/// Swallows packets.
#[derive(Debug)]
pub struct Sink {
    region: Arc<Region>,
    swallowed: Vec<Frame>,
    packets: u64,
    count: Arc<AtomicU64>,
}

/// How many packets a sink has swallowed, from any thread.
#[derive(Clone, Debug)]
pub struct SinkCounter(Arc<AtomicU64>);

impl SinkCounter {
    /// Packets since the beginning.
    pub fn packets(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sink {
    pub(super) fn new(region: Arc<Region>) -> (Self, SinkCounter) {
        let count = Arc::new(AtomicU64::new(0));
        let sink = Self {
            region,
            swallowed: Vec::with_capacity(bora_buffer::MAX_BATCH),
            packets: 0,
            count: count.clone(),
        };
        (sink, SinkCounter(count))
    }

    #[inline]
    pub(super) fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
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
