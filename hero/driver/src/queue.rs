//! The worker's queue of a card, and the frames that it exchanges with the card's driver.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bora_buffer::{Frame, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;
use bora_port::{Bell, Closing, PortQueue, StatsReader, Tally};
use crossbeam_queue::ArrayQueue;

use crate::counters::{CardCounters, Reader};

/// Most frames in each direction.
pub(crate) const STOCK: usize = bora_buffer::MAX_BATCH;

/// Frames between worker and driver. Except during a call of the driver, all frames are in here or
/// with the worker.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) region: Arc<Region>,
    /// Frames to receive into, and received packets.
    pub(crate) free: ArrayQueue<Frame>,
    pub(crate) received: ArrayQueue<Packet>,
    /// Packets to send, and frames of sent ones.
    pub(crate) to_send: ArrayQueue<Packet>,
    pub(crate) sent: ArrayQueue<Frame>,
    /// Wakes the worker, and the driver's thread.
    pub(crate) worker: Bell,
    pub(crate) driver: Arc<Bell>,
    /// Whether the card works.
    pub(crate) up: AtomicBool,
    pub(crate) tally: Arc<Tally>,
    pub(crate) counters: Arc<CardCounters>,
}

impl Exchange {
    pub(crate) fn new(region: Arc<Region>, driver: Arc<Bell>) -> io::Result<Self> {
        Ok(Self {
            region,
            // the driver may hold one frame while the worker counts them
            free: ArrayQueue::new(STOCK + 1),
            received: ArrayQueue::new(STOCK + 1),
            to_send: ArrayQueue::new(STOCK),
            sent: ArrayQueue::new(STOCK),
            worker: Bell::new()?,
            driver,
            up: AtomicBool::new(false),
            tally: Arc::default(),
            counters: Arc::new(CardCounters::new()),
        })
    }
}

/// A worker's queue. While the card is down it receives nothing, and drops and counts what it
/// should transmit.
#[derive(Debug)]
pub(crate) struct Queue {
    exchange: Arc<Exchange>,
    /// Packets given to the driver whose frames have not come back.
    in_flight: usize,
    /// Packets have been queued since the driver's bell was rung.
    untold: bool,
    /// The worker may sleep.
    waiting: bool,
    /// Frames of packets that were dropped because the card is down; they go to the pool.
    lost: Vec<Frame>,
    /// Frames that the driver has for receiving.
    lent: usize,
}

impl Queue {
    pub(crate) fn new(exchange: Arc<Exchange>) -> Self {
        Self {
            exchange,
            in_flight: 0,
            untold: false,
            waiting: false,
            lost: Vec::with_capacity(STOCK),
            lent: 0,
        }
    }
}

impl PortQueue for Queue {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        if std::mem::take(&mut self.waiting) {
            self.exchange.worker.after_sleep();
        }
        let before = out.len();
        out.extend(std::iter::from_fn(|| self.exchange.received.pop()).take(max));
        let count = out.len() - before;
        self.lent -= count;
        count
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.exchange.received.len().min(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        let exchange = &self.exchange;
        while exchange.free.len() + exchange.received.len() < STOCK {
            let Some(frame) = pool.take() else { break };
            if let Err(frame) = exchange.free.push(frame) {
                return pool.give(frame);
            }
            self.lent += 1;
        }
    }

    /// While the card is down, packets are dropped and counted, as in Linux.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let exchange = &self.exchange;
        if !exchange.up.load(Relaxed) {
            let count = packets.len();
            exchange.tally.refused(Reason::TxLinkDown, count as u64);
            let frames = packets.drain(..).map(|p| p.into_frame(&exchange.region));
            self.lost.extend(frames);
            return count;
        }
        let count = packets.len().min(STOCK - self.in_flight);
        exchange.tally.sent(count as u64);
        for packet in packets.drain(..count) {
            // there is room, because at most STOCK are in flight
            if let Err(packet) = exchange.to_send.push(packet) {
                self.lost.push(packet.into_frame(&exchange.region));
                exchange.tally.take_back(Reason::TxRefused, 1);
                continue;
            }
            self.in_flight += 1;
        }
        self.untold |= count > 0;
        count
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        for frame in self.lost.drain(..) {
            pool.give(frame);
        }
        let exchange = &self.exchange;
        while let Some(frame) = exchange.sent.pop() {
            self.in_flight -= 1;
            pool.give(frame);
        }
        if !exchange.up.load(Relaxed) {
            // the driver does not take them any more
            while let Some(packet) = exchange.to_send.pop() {
                self.in_flight -= 1;
                exchange.tally.take_back(Reason::TxLinkDown, 1);
                pool.give(packet.into_frame(&exchange.region));
            }
        }
    }

    /// Tells the driver that there are packets.
    fn kick(&mut self) {
        if std::mem::take(&mut self.untold) {
            self.exchange.driver.ring();
        }
    }

    fn in_flight(&self) -> u32 {
        (self.in_flight + self.lost.len()) as u32
    }

    fn frames(&self) -> u32 {
        self.lent as u32 + self.in_flight()
    }

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.waiting = true;
        let exchange = &self.exchange;
        exchange.worker.before_sleep();
        if !exchange.received.is_empty() {
            exchange.worker.ring();
        }
        Some(exchange.worker.as_fd())
    }

    /// The port must have been dropped before.
    fn close(self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        let Exchange {
            region,
            free,
            received,
            to_send,
            sent,
            tally,
            ..
        } = &*self.exchange;
        tally.take_back(Reason::TxLinkDown, to_send.len() as u64);
        let packets = std::iter::from_fn(|| received.pop().or_else(|| to_send.pop()));
        let empty = std::iter::from_fn(|| free.pop().or_else(|| sent.pop()));
        packets
            .map(|packet| packet.into_frame(region))
            .chain(empty)
            .chain(self.lost)
            .for_each(|frame| frames.give(frame));
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(StatsReader::new(Reader {
            counters: self.exchange.counters.clone(),
            tally: self.exchange.tally.clone(),
        }))
    }
}
