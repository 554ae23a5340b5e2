//! The one type of queue that a worker knows.

use std::io;
use std::os::fd::BorrowedFd;

use bora_buffer::{Packet, Pool, SharedFrames};

use crate::closing::Closing;
use crate::port_queue::PortQueue;
use crate::tally::StatsReader;
use crate::{af_packet, af_xdp, memif, memory, pcap, tap};

/// One queue of one port. Calls are once a batch, so the choice between the kinds costs nothing.
#[derive(Debug)]
pub enum Queue {
    /// A queue of a network interface.
    AfXdp(af_xdp::Socket),
    /// A queue to another one of this process.
    Memory(memory::Queue),
    /// A queue that is shared with another process.
    Memif(memif::Queue),
    /// A TAP interface: with Linux itself.
    Tap(tap::Queue),
    /// An interface of Linux, without its driver's help.
    AfPacket(af_packet::Queue),
    /// Capture files.
    Pcap(pcap::Queue),
    /// A kind that this crate does not know. It costs a virtual call a batch.
    Other(Box<dyn PortQueue>),
}

macro_rules! each {
    ($self:ident, $queue:ident => $call:expr) => {
        match $self {
            Queue::AfXdp($queue) => $call,
            Queue::Memory($queue) => $call,
            Queue::Memif($queue) => $call,
            Queue::Tap($queue) => $call,
            Queue::AfPacket($queue) => $call,
            Queue::Pcap($queue) => $call,
            Queue::Other($queue) => $call,
        }
    };
}

/// The calls of [`PortQueue`].
#[allow(missing_docs)]
impl Queue {
    /// A queue of a kind that this crate does not know.
    pub fn other(queue: impl PortQueue + 'static) -> Self {
        Self::Other(Box::new(queue))
    }

    #[inline]
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        each!(self, queue => queue.receive(out, max))
    }

    #[inline]
    pub fn waiting(&mut self, enough: usize) -> usize {
        each!(self, queue => queue.waiting(enough))
    }

    #[inline]
    pub fn refill(&mut self, pool: &mut Pool) {
        each!(self, queue => queue.refill(pool))
    }

    #[inline]
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        each!(self, queue => queue.transmit(packets))
    }

    #[inline]
    pub fn reclaim(&mut self, pool: &mut Pool) {
        each!(self, queue => queue.reclaim(pool))
    }

    #[inline]
    pub fn kick(&mut self) {
        each!(self, queue => queue.kick())
    }

    pub fn is_cut_off(&self) -> bool {
        each!(self, queue => queue.is_cut_off())
    }

    pub fn is_connected(&self) -> bool {
        each!(self, queue => queue.is_connected())
    }

    pub fn in_flight(&self) -> u32 {
        each!(self, queue => queue.in_flight())
    }

    pub fn frames(&self) -> u32 {
        each!(self, queue => queue.frames())
    }

    pub fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        each!(self, queue => queue.wait())
    }

    pub fn close(self, frames: &SharedFrames) -> Option<Closing> {
        match self {
            Self::AfXdp(queue) => Box::new(queue).close(frames),
            Self::Memory(queue) => Box::new(queue).close(frames),
            Self::Memif(queue) => Box::new(queue).close(frames),
            Self::Tap(queue) => Box::new(queue).close(frames),
            Self::AfPacket(queue) => Box::new(queue).close(frames),
            Self::Pcap(queue) => Box::new(queue).close(frames),
            Self::Other(queue) => queue.close(frames),
        }
    }

    /// # Errors
    /// No more file descriptors.
    pub fn stats_reader(&self) -> io::Result<StatsReader> {
        each!(self, queue => queue.stats_reader())
    }
}
