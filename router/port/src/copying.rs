//! The part that all queues share that copy each packet: frames and counters.

use std::os::fd::AsFd;
use std::sync::Arc;

use bora_buffer::{Frame, MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::tally::{StatsReader, Tally};

/// The frames of one queue: those to copy received packets to, and those whose packets were copied.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) region: Arc<Region>,
    pub(crate) tally: Arc<Tally>,
    free: Vec<Frame>,
    sent: Vec<Frame>,
    stock: usize,
}

impl Copying {
    /// An empty stock; [`Copying::refill`] takes up to `stock` frames.
    pub(crate) fn new(region: Arc<Region>, stock: usize) -> Self {
        Self {
            region,
            tally: Arc::default(),
            free: Vec::with_capacity(stock),
            sent: Vec::with_capacity(MAX_BATCH),
            stock,
        }
    }

    /// A packet with all the room of a frame; `None` if there is no free frame.
    pub(crate) fn room(&mut self) -> Option<Packet> {
        let frame = self.free.pop()?;
        match frame.into_packet(&self.region, self.region.capacity()) {
            Ok(packet) => Some(packet),
            Err(frame) => {
                self.free.push(frame); // never: this is the longest packet of a frame
                None
            }
        }
    }

    /// Takes a packet back that nothing was copied to.
    pub(crate) fn unused(&mut self, packet: Packet) {
        self.free.push(packet.into_frame(&self.region));
    }

    /// Takes the first `count` packets, of which Linux has refused some and copied the others.
    pub(crate) fn sent(&mut self, packets: &mut Vec<Packet>, count: usize, refused: usize) {
        self.tally.sent((count - refused) as u64);
        self.tally.refused(Reason::TxRefused, refused as u64);
        let sent = packets.drain(..count);
        self.sent
            .extend(sent.map(|packet| packet.into_frame(&self.region)));
    }

    /// Does what [`crate::PortQueue::refill`] says; `in_use` frames are already in packets of
    /// [`Copying::room`].
    pub(crate) fn refill(&mut self, pool: &mut Pool, in_use: usize) {
        let missing = self.stock.saturating_sub(self.free.len() + in_use);
        pool.take_many(missing, &mut self.free);
    }

    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        pool.give_many(self.sent.drain(..));
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.sent.len() as u32
    }

    pub(crate) fn frames(&self) -> u32 {
        (self.free.len() + self.sent.len()) as u32
    }

    pub(crate) fn close(&mut self, frames: &SharedFrames) {
        let all = self.free.drain(..).chain(self.sent.drain(..));
        all.for_each(|frame| frames.give(frame));
    }

    pub(crate) fn stats_reader(&self) -> StatsReader {
        StatsReader::new(self.tally.clone())
    }
}

/// 1 if a descriptor is readable, 0 if not: Linux does not say how many packets wait.
pub(crate) fn readable(fd: &impl AsFd) -> usize {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "a worker that sees nothing sleeps on the descriptor, which wakes it"
    )]
    poll(&mut fds, Some(&none)).unwrap_or(0)
}
