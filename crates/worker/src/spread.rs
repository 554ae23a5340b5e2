//! Ports with fewer receive queues than workers: one worker owns a queue and spreads what comes in by
//! flow over single-producer rings (receive-side scaling in software).

use std::sync::Arc;

use bora_buffer::Packet;
use bora_port::{Bell, memory};

/// Packets in a ring between two workers.
pub(crate) const RING: usize = 1024;

/// How a worker gets what a port receives.
#[derive(Debug, Default)]
pub enum Reception {
    /// From queues of its own.
    #[default]
    Own,
    /// From queues of its own, and others get a part.
    Spread(Box<Spreader>),
    /// From another worker, by a ring: the only one of its queues.
    Ring,
}

/// One worker's rings to others.
#[derive(Debug)]
pub struct Spreader {
    rings: Vec<(memory::Queue, Arc<Bell>)>,
    taken: Vec<Packet>,
}

/// Rings to others, who are named by their bells, and what each of them receives from.
pub fn spread(others: &[Arc<Bell>]) -> (Spreader, Vec<memory::Queue>) {
    let pairs = others.iter().map(|bell| {
        let (give, take) = memory::pair(RING);
        ((give, bell.clone()), take)
    });
    let (rings, queues) = pairs.unzip();
    let taken = Vec::with_capacity(RING);
    (Spreader { rings, taken }, queues)
}

impl Reception {
    /// Whether it is from the port itself.
    pub(crate) fn is_direct(&self) -> bool {
        !matches!(self, Self::Ring)
    }

    /// Packets on their way to other workers.
    pub(crate) fn in_flight(&self) -> u64 {
        match self {
            Self::Own | Self::Ring => 0,
            Self::Spread(spreader) => spreader.in_flight(),
        }
    }
}

impl Spreader {
    /// Divides received packets by flow: those of this worker stay in `packets`. `refused` gets
    /// what a full ring does not take.
    pub(crate) fn divide(
        &mut self,
        packets: &mut Vec<Packet>,
        flow: impl Fn(&Packet) -> u32,
        mut refused: impl FnMut(Packet),
    ) {
        let workers = self.rings.len() as u64 + 1;
        let worker = |packet: &Packet| ((u64::from(flow(packet)) * workers) >> 32) as usize;
        for (number, (ring, bell)) in self.rings.iter_mut().enumerate() {
            let theirs = packets.extract_if(.., |packet| worker(packet) == number + 1);
            self.taken.extend(theirs);
            if !self.taken.is_empty() {
                ring.transmit(&mut self.taken);
                bell.ring();
                self.taken.drain(..).for_each(&mut refused);
            }
        }
    }

    fn in_flight(&self) -> u64 {
        let rings = self.rings.iter();
        rings.map(|(ring, _)| u64::from(ring.in_flight())).sum()
    }
}
