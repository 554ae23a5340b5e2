//! One queue of a memif port: a ring in each direction, while the link is up.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bora_buffer::{Frame, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;

use super::control::RingPair;
use super::fault::Fault;
use super::server::Regions;
use super::{client, server};
use crate::closing::Closing;
use crate::port_queue::PortQueue;
use crate::tally::{StatsReader, Tally};
use bora_linux::lock;

/// Where the control channel leaves new rings for the queue, and the queue its complaints. The
/// lock is touched only when the link goes up or down.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    changed: AtomicBool,
    rings: Mutex<Option<RingPair>>,
    /// Rings that the queue has done with. To unmap them takes time, which a worker has not.
    old: Mutex<Vec<RingPair>>,
    faulty: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Mailbox {
    /// Replaces the queue's rings; `None` takes them away.
    pub(super) fn put(&self, rings: Option<RingPair>) {
        self.take_fault();
        *lock(&self.rings) = rings;
        self.changed.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Option<RingPair>> {
        if !self.changed.load(Ordering::Relaxed) {
            return None;
        }
        // under the lock, so that the flag and what it speaks of change together
        let mut rings = lock(&self.rings);
        self.changed
            .swap(false, Ordering::Acquire)
            .then(|| rings.take())
    }

    fn give_back(&self, rings: RingPair) {
        let mut old = lock(&self.old);
        old.push(rings);
    }

    /// What the queue has done with, to be dropped.
    pub(super) fn take_old(&self) -> Vec<RingPair> {
        std::mem::take(&mut lock(&self.old))
    }

    fn complain(&self, fault: Fault) {
        *lock(&self.fault) = Some(fault);
        self.faulty.store(true, Ordering::Release);
    }

    /// What the peer did wrong, once.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        if !self.faulty.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut fault = lock(&self.fault);
        fault.take()
    }
}

#[derive(Debug)]
enum Receiver {
    Client(client::Receiver),
    Server(server::Receiver),
}

#[derive(Debug)]
enum Sender {
    Client(client::Sender),
    Server(server::Sender),
}

/// One queue. While the link is down it receives nothing
/// and loses what it is to transmit.
#[derive(Debug)]
pub struct Queue {
    region: Arc<Region>,
    mailbox: Arc<Mailbox>,
    tally: Arc<Tally>,
    receiver: Option<Receiver>,
    sender: Option<Sender>,
    /// What the rings' buffers are in, if we are the server.
    regions: Option<Regions>,
    /// The peer broke a rule: hands off its rings until the control channel takes them away.
    broken: bool,
    /// The peer may write to our eventfd.
    waiting: bool,
    /// Packets were sent and the peer was not told.
    untold: bool,
    /// Frames of packets that found no link, for the pool.
    lost: Vec<Frame>,
}

impl Queue {
    pub(super) fn new(region: Arc<Region>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            region,
            mailbox,
            tally: Arc::default(),
            receiver: None,
            sender: None,
            regions: None,
            broken: false,
            waiting: false,
            untold: false,
            lost: Vec::with_capacity(bora_buffer::MAX_BATCH),
        }
    }

    /// Whether it has rings to receive from and to send to, in this order. A peer with fewer queues gives
    /// rings to the first only.
    pub fn is_up(&self) -> (bool, bool) {
        let up = !self.broken;
        (up && self.receiver.is_some(), up && self.sender.is_some())
    }

    /// Fetches what the peer has written of its progress with our packets: coming here takes as long as the packets took.
    #[inline]
    fn prefetch_peer(&self) {
        match &self.sender {
            None => {}
            Some(Sender::Client(sender)) => sender.ring.prefetch_tail(),
            Some(Sender::Server(sender)) => sender.ring.prefetch_head(),
        }
    }

    #[cold]
    fn end_wait(&mut self) {
        self.waiting = false;
        let ring = match &self.receiver {
            None => return,
            Some(Receiver::Client(receiver)) => &receiver.ring,
            Some(Receiver::Server(receiver)) => &receiver.ring,
        };
        ring.mask_interrupt();
        ring.clear_interrupt();
    }

    #[cold]
    fn lose(&mut self, packets: &mut Vec<Packet>) -> usize {
        let count = packets.len();
        self.tally.refused(Reason::TxLinkDown, count as u64);
        let frames = packets.drain(..).map(|p| p.into_frame(&self.region));
        self.lost.extend(frames);
        count
    }

    #[cold]
    fn give_up(&mut self, fault: Fault) -> usize {
        self.broken = true;
        self.mailbox.complain(fault);
        0
    }

    #[cold]
    fn replace(&mut self, rings: Option<RingPair>, pool: &mut Pool) {
        let rx = self.receiver.take().map(|receiver| match receiver {
            Receiver::Client(receiver) => receiver.close(pool),
            Receiver::Server(receiver) => receiver.close(pool),
        });
        let tx = self.sender.take().map(|sender| match sender {
            Sender::Client(sender) => sender.close(&self.region, pool, &self.tally),
            Sender::Server(sender) => sender.close(pool),
        });
        if rx.is_some() || tx.is_some() {
            let regions = self.regions.take();
            self.mailbox.give_back(RingPair { rx, tx, regions });
        }
        (self.broken, self.waiting, self.untold) = (false, false, false);
        let Some(rings) = rings else { return };
        if let Some(ring) = &rings.rx {
            ring.mask_interrupt();
        }
        match rings.regions {
            None => {
                let receiver = |ring| Receiver::Client(client::Receiver::new(ring));
                self.receiver = rings.rx.map(receiver);
                let sender = |ring| Sender::Client(client::Sender::new(ring));
                self.sender = rings.tx.map(sender);
            }
            Some(regions) => {
                self.regions = Some(regions.clone());
                let receiver =
                    |ring| Receiver::Server(server::Receiver::new(ring, regions.clone()));
                self.receiver = rings.rx.map(receiver);
                let sender = |ring| Sender::Server(server::Sender::new(ring, regions.clone()));
                self.sender = rings.tx.map(sender);
            }
        }
    }
}

