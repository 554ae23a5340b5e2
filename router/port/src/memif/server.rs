//! The rings of a server: buffers are the peer's, so packets are copied from and to them.
//!
//! Descriptors are read once and checked against the peer's regions before use. Those that are read
//! ahead of that say only what to fetch into the cache.

use std::sync::Arc;

use bora_buffer::{Frame, Packet, Pool, Purpose, Region};
use bora_contract::Reason;

use super::fault::Fault;
use super::memory::SharedMemory;
use super::ring::{DESC_FLAG_NEXT, Descriptor, Ring};
use crate::tally::Tally;

/// Free frames kept to copy into: what one call can receive.
const STOCK: usize = bora_buffer::MAX_BATCH;

/// The peer's regions, by index.
pub(super) type Regions = Arc<[Arc<SharedMemory>]>;

/// Buffers between the one that is copied and the one that is fetched into the cache.
const AHEAD: u16 = 8;

/// Fetches the beginning of a slot's buffer into the cache.
#[inline]
fn prefetch(ring: &Ring, regions: &[Arc<SharedMemory>], index: u16, purpose: Purpose) {
    let descriptor = ring.descriptor(index);
    if let Some(memory) = regions.get(usize::from(descriptor.region)) {
        memory.prefetch(descriptor.offset, purpose);
    }
}

fn outside(descriptor: &Descriptor) -> Fault {
    Fault::Buffer {
        region: descriptor.region,
        offset: descriptor.offset,
        length: descriptor.length,
    }
}

/// A ring from client to server (S2M): the peer's packets.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) ring: Ring,
    regions: Regions,
    tail: u16,
    free: Vec<Frame>,
}

impl Receiver {
    pub(super) fn new(ring: Ring, regions: Regions) -> Self {
        Self {
            ring,
            regions,
            tail: 0,
            free: Vec::with_capacity(STOCK),
        }
    }

    fn available(&self) -> Result<u16, Fault> {
        let limit = self.ring.size();
        self.ring.distance(self.tail, self.ring.head(), limit)
    }

    /// Whether there is something to take, a fault included.
    pub(super) fn has_packets(&self) -> bool {
        self.available() != Ok(0)
    }

    /// Buffers to take; 1 for a fault, so that `receive` is called, and meets it.
    pub(super) fn waiting(&self) -> usize {
        match self.available() {
            Ok(count) => count.into(),
            Err(_) => 1, // see above
        }
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        region: &Region,
        out: &mut Vec<Packet>,
        max: usize,
        tally: &Tally,
    ) -> Result<usize, Fault> {
        let mut available = self.available()?;
        if available == 0 {
            return Ok(0);
        }
        // buffers count, not packets: chains and bad packets cost time, too
        let (mut count, mut used) = (0, 0);
        let (ring, regions, mut tail) = (&self.ring, &*self.regions, self.tail);
        let mut result = Ok(());
        while available > 0 && used < max {
            if available > AHEAD {
                prefetch(ring, regions, tail.wrapping_add(AHEAD), Purpose::Read);
            }
            let Some(frame) = self.free.pop() else { break };
            let mut packet = match frame.into_packet(region, region.capacity()) {
                Ok(packet) => packet,
                Err(frame) => {
                    self.free.push(frame);
                    break;
                }
            };
            let octets = region.octets_mut(&mut packet);
            match copy_out(octets, ring, regions, tail, available) {
                Ok(Some((slots, length))) => {
                    tail = tail.wrapping_add(slots);
                    available -= slots;
                    used += usize::from(slots);
                    if length > 0 && length <= packet.length() {
                        packet.truncate(length);
                        out.push(packet);
                        count += 1;
                        continue;
                    }
                    let reason = if length == 0 {
                        Reason::RxMalformed
                    } else {
                        Reason::RxTooLong
                    };
                    tally.lost(reason, 1);
                    self.free.push(packet.into_frame(region));
                    continue;
                }
                Ok(None) => {}
                Err(fault) => result = Err(fault),
            }
            self.free.push(packet.into_frame(region));
            break;
        }
        self.tail = tail;
        ring.set_tail(tail);
        // what came before a fault is delivered; the fault is met again then
        match count {
            0 => result.map(|()| 0),
            count => Ok(count),
        }
    }

    #[inline]
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        pool.take_many(STOCK.saturating_sub(self.free.len()), &mut self.free);
    }

    /// Frames to copy into.
    pub(super) fn frames(&self) -> usize {
        self.free.len()
    }

    /// Gives all frames back, and the ring.
    pub(super) fn close(self, pool: &mut Pool) -> Ring {
        for frame in self.free {
            pool.give(frame);
        }
        self.ring
    }
}

