//! Ports with fewer receive queues than workers: the worker that owns a queue spreads its packets over
//! the workers by flow, through single-producer rings (receive-side scaling in software).

use std::sync::Arc;

use bora_buffer::Packet;
use bora_port::{Bell, PortQueue, memory};

/// Packets in a ring between two workers.
pub(crate) const RING: usize = 1024;

/// How a worker gets the packets that a port receives.
#[derive(Debug, Default)]
pub enum Reception {
    /// From its own queues.
    #[default]
    Own,
    /// From its own queues, and other workers get a part.
    Spread(Box<Spreader>),
    /// From another worker, through a ring, which is its only queue of the port.
    Ring,
}

/// One worker's rings to the others.
#[derive(Debug)]
pub struct Spreader {
    rings: Vec<(memory::Queue, Arc<Bell>)>,
    taken: Vec<Packet>,
}

/// Makes the rings to other workers, who are named by their bells: the spreader, and the queue from which
/// each of them receives.
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
    /// Whether packets come from the port itself.
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
    /// Divides received packets by flow: those for this worker stay in `packets`. `refused` gets what
    /// a full ring does not take.
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
