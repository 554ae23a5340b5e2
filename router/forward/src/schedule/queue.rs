//! One first-in first-out queue with limits.

use std::collections::VecDeque;

use bora_buffer::Packet;

/// What a queue may hold; it is full when either is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Packets.
    pub packets: u32,
    /// Octets, counted from the destination MAC address to the end of the frame, without FCS.
    pub octets: u64,
}

impl Default for QueueLimits {
    /// 1000 packets of any length (Bianco05's transmit queue).
    fn default() -> Self {
        Self {
            packets: 1000,
            octets: u64::MAX,
        }
    }
}

/// What went through a queue: `enqueued = pulled + held`, and what came was `enqueued + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets taken in.
    pub enqueued: u64,
    /// Packets taken out.
    pub pulled: u64,
    /// Packets refused because it was full.
    pub dropped: u64,
}

/// A virtual output queue: the packets for one output and class. Its memory is all there from the
/// start; packets are moved in and out.
#[derive(Debug)]
pub struct Voq {
    packets: VecDeque<Packet>,
    octets: u64,
    limits: QueueLimits,
    stats: QueueStats,
}

impl Voq {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            packets: VecDeque::with_capacity(limits.packets as usize),
            octets: 0,
            limits,
            stats: QueueStats::default(),
        }
    }

    /// Appends a packet, or gives it back if the queue is full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        let octets = self.octets + packet.length() as u64;
        if self.packets.len() >= self.limits.packets as usize || octets > self.limits.octets {
            self.stats.dropped += 1;
            return Err(packet);
        }
        self.octets = octets;
        self.stats.enqueued += 1;
        self.packets.push_back(packet);
        Ok(())
    }

    /// Takes the oldest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.octets -= packet.length() as u64;
        self.stats.pulled += 1;
        Some(packet)
    }

    /// Moves up to `budget` of the oldest packets to `out`, `room` octets at most; returns how many.
    #[inline]
    pub fn pop_many(&mut self, budget: usize, room: u64, out: &mut Vec<Packet>) -> usize {
        let mut count = budget.min(self.packets.len());
        let mut octets = 0;
        if room < self.octets {
            let mut left = room;
            let fits = |packet: &&Packet| {
                let rest = left.checked_sub(packet.length() as u64);
                left = rest.unwrap_or(0);
                rest.is_some()
            };
            count = self.packets.iter().take(count).take_while(fits).count();
        }
        out.extend(
            self.packets
                .drain(..count)
                .inspect(|packet| octets += packet.length() as u64),
        );
        self.octets -= octets;
        self.stats.pulled += count as u64;
        count
    }

    /// Length of the oldest packet in octets.
    #[inline]
    pub fn head(&self) -> Option<u32> {
        Some(self.packets.front()?.length() as u32)
    }

    /// Packets held.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Octets held.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// What went through so far.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }
}
