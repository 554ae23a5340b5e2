//! The queue in front of another one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{Frame, MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_port::{Closing, PortQueue, StatsReader};
use rustix::time::{ClockId, clock_gettime};

use super::counters::{FaultCounters, Handle};
use super::decide::{Decider, Fate};
use super::hold::Hold;
use super::spec::Faults;

/// Tells from a packet's octets when it arrived, ns of CLOCK_MONOTONIC, or `None` for the time at
/// which it was found.
///
/// Packets that carry the time at which they were due make capacity and outage exact however busy
/// the machine is.
pub type Arrival = fn(&[u8]) -> Option<u64>;

/// A queue with faults on its way in; its way out is that of the queue behind.
#[derive(Debug)]
pub struct Queue {
    inner: bora_port::Queue,
    region: Arc<Region>,
    arrival: Option<Arrival>,
    decider: Decider,
    hold: Hold<Packet>,
    /// What is due.
    ready: VecDeque<Packet>,
    /// What just arrived.
    fresh: Vec<Packet>,
    /// Frames for copies.
    free: Vec<Frame>,
    copies: bool,
    /// Frames of packets that were lost.
    freed: Vec<Frame>,
    counters: FaultCounters,
    handle: Handle,
}

impl Queue {
    /// Puts `faults` in front of `inner`, whose packets are in `region`. Packets arrive when they
    /// are found, or when `arrival` says.
    ///
    /// # Errors
    /// [`Faults::check`] refuses the faults.
    pub fn new(
        inner: bora_port::Queue,
        region: Arc<Region>,
        faults: Faults,
        arrival: Option<Arrival>,
    ) -> Result<(Self, Handle), String> {
        faults.check()?;
        let handle = Handle::default();
        let queue = Self {
            inner,
            region,
            arrival,
            copies: faults.duplication > 0.0,
            decider: Decider::new(faults),
            hold: Hold::new(),
            ready: VecDeque::new(),
            fresh: Vec::with_capacity(MAX_BATCH),
            free: Vec::new(),
            freed: Vec::new(),
            counters: FaultCounters::default(),
            handle: handle.clone(),
        };
        Ok((queue, handle))
    }

    /// Takes in what has arrived, and lets go what is due.
    fn advance(&mut self) {
        let down = self.handle.shared().down.clone();
        let mut fresh = std::mem::take(&mut self.fresh);
        let now = now();
        self.inner.receive(&mut fresh, MAX_BATCH);
        for packet in fresh.drain(..) {
            let stamped = self.arrival.and_then(|at| at(self.region.octets(&packet)));
            let arrival = stamped.unwrap_or(now);
            self.counters.came += 1;
            if down.contains(&arrival) {
                self.counters.outage += 1;
                self.freed.push(packet.into_frame(&self.region));
            } else {
                self.meet(packet, arrival);
            }
        }
        self.fresh = fresh;
        while let Some(packet) = self.hold.take(now) {
            self.ready.push_back(packet);
        }
        self.counters.reordered = self.hold.reordered();
    }

    /// Lets a packet meet its fate.
    fn meet(&mut self, packet: Packet, arrival: u64) {
        let lost = match self.decider.decide(arrival) {
            Fate::Lost => &mut self.counters.lost,
            Fate::BufferFull => &mut self.counters.buffer_full,
            Fate::Passes { due, behind, twice } => {
                let copy = if twice { self.copy(&packet) } else { None };
                for mut packet in std::iter::once(packet).chain(copy) {
                    let octets = self.region.octets_mut(&mut packet);
                    self.counters.corrupted += u64::from(self.decider.corrupt(octets));
                    match behind {
                        0 => self.hold.put(packet, due),
                        _ => self.hold.put_behind(packet, due, behind),
                    }
                }
                return;
            }
        };
        *lost += 1;
        self.freed.push(packet.into_frame(&self.region));
    }

    /// A copy in a frame of the stock, if there is one.
    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let Some(frame) = self.free.pop() else {
            self.counters.not_duplicated += 1;
            return None;
        };
        match frame.into_packet(&self.region, packet.length()) {
            Ok(mut copy) => {
                let octets = self.region.octets(packet);
                self.region.octets_mut(&mut copy).copy_from_slice(octets);
                copy.set_mark(packet.mark());
                self.counters.duplicated += 1;
                Some(copy)
            }
            // longer than a frame holds behind its headroom
            Err(frame) => {
                self.free.push(frame);
                self.counters.not_duplicated += 1;
                None
            }
        }
    }

    fn publish(&mut self) {
        self.counters.held = (self.hold.len() + self.ready.len()) as u64;
        self.handle.shared().counters = self.counters;
    }
}

impl PortQueue for Queue {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        self.advance();
        let count = max.min(self.ready.len());
        out.extend(self.ready.drain(..count));
        self.counters.passed += count as u64;
        self.publish();
        count
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.advance();
        self.publish();
        self.ready.len().min(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        pool.give_many(self.freed.drain(..));
        if self.copies {
            pool.take_many(MAX_BATCH - self.free.len(), &mut self.free);
        }
        self.inner.refill(pool);
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.inner.transmit(packets)
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.inner.reclaim(pool);
    }

    fn kick(&mut self) {
        self.inner.kick();
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn frames(&self) -> u32 {
        let held = self.hold.len() + self.ready.len();
        (held + self.free.len() + self.freed.len()) as u32 + self.inner.frames()
    }

    /// Nothing tells when a packet on its way is due.
    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        if self.hold.len() + self.ready.len() > 0 {
            return None;
        }
        self.inner.wait()
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        let region = &self.region;
        let held = self.hold.drain().chain(self.ready.drain(..));
        let held = held.map(|packet| packet.into_frame(region));
        let free = self.free.drain(..).chain(self.freed.drain(..));
        held.chain(free).for_each(|frame| frames.give(frame));
        self.inner.close(frames)
    }

    /// What the faults lost is in [`FaultCounters`].
    fn stats_reader(&self) -> io::Result<StatsReader> {
        self.inner.stats_reader()
    }
}

/// CLOCK_MONOTONIC in ns.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
