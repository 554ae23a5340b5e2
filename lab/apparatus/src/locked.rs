//! A queue that several workers share behind one lock, as routers did before rings of their own.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bora_buffer::{Packet, Pool, SharedFrames};
use bora_port::Closing;
use bora_port::{PortQueue, Queue, StatsReader};

/// A queue for each of `users` workers: all of them are this one, behind a lock that is taken for
/// each packet, as Linux 2.6 took that of a device's queue (KTH08, Fig. 12).
pub fn locked(queue: Queue, users: usize) -> Vec<Queue> {
    let shared = Arc::new(Mutex::new(queue));
    (0..users)
        .map(|_| Queue::other(Locked(shared.clone())))
        .collect()
}

#[derive(Debug)]
struct Locked(Arc<Mutex<Queue>>);

impl Locked {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PortQueue for Locked {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        (0..max)
            .take_while(|_| self.lock().receive(out, 1) > 0)
            .count()
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.lock().waiting(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.lock().refill(pool);
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let (mut sent, mut one) = (0, Vec::with_capacity(1));
        for packet in packets.drain(..) {
            one.push(packet);
            sent += self.lock().transmit(&mut one);
        }
        sent
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.lock().reclaim(pool);
    }

    fn in_flight(&self) -> u32 {
        self.lock().in_flight()
    }

    fn frames(&self) -> u32 {
        self.lock().frames()
    }

    /// Its frames are lost with it: a bench has a region of its own.
    fn close(self: Box<Self>, _: &SharedFrames) -> Option<Closing> {
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        self.lock().stats_reader()
    }
}