impl PortQueue for Queue {
    fn is_connected(&self) -> bool {
        self.is_up() == (true, true)
    }

    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        if self.broken {
            return 0;
        }
        if self.waiting {
            self.end_wait();
        }
        let received = match &mut self.receiver {
            None => return 0,
            Some(Receiver::Client(ring)) => ring.receive(&self.region, out, max, &self.tally),
            Some(Receiver::Server(ring)) => ring.receive(&self.region, out, max, &self.tally),
        };
        match received {
            Ok(count) => {
                if count > 0 {
                    self.prefetch_peer();
                }
                count
            }
            Err(fault) => self.give_up(fault),
        }
    }

    /// Counts buffers, of which a long packet may have several.
    fn waiting(&mut self, enough: usize) -> usize {
        let packets = match &self.receiver {
            _ if self.broken => 0,
            None => 0,
            Some(Receiver::Client(receiver)) => receiver.waiting(),
            Some(Receiver::Server(receiver)) => receiver.waiting(),
        };
        packets.min(enough)
    }

    /// Takes over new rings when the link has gone up.
    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        if let Some(rings) = self.mailbox.take() {
            self.replace(rings, pool);
        }
        if self.broken {
            return;
        }
        match &mut self.receiver {
            None => {}
            Some(Receiver::Client(ring)) => ring.refill(&self.region, pool),
            Some(Receiver::Server(ring)) => ring.refill(pool),
        }
    }

    /// What finds no link is lost by name, as in Linux.
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        if self.broken || self.sender.is_none() {
            return self.lose(packets);
        }
        let before = packets.len();
        let sent = match &mut self.sender {
            None => return 0,
            Some(Sender::Client(ring)) => Ok(ring.transmit(packets, &self.tally)),
            Some(Sender::Server(ring)) => ring.transmit(&self.region, packets, &self.tally),
        };
        if let Err(fault) = sent {
            self.give_up(fault);
        }
        let sent = before - packets.len();
        self.untold |= sent > 0;
        sent
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) {
        for frame in self.lost.drain(..) {
            pool.give(frame);
        }
        let reclaimed = match &mut self.sender {
            Some(Sender::Client(ring)) if !self.broken => ring.reclaim(&self.region, pool),
            Some(Sender::Server(ring)) => {
                ring.reclaim(pool);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(fault) = reclaimed {
            self.give_up(fault);
        }
    }

    /// Wakes a peer that sleeps.
    #[inline]
    fn kick(&mut self) {
        if !std::mem::take(&mut self.untold) {
            return;
        }
        match &self.sender {
            None => {}
            Some(Sender::Client(sender)) => sender.ring.interrupt_unless_masked(),
            Some(Sender::Server(sender)) => sender.ring.interrupt_unless_masked(),
        }
    }

    fn in_flight(&self) -> u32 {
        let sent = match &self.sender {
            None => 0,
            Some(Sender::Client(ring)) => ring.in_flight(),
            Some(Sender::Server(ring)) => ring.in_flight(),
        };
        sent + self.lost.len() as u32
    }

    fn frames(&self) -> u32 {
        let to_receive = match &self.receiver {
            None => 0,
            Some(Receiver::Client(receiver)) => receiver.frames(),
            Some(Receiver::Server(receiver)) => receiver.frames(),
        };
        to_receive as u32 + self.in_flight()
    }

    /// `None` while the link is down.
    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        if self.broken {
            return None;
        }
        let (ring, has_packets): (_, &dyn Fn() -> bool) = match self.receiver.as_ref()? {
            Receiver::Client(receiver) => (&receiver.ring, &|| receiver.has_packets()),
            Receiver::Server(receiver) => (&receiver.ring, &|| receiver.has_packets()),
        };
        ring.unmask_interrupt();
        self.waiting = true;
        if has_packets() {
            ring.interrupt();
        }
        Some(ring.interrupt_fd())
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        self.replace(None, &mut Pool::new(frames.clone(), 0));
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(StatsReader::new(self.tally.clone()))
    }
}
