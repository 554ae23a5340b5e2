//! What every kind of queue can do.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use bora_buffer::{Packet, Pool, SharedFrames};

use crate::closing::Closing;
use crate::tally::StatsReader;

/// What a queue does: a way in and a way out, owned by one worker. Every kind of port implements it;
/// workers call it through [`crate::Queue`].
pub trait PortQueue: Debug + Send {
    /// Moves up to `max` received packets to `out`; returns how many.
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize;

    /// Received packets that wait; the count may stop at `enough`.
    fn waiting(&mut self, enough: usize) -> usize;

    /// Gives the queue the free frames it needs to receive; to be called after every
    /// [`PortQueue::receive`], whether or not it found packets.
    fn refill(&mut self, pool: &mut Pool);

    /// Moves packets from the front of `packets` to the way out while there is room; returns how
    /// many. Call [`PortQueue::kick`] afterwards.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize;

    /// Takes frames back that were sent.
    fn reclaim(&mut self, pool: &mut Pool);

    /// Tells the other side that there are packets, where it has to be told.
    fn kick(&mut self) {}

    /// Whether nothing that was transmitted moves any more, because the interface is down or gone.
    fn is_cut_off(&self) -> bool {
        false
    }

    /// Whether it can receive and send. What cannot do so yet may once the other side comes.
    fn is_connected(&self) -> bool {
        true
    }

    /// Packets given to [`PortQueue::transmit`] whose frames are not back yet.
    fn in_flight(&self) -> u32;

    /// Frames of the region that it has: to receive into, received, to be sent, sent and not reclaimed.
    /// What is in a ring between two queues of this process counts with neither.
    fn frames(&self) -> u32;

    /// Prepares for sleep: a descriptor that is readable once packets have come since the last
    /// [`PortQueue::receive`]. `None` if nothing tells; then look again after a while.
    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Closes the queue; frames that it still held go to `frames`, those that the kernel may still
    /// use through what is returned. Its [`StatsReader`]s must be gone before.
    fn close(self: Box<Self>, frames: &SharedFrames) -> Option<Closing>;

    /// A handle to read from another thread what the queue lost.
    ///
    /// # Errors
    /// No more file descriptors.
    fn stats_reader(&self) -> io::Result<StatsReader>;
}
