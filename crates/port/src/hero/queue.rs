//! A worker's end of a card, and what it exchanges with the card's driver.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bora_buffer::{Frame, Packet, Pool, Region, SharedFrames};
use crossbeam_queue::ArrayQueue;

use super::counters::{CardCounters, StatsReader};
use crate::Bell;
use crate::losses::Losses;

/// Frames of each direction.
pub(super) const STOCK: usize = bora_buffer::MAX_BATCH;

/// Frames on their way between worker and driver. All of them are in here or with the worker while
/// the driver is not in a call.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) region: Arc<Region>,
    /// To receive into, and received.
    pub(super) free: ArrayQueue<Frame>,
    pub(super) received: ArrayQueue<Packet>,
    /// To be sent, and what they leave.
    pub(super) to_send: ArrayQueue<Packet>,
    pub(super) sent: ArrayQueue<Frame>,
    /// Wakes the worker, and the driver's thread.
    pub(super) worker: Bell,
    pub(super) driver: Arc<Bell>,
    /// Whether the card works.
    pub(super) up: AtomicBool,
    pub(super) losses: Arc<Losses>,
    pub(super) counters: Arc<CardCounters>,
}

impl Exchange {
    pub(super) fn new(region: Arc<Region>, driver: Arc<Bell>) -> io::Result<Self> {
        Ok(Self {
            region,
            // the driver may hold one frame when the worker looks how many there are
            free: ArrayQueue::new(STOCK + 1),
            received: ArrayQueue::new(STOCK + 1),
            to_send: ArrayQueue::new(STOCK),
            sent: ArrayQueue::new(STOCK),
            worker: Bell::new()?,
            driver,
            up: AtomicBool::new(false),
            losses: Arc::default(),
            counters: Arc::new(CardCounters::new()),
        })
    }
}

/// One queue. Its calls are those of [`crate::Queue`]; while the card is down it receives nothing
/// and loses what it is to transmit.
#[derive(Debug)]
pub struct Queue {
    exchange: Arc<Exchange>,
    /// Packets given to the driver whose frames are not back.
    in_flight: usize,
    /// Packets were given that the driver was not told of.
    untold: bool,
    /// The worker may sleep.
    waiting: bool,
    /// Frames of packets that found no card, for the pool.
    lost: Vec<Frame>,
    /// Frames that the driver has to receive into or has received into.
    lent: usize,
}

impl Queue {
    pub(super) fn new(exchange: Arc<Exchange>) -> Self {
        Self {
            exchange,
            in_flight: 0,
            untold: false,
            waiting: false,
            lost: Vec::with_capacity(STOCK),
            lent: 0,
        }
    }

    /// A handle to read what it and its card lost.
    pub fn stats_reader(&self) -> StatsReader {
        StatsReader {
            counters: self.exchange.counters.clone(),
            losses: self.exchange.losses.clone(),
        }
    }

    /// See [`crate::Queue::receive`].
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        if std::mem::take(&mut self.waiting) {
            self.exchange.worker.get_up();
        }
        let before = out.len();
        out.extend(std::iter::from_fn(|| self.exchange.received.pop()).take(max));
        let count = out.len() - before;
        self.lent -= count;
        count
    }

    /// See [`crate::Queue::waiting`].
    pub fn waiting(&mut self, enough: usize) -> usize {
        self.exchange.received.len().min(enough)
    }

    /// See [`crate::Queue::refill`].
    pub fn refill(&mut self, pool: &mut Pool) {
        let exchange = &self.exchange;
        while exchange.free.len() + exchange.received.len() < STOCK {
            let Some(frame) = pool.take() else { break };
            if let Err(frame) = exchange.free.push(frame) {
                return pool.give(frame);
            }
            self.lent += 1;
        }
    }

    /// See [`crate::Queue::transmit`]. What finds no card is lost by name, as in Linux.
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let exchange = &self.exchange;
        if !exchange.up.load(Relaxed) {
            let count = packets.len();
            exchange.losses.tx_link_down.add(count as u64);
            let frames = packets.drain(..).map(|p| p.into_frame(&exchange.region));
            self.lost.extend(frames);
            return count;
        }
        let count = packets.len().min(STOCK - self.in_flight);
        for packet in packets.drain(..count) {
            // there is room: no more than STOCK are in flight
            if let Err(packet) = exchange.to_send.push(packet) {
                self.lost.push(packet.into_frame(&exchange.region));
                exchange.losses.tx_refused.add(1);
                continue;
            }
            self.in_flight += 1;
        }
        self.untold |= count > 0;
        count
    }

    /// See [`crate::Queue::reclaim`].
    pub fn reclaim(&mut self, pool: &mut Pool) {
        for frame in self.lost.drain(..) {
            pool.give(frame);
        }
        let exchange = &self.exchange;
        while let Some(frame) = exchange.sent.pop() {
            self.in_flight -= 1;
            pool.give(frame);
        }
        if !exchange.up.load(Relaxed) {
            // nobody else will take them
            while let Some(packet) = exchange.to_send.pop() {
                self.in_flight -= 1;
                exchange.losses.tx_link_down.add(1);
                pool.give(packet.into_frame(&exchange.region));
            }
        }
    }

    /// Tells the driver that there are packets.
    pub fn kick(&mut self) {
        if std::mem::take(&mut self.untold) {
            self.exchange.driver.ring();
        }
    }

    /// See [`crate::Queue::in_flight`].
    pub fn in_flight(&self) -> u32 {
        (self.in_flight + self.lost.len()) as u32
    }

    /// See [`crate::Queue::frames`].
    pub fn frames(&self) -> u32 {
        self.lent as u32 + self.in_flight()
    }

    /// See [`crate::Queue::wait`].
    pub fn wait(&mut self) -> BorrowedFd<'_> {
        self.waiting = true;
        let exchange = &self.exchange;
        exchange.worker.lie_down();
        if !exchange.received.is_empty() {
            exchange.worker.ring();
        }
        exchange.worker.as_fd()
    }

    /// See [`crate::Queue::close`]. The port must be gone before.
    pub fn close(self, frames: &SharedFrames) {
        let Exchange {
            region,
            free,
            received,
            to_send,
            sent,
            losses,
            ..
        } = &*self.exchange;
        losses.tx_link_down.add(to_send.len() as u64);
        let packets = std::iter::from_fn(|| received.pop().or_else(|| to_send.pop()));
        let empty = std::iter::from_fn(|| free.pop().or_else(|| sent.pop()));
        packets
            .map(|packet| packet.into_frame(region))
            .chain(empty)
            .chain(self.lost)
            .for_each(|frame| frames.give(frame));
    }
}
