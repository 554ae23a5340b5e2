//! The rings of a client: buffers are frames of our own region, so nothing is copied.
//!
//! A frame in a ring is owned by that ring. The peer is told where it is, but where it is taken
//! from afterwards is our own note, never the peer's descriptor; of that only the length counts.

use std::collections::VecDeque;

use bora_buffer::{Frame, Packet, Pool, Purpose, Region};
use bora_contract::Reason;

use super::fault::Fault;
use super::ring::{DESC_FLAG_NEXT, Descriptor, Ring};
use crate::tally::Tally;

/// The region index of the packets; region 0 holds the rings.
pub(super) const BUFFERS: u16 = 1;
/// Slots that are filled at once.
const REFILL: usize = 32;

/// A ring from server to client (M2S): we put in empty frames and take out packets.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) ring: Ring,
    /// The frames in slots `taken..head`, in order.
    frames: VecDeque<Frame>,
    taken: u16,
    /// Frames of dropped packets, for the pool.
    dropped: Vec<Frame>,
    /// Frames from the pool, for the ring; empty but in [`Receiver::refill`].
    fresh: Vec<Frame>,
}

impl Receiver {
    pub(super) fn new(ring: Ring) -> Self {
        let size = usize::from(ring.size());
        Self {
            ring,
            frames: VecDeque::with_capacity(size),
            taken: 0,
            dropped: Vec::with_capacity(size),
            fresh: Vec::with_capacity(size),
        }
    }

    fn available(&self) -> Result<u16, Fault> {
        let limit = self.frames.len() as u16;
        self.ring.distance(self.taken, self.ring.tail(), limit)
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
        // buffers count, not packets: chains and bad packets cost time, too
        let (mut count, mut used) = (0, 0);
        // here, because a field would be stored and loaded again for each packet
        let mut taken = self.taken;
        while available > 0 && used < max {
            let descriptor = self.ring.descriptor(taken);
            if descriptor.flags & DESC_FLAG_NEXT != 0 {
                self.taken = taken;
                let Some(slots) = self.chain(available)? else {
                    break;
                };
                available -= slots;
                used += usize::from(slots);
                count += usize::from(self.merge(slots, region, out, tally));
                taken = self.taken;
                continue;
            }
            let Some(frame) = self.frames.pop_front() else {
                break;
            };
            taken = taken.wrapping_add(1);
            available -= 1;
            used += 1;
            match frame.into_packet(region, descriptor.length as usize) {
                Ok(packet) if packet.length() > 0 => {
                    // the peer's CPU has the line, and the headers will be written
                    region.prefetch(&packet, Purpose::Write);
                    out.push(packet);
                    count += 1;
                }
                Ok(packet) => {
                    tally.lost(Reason::RxMalformed, 1);
                    self.dropped.push(packet.into_frame(region));
                }
                Err(frame) => {
                    tally.lost(Reason::RxMalformed, 1);
                    self.dropped.push(frame);
                }
            }
        }
        self.taken = taken;
        Ok(count)
    }

    /// Slots of the chain that comes next; `None` while it is not all there.
    #[cold]
    fn chain(&self, available: u16) -> Result<Option<u16>, Fault> {
        let longest = self.ring.longest_chain();
        let last = (0..available.min(longest)).find(|&slot| {
            let index = self.taken.wrapping_add(slot);
            self.ring.descriptor(index).flags & DESC_FLAG_NEXT == 0
        });
        match last {
            Some(slot) => Ok(Some(slot + 1)),
            None if available >= longest => Err(Fault::Chain(longest)),
            None => Ok(None),
        }
    }

