//! Where workers leave the packets that a capture or trace wants.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crossbeam_queue::ArrayQueue;

use crate::{Filter, SNAP, Seen};

/// Packets that may wait to be fetched.
const WAITING: usize = 1024;

/// What a capture or trace wants to see, and what workers have found of it. Workers never wait here: what
/// finds no room, or is beyond the rate, is counted as lost.
#[derive(Debug)]
pub struct Subscription {
    filter: Filter,
    /// One packet in this many is wanted, by chance; 1: all are.
    pub one_in: u32,
    /// Octets to keep of each packet, at most [`SNAP`].
    pub snap: usize,
    /// Packets that may still be seen.
    allowance: AtomicI64,
    lost: AtomicU64,
    seen: ArrayQueue<Seen>,
}

impl Subscription {
    /// A subscription for packets that a filter takes.
    pub fn new(filter: Filter, one_in: u32, snap: usize) -> Self {
        Self {
            filter,
            one_in: one_in.max(1),
            snap: snap.min(SNAP),
            allowance: AtomicI64::new(0),
            lost: AtomicU64::new(0),
            seen: ArrayQueue::new(WAITING),
        }
    }

    /// The filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether a packet is to be seen; one that is too many now is counted.
    pub fn wants(&self, packet: &[u8]) -> bool {
        if !self.filter.takes(packet) {
            return false;
        }
        let is_allowed = self.allowance.fetch_sub(1, Relaxed) > 0;
        if !is_allowed {
            self.lost.fetch_add(1, Relaxed);
        }
        is_allowed
    }

    /// Leaves a packet that it wants.
    pub fn leave(&self, seen: Seen) {
        if self.seen.push(seen).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lets workers see this many more packets from now on.
    pub fn allow(&self, packets: u32) {
        self.allowance.store(packets.into(), Relaxed);
    }

    /// The next packet that was seen.
    pub fn take(&self) -> Option<Seen> {
        self.seen.pop()
    }

    /// Packets that were to be seen, and were not, so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
