//! The one type of queue a worker knows.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{Packet, Pool, SharedFrames};

use crate::losses::Losses;
use crate::{af_packet, af_xdp, fault, hero, memif, memory, pcap, tap};

/// One queue of one port: a way in and a way out, owned by one worker. Calls are once a batch, so
/// the choice between the kinds costs nothing.
#[derive(Debug)]
pub enum Queue {
    /// A queue of a network interface.
    AfXdp(af_xdp::Socket),
    /// In this process.
    Memory(memory::Queue),
    /// Shared with another process.
    Memif(memif::Queue),
    /// A TAP interface: with Linux itself.
    Tap(tap::Queue),
    /// An interface of Linux, without its driver's help.
    AfPacket(af_packet::Queue),
    /// Capture files.
    Pcap(pcap::Queue),
    /// A HERO card.
    Hero(hero::Queue),
    /// Another queue with faults in front, for tests.
    Faulty(Box<fault::Queue>),
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
            Queue::Hero($queue) => $call,
            Queue::Faulty($queue) => $call,
        }
    };
}

impl Queue {
    /// Moves up to `max` received packets to `out`; returns how many.
    #[inline]
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        each!(self, queue => queue.receive(out, max))
    }

    /// Received packets that wait; the count may stop at `enough`.
    #[inline]
    pub fn waiting(&mut self, enough: usize) -> usize {
        each!(self, queue => queue.waiting(enough))
    }

    /// Gives the queue the free frames it needs to receive; to be called after every
    /// [`Queue::receive`], whether or not it found packets.
    #[inline]
    pub fn refill(&mut self, pool: &mut Pool) {
        each!(self, queue => queue.refill(pool))
    }

    /// Moves packets from the front of `packets` to the way out while there is room; returns how
    /// many. Call [`Queue::kick`] afterwards.
    #[inline]
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        each!(self, queue => queue.transmit(packets))
    }

    /// Takes frames back that were sent.
    #[inline]
    pub fn reclaim(&mut self, pool: &mut Pool) {
        each!(self, queue => queue.reclaim(pool))
    }

    /// Tells the other side that there are packets, where it wants to be told.
    #[inline]
    pub fn kick(&mut self) {
        match self {
            Self::AfXdp(queue) => queue.kick(),
            Self::Memory(queue) => queue.kick(),
            Self::Memif(queue) => queue.kick(),
            Self::Hero(queue) => queue.kick(),
            Self::Faulty(queue) => queue.kick(),
            // sent is told
            Self::Tap(_) | Self::AfPacket(_) | Self::Pcap(_) => {}
        }
    }

    /// Whether nothing that was transmitted moves any more, for the interface is down or gone.
    pub fn is_cut_off(&self) -> bool {
        match self {
            Self::AfXdp(socket) => socket.is_cut_off(),
            _ => false,
        }
    }

    /// Packets given to [`Queue::transmit`] whose frames are not back yet.
    pub fn in_flight(&self) -> u32 {
        each!(self, queue => queue.in_flight())
    }

    /// Frames of the region that it has: to receive into, received, to be sent, sent and not reclaimed.
    /// What is in a ring between two queues of this process counts with neither.
    pub fn frames(&self) -> u32 {
        each!(self, queue => queue.frames())
    }

    /// Prepares for sleep: a descriptor that is readable once packets have come since the last
    /// [`Queue::receive`]. `None` if nothing tells; then look again after a while.
    pub fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::AfXdp(queue) => queue.wait(),
            Self::Memory(queue) => queue.wait(),
            Self::Memif(queue) => queue.wait(),
            Self::Faulty(queue) => queue.wait(),
            Self::Tap(queue) => Some(queue.wait()),
            Self::AfPacket(queue) => Some(queue.wait()),
            Self::Hero(queue) => Some(queue.wait()),
            Self::Pcap(queue) => {
                queue.flush();
                None
            }
        }
    }

    /// Closes the queue; frames that it still held go to `frames`, those that the kernel may still
    /// use through what is returned. Its [`StatsReader`]s must be gone before.
    pub fn close(self, frames: &SharedFrames) -> Option<af_xdp::Closing> {
        match self {
            Self::AfXdp(socket) => return Some(socket.close()),
            Self::Tap(queue) => queue.close(frames),
            Self::AfPacket(queue) => queue.close(frames),
            Self::Pcap(queue) => queue.close(frames),
            Self::Memif(queue) => queue.close(frames),
            Self::Hero(queue) => queue.close(frames),
            Self::Faulty(queue) => return queue.close(frames),
            // its owner empties it before
            Self::Memory(_) => {}
        }
        None
    }

    /// A handle to read from another thread what the queue lost.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(match self {
            Self::AfXdp(socket) => StatsReader::AfXdp(socket.stats_reader()?),
            Self::Memory(queue) => match queue.arrivals() {
                Some(arrivals) => StatsReader::Paced(arrivals),
                None => StatsReader::Lossless,
            },
            Self::Memif(queue) => StatsReader::Own(queue.losses()),
            Self::Tap(queue) => StatsReader::Own(queue.losses()),
            Self::AfPacket(queue) => StatsReader::AfPacket(queue.stats_reader()?),
            Self::Pcap(queue) => StatsReader::Own(queue.losses()),
            Self::Hero(queue) => StatsReader::Hero(queue.stats_reader()),
            Self::Faulty(queue) => queue.stats_reader()?,
        })
    }
}