    /// Makes one packet of a chain of `slots` if it fits one frame.
    #[cold]
    fn merge(&mut self, slots: u16, region: &Region, out: &mut Vec<Packet>, tally: &Tally) -> bool {
        let mut merged: Option<Packet> = None;
        let (mut length, mut fits) = (0, true);
        for frame in self.frames.drain(..usize::from(slots)) {
            let part = self.ring.descriptor(self.taken).length as usize;
            self.taken = self.taken.wrapping_add(1);
            // as long as the frame allows, so that all fits that can
            let Ok(packet) = frame.into_packet(region, region.capacity()) else {
                continue;
            };
            fits &= part <= packet.length() && length + part <= packet.length();
            let Some(merged) = &mut merged else {
                length = part;
                merged = Some(packet);
                continue;
            };
            if fits {
                region.octets_mut(merged)[length..length + part]
                    .copy_from_slice(&region.octets(&packet)[..part]);
                length += part;
            }
            self.dropped.push(packet.into_frame(region));
        }
        let Some(mut packet) = merged else {
            return false;
        };
        if fits && length > 0 {
            packet.truncate(length);
            out.push(packet);
            return true;
        }
        tally.lost(Reason::RxTooLong, 1);
        self.dropped.push(packet.into_frame(region));
        false
    }

    #[inline]
    pub(super) fn refill(&mut self, region: &Region, pool: &mut Pool) {
        pool.give_many(self.dropped.drain(..));
        let size = usize::from(self.ring.size());
        let free = size - self.frames.len();
        if free < REFILL.min(size) {
            return;
        }
        pool.take_many(free, &mut self.fresh);
        let mut head = self.taken.wrapping_add(self.frames.len() as u16);
        for frame in &self.fresh {
            self.ring.set_descriptor(
                head,
                Descriptor {
                    region: BUFFERS,
                    length: region.capacity() as u32,
                    offset: frame.start(region) as u32,
                    ..Descriptor::default()
                },
            );
            head = head.wrapping_add(1);
        }
        self.frames.extend(self.fresh.drain(..));
        self.ring.set_head(head);
    }

    /// Frames in the ring, and of dropped packets.
    pub(super) fn frames(&self) -> usize {
        self.frames.len() + self.dropped.len()
    }

    /// Gives all frames back, and the ring; the peer has gone.
    pub(super) fn close(self, pool: &mut Pool) -> Ring {
        for frame in self.frames.into_iter().chain(self.dropped) {
            pool.give(frame);
        }
        self.ring
    }
}

/// A ring from client to server (S2M): we put in packets and take out their frames.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) ring: Ring,
    /// The packets in slots `reclaimed..head`, in order.
    packets: VecDeque<Packet>,
    reclaimed: u16,
}

impl Sender {
    pub(super) fn new(ring: Ring) -> Self {
        let size = usize::from(ring.size());
        Self {
            ring,
            packets: VecDeque::with_capacity(size),
            reclaimed: 0,
        }
    }

    #[inline]
    pub(super) fn transmit(&mut self, packets: &mut Vec<Packet>, tally: &Tally) -> usize {
        let free = usize::from(self.ring.size()) - self.packets.len();
        let count = packets.len().min(free);
        let mut head = self.reclaimed.wrapping_add(self.packets.len() as u16);
        for packet in &packets[..count] {
            self.ring.set_descriptor(
                head,
                Descriptor {
                    region: BUFFERS,
                    length: packet.length() as u32,
                    offset: packet.offset(),
                    ..Descriptor::default()
                },
            );
            head = head.wrapping_add(1);
        }
        self.packets.extend(packets.drain(..count));
        tally.sent(count as u64);
        self.ring.set_head(head);
        count
    }

    #[inline]
    pub(super) fn reclaim(&mut self, region: &Region, pool: &mut Pool) -> Result<(), Fault> {
        let limit = self.packets.len() as u16;
        let taken = self
            .ring
            .distance(self.reclaimed, self.ring.tail(), limit)?;
        let sent = self.packets.drain(..usize::from(taken));
        pool.give_many(sent.map(|packet| packet.into_frame(region)));
        self.reclaimed = self.reclaimed.wrapping_add(taken);
        Ok(())
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Gives all frames back, and the ring; the peer has gone. What it did not take is lost.
    pub(super) fn close(mut self, region: &Region, pool: &mut Pool, tally: &Tally) -> Ring {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "an index out of range means that nothing more is known to have been taken"
        )]
        let _ = self.reclaim(region, pool);
        tally.take_back(Reason::TxLinkDown, self.packets.len() as u64);
        for packet in self.packets {
            pool.give(packet.into_frame(region));
        }
        self.ring
    }
}