/// A ring from server to client (M2S): the peer's empty buffers.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) ring: Ring,
    regions: Regions,
    tail: u16,
    /// Frames whose packets have been copied, for the pool.
    sent: Vec<Frame>,
}

impl Sender {
    pub(super) fn new(ring: Ring, regions: Regions) -> Self {
        Self {
            sent: Vec::with_capacity(usize::from(ring.size())),
            ring,
            regions,
            tail: 0,
        }
    }

    #[inline]
    pub(super) fn transmit(
        &mut self,
        region: &Region,
        packets: &mut Vec<Packet>,
        tally: &Tally,
    ) -> Result<usize, Fault> {
        let limit = self.ring.size();
        let mut free = self.ring.distance(self.tail, self.ring.head(), limit)?;
        // here, because a field would be stored and loaded again for each packet
        let (mut tail, mut count, mut refused) = (self.tail, 0, 0);
        let (ring, regions) = (&self.ring, &*self.regions);
        let mut result = Ok(());
        for packet in packets.iter() {
            if free > AHEAD {
                prefetch(ring, regions, tail.wrapping_add(AHEAD), Purpose::Write);
            }
            match copy_in(region.octets(packet), ring, regions, tail, free) {
                Ok(Some(slots)) => {
                    tail = tail.wrapping_add(slots);
                    free -= slots;
                    count += 1;
                    refused += usize::from(slots == 0);
                }
                Ok(None) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        self.tail = tail;
        self.ring.set_tail(tail);
        tally.sent((count - refused) as u64);
        tally.refused(Reason::TxRefused, refused as u64);
        let frames = packets.drain(..count);
        self.sent
            .extend(frames.map(|packet| packet.into_frame(region)));
        result.map(|()| count)
    }

    #[inline]
    pub(super) fn reclaim(&mut self, pool: &mut Pool) {
        pool.give_many(self.sent.drain(..));
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Gives all frames back, and the ring.
    pub(super) fn close(mut self, pool: &mut Pool) -> Ring {
        self.reclaim(pool);
        self.ring
    }
}

/// Copies a packet to as many of the `free` buffers from slot `tail` on as it needs. Returns how many, none if the
/// peer's buffers are too small for it, or `None` if they are too few now.
#[inline]
fn copy_in(
    octets: &[u8],
    ring: &Ring,
    regions: &[Arc<SharedMemory>],
    tail: u16,
    free: u16,
) -> Result<Option<u16>, Fault> {
    let longest = ring.longest_chain();
    let mut rest = octets;
    for slot in 0..free.min(longest) {
        let index = tail.wrapping_add(slot);
        let descriptor = ring.descriptor(index);
        if descriptor.length == 0 {
            return Err(Fault::Empty);
        }
        let (part, after) = rest.split_at(rest.len().min(descriptor.length as usize));
        let memory = regions.get(usize::from(descriptor.region));
        if !memory.is_some_and(|memory| memory.write(descriptor.offset, part)) {
            return Err(outside(&descriptor));
        }
        let more = !after.is_empty();
        ring.set_descriptor(
            index,
            Descriptor {
                flags: u16::from(more) * DESC_FLAG_NEXT,
                length: part.len() as u32,
                ..descriptor
            },
        );
        if !more {
            return Ok(Some(slot + 1));
        }
        rest = after;
    }
    Ok((free >= longest).then_some(0))
}

/// Copies the packet at slot `tail`, of one buffer or a chain, to `octets`, as far as it fits; returns
/// its slots and whole length, or `None` while it is not all there.
#[inline]
fn copy_out(
    octets: &mut [u8],
    ring: &Ring,
    regions: &[Arc<SharedMemory>],
    tail: u16,
    available: u16,
) -> Result<Option<(u16, usize)>, Fault> {
    let longest = ring.longest_chain();
    let mut length = 0usize;
    for slot in 0..available.min(longest) {
        let descriptor = ring.descriptor(tail.wrapping_add(slot));
        let part = descriptor.length as usize;
        let end = length.saturating_add(part);
        if let Some(target) = octets.get_mut(length..end) {
            let memory = regions.get(usize::from(descriptor.region));
            if !memory.is_some_and(|memory| memory.read(descriptor.offset, target)) {
                return Err(outside(&descriptor));
            }
        }
        length = end;
        if descriptor.flags & DESC_FLAG_NEXT == 0 {
            return Ok(Some((slot + 1, length)));
        }
    }
    if available >= longest {
        return Err(Fault::Chain(longest));
    }
    Ok(None)
}
