//! Queues with the memory their packets are in.

use std::fmt;
use std::sync::Arc;

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;
use bora_port::af_xdp::frame_size_for;
use bora_port::{Queue, QueueStats, StatsReader};

use crate::clock;

/// Free frames a port keeps at hand.
const POOL: usize = 1024;

/// Memory for frames of interfaces with this MTU, and one VLAN tag.
pub(super) fn memory_for(
    mtu: u32,
    driver: &str,
    frames: u32,
) -> anyhow::Result<(Arc<Region>, SharedFrames)> {
    let region = Arc::new(Region::new(frames, frame_size_for(mtu, driver))?);
    let free = SharedFrames::of_new_region(&region);
    Ok((region, free))
}

/// Queues of one port, and the region they use. Packets never go from one port of the tester to
/// another, so each port has a region of its own.
pub struct Side {
    /// First, so that they are gone when the queues close: a reader keeps a socket open.
    readers: Vec<StatsReader>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) pool: Pool,
    pub(crate) region: Arc<Region>,
    received: Vec<Packet>,
    to_send: Vec<Packet>,
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queues", self.queues.len())
    }
}

impl Side {
    /// Puts queues to use; frames they need come from `frames`, and there must be more than all of
    /// them hold.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(
        queues: Vec<Queue>,
        region: Arc<Region>,
        frames: SharedFrames,
    ) -> std::io::Result<Self> {
        let readers: Result<_, _> = queues.iter().map(Queue::stats_reader).collect();
        let mut side = Self {
            readers: readers?,
            queues,
            pool: Pool::new(frames, POOL),
            region,
            received: Vec::with_capacity(MAX_BATCH),
            to_send: Vec::with_capacity(MAX_BATCH),
        };
        side.settle();
        Ok(side)
    }

    /// Gives the queues frames to receive into and takes those back that were sent.
    pub(crate) fn settle(&mut self) {
        for queue in &mut self.queues {
            queue.refill(&mut self.pool);
            queue.kick();
            queue.reclaim(&mut self.pool);
        }
    }

    /// Shows `look` what has come, at most a batch a queue, and when ([`clock::now`]); sends what
    /// it answers; returns how many packets came.
    #[inline]
    pub(crate) fn receive(&mut self, mut look: impl FnMut(&[u8], u64) -> Option<Vec<u8>>) -> usize {
        let (mut count, mut answers) = (0, Vec::new());
        for queue in &mut self.queues {
            let received = queue.receive(&mut self.received, MAX_BATCH);
            if received > 0 {
                count += received;
                let arrival = clock::now();
                for packet in self.received.drain(..) {
                    answers.extend(look(self.region.octets(&packet), arrival));
                    self.pool.give(packet.into_frame(&self.region));
                }
            }
            queue.refill(&mut self.pool);
        }
        for answer in answers {
            self.send(&answer);
        }
        count
    }

    /// Sends one frame of some protocol, not of the test; false if the port does not take it now.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        let Some(queue) = self.queues.first_mut() else {
            return false;
        };
        queue.reclaim(&mut self.pool);
        let packet = self
            .pool
            .take()
            .map(|free| free.into_packet(&self.region, frame.len()));
        match packet {
            Some(Ok(mut packet)) => {
                self.region.octets_mut(&mut packet).copy_from_slice(frame);
                self.to_send.push(packet);
            }
            Some(Err(free)) => self.pool.give(free),
            None => {}
        }
        let sent = queue.transmit(&mut self.to_send) > 0;
        queue.kick();
        for packet in self.to_send.drain(..) {
            self.pool.give(packet.into_frame(&self.region));
        }
        sent
    }

    /// Packets lost so far between the tester and the wire, either way. What a memif peer went away
    /// without taking (`tx_link_down`) is not among them: it is the router that went.
    pub(crate) fn missed(&self) -> u64 {
        let missed = |stats: QueueStats| stats.dropped.sum() - stats.dropped[Reason::TxLinkDown];
        self.readers
            .iter()
            .map(|reader| missed(reader.read()))
            .sum()
    }
}