/// Packets lost between the wire and the worker. Zero for ever where a kind of port has no such
/// loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Dropped because the receive ring was full (AF_XDP, AF_PACKET, paced memory).
    pub rx_ring_full: u64,
    /// Dropped because no free frame was at hand, or too long for one (AF_XDP).
    pub rx_dropped: u64,
    /// Dropped because a frame has no room for a packet this long (memif, TAP, AF_PACKET, pcap).
    pub rx_too_long: u64,
    /// Empty, or with more octets than the buffer it came in (memif), or not whole in its file
    /// (pcap), or not written by the card for an error (HERO).
    pub rx_malformed: u64,
    /// Transmit descriptors the kernel refused (AF_XDP).
    pub tx_invalid: u64,
    /// Sent, but the peer went away, or the card was reset, before it took them (memif, HERO).
    pub tx_link_down: u64,
    /// Refused by Linux, for instance because the interface is down or the disk full (TAP,
    /// AF_PACKET, pcap), or too long for all buffers of the peer (memif).
    pub tx_refused: u64,
    /// What the card itself counts (HERO).
    pub card: hero::CardStats,
}

impl QueueStats {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rx_ring_full: self.rx_ring_full + other.rx_ring_full,
            rx_dropped: self.rx_dropped + other.rx_dropped,
            rx_too_long: self.rx_too_long + other.rx_too_long,
            rx_malformed: self.rx_malformed + other.rx_malformed,
            tx_invalid: self.tx_invalid + other.tx_invalid,
            tx_link_down: self.tx_link_down + other.tx_link_down,
            tx_refused: self.tx_refused + other.tx_refused,
            card: self.card.plus(other.card),
        }
    }
}

/// Reads what a queue lost, from any thread.
#[derive(Debug)]
pub enum StatsReader {
    /// The kernel's counters.
    AfXdp(af_xdp::StatsReader),
    /// Memory ports lose nothing,
    Lossless,
    /// except paced ones.
    Paced(memory::Arrivals),
    /// The kernel's counter and the queue's own.
    AfPacket(af_packet::StatsReader),
    /// The queue's own counters.
    Own(Arc<Losses>),
    /// The queue's own counters and the card's.
    Hero(hero::StatsReader),
}

impl StatsReader {
    /// The numbers now; zeros if the kernel does not tell.
    pub fn read(&self) -> QueueStats {
        match self {
            Self::AfXdp(reader) => {
                let stats = reader.read();
                QueueStats {
                    rx_ring_full: stats.rx_ring_full,
                    rx_dropped: stats.rx_dropped,
                    tx_invalid: stats.tx_invalid,
                    ..QueueStats::default()
                }
            }
            Self::Lossless => QueueStats::default(),
            Self::Paced(arrivals) => QueueStats {
                rx_ring_full: arrivals.lost(),
                ..QueueStats::default()
            },
            Self::AfPacket(reader) => reader.read(),
            Self::Own(losses) => losses.read(),
            Self::Hero(reader) => reader.read(),
        }
    }
}
