//! The way out: from the queues of the outputs to the transmit rings.

use bora_buffer::{Packet, Pool};
use bora_forward::{Egress, Reason, octets};
use bora_port::Queue;

use crate::byte_limit::ByteLimit;
use crate::config::WorkerPort;
use crate::share::Share;
use crate::worker::Worker;

impl Worker {
    /// Moves packets to the transmit rings. What does not fit stays queued; what a full queue does
    /// not take is dropped. Returns the number of packets that went.
    pub(crate) fn send(&mut self) -> usize {
        let (region, pool) = (&*self.config.region, &mut self.config.pool);
        let (mut total, now_ns) = (0, self.now_ns);
        for (number, egress) in self.egress.iter_mut().enumerate() {
            let counters = &self.config.counters.ports[number];
            let WorkerPort { queues, share, .. } = &mut self.config.ports[number];
            let drop = |pool: &mut Pool, packet: Packet, reason: Reason| {
                counters.dropped[reason].add(1);
                pool.give(packet.into_frame(region));
            };
            let egress = match share {
                Share::Alone => egress,
                Share::Owner(owner) => {
                    owner.exchange(egress, |packet| drop(pool, packet, Reason::QueueFull));
                    &mut owner.egress
                }
                Share::Member(member) => {
                    total +=
                        member.exchange(egress, |packet| drop(pool, packet, Reason::QueueFull));
                    continue;
                }
            };
            if egress.held() == 0 {
                continue;
            }
            let Some(queue) = queues.first_mut() else {
                egress.clear(|packet| drop(pool, packet, Reason::NoOutput));
                continue;
            };
            queue.reclaim(pool);
            let limit = &mut self.byte_limits[number];
            limit.update(queue.in_flight(), now_ns);
            let refused = |packet| drop(pool, packet, Reason::QueueFull);
            let (packets, octets) = fill_ring(egress, (queue, limit), now_ns, refused);
            counters.tx_packets.add(packets);
            counters.tx_bytes.add(octets);
            total += packets as usize;
        }
        total
    }

    /// Drops what waits for the transmit ring of a port that takes nothing any more.
    pub(crate) fn drop_held(&mut self, number: usize) {
        let (region, pool) = (&self.config.region, &mut self.config.pool);
        let dropped = &self.config.counters.ports[number].dropped[Reason::NoOutput];
        let mut drop = |packet: Packet| {
            dropped.add(1);
            pool.give(packet.into_frame(region));
        };
        self.egress[number].clear(&mut drop);
        if let Share::Owner(owner) = &mut self.config.ports[number].share {
            owner.egress.clear(&mut drop);
            owner.clear_rings(&mut drop);
        }
    }

    /// Tells drivers and peers that there are packets to send, and takes back the frames of those
    /// that were sent.
    pub(crate) fn kick(&mut self) {
        for port in &mut self.config.ports {
            for (number, queue) in port.queues.iter_mut().enumerate() {
                // nobody sends through the other queues, but their former owners may have
                if number == 0 || queue.in_flight() > 0 {
                    queue.kick();
                    queue.reclaim(&mut self.config.pool);
                }
            }
        }
    }
}

/// Moves packets that may leave to the transmit ring while it has room; returns packets and octets.
#[inline]
fn fill_ring(
    egress: &mut Egress,
    (queue, limit): (&mut Queue, &mut ByteLimit),
    now_ns: u64,
    mut refused: impl FnMut(Packet),
) -> (u64, u64) {
    let mut total = (0, 0);
    loop {
        let (ready, before) = egress.ready(now_ns, limit.room(), &mut refused);
        let packets = queue.transmit(ready);
        let moved = before - octets(ready);
        let stuck = packets == 0 || !ready.is_empty();
        total = (total.0 + packets as u64, total.1 + moved);
        limit.add(packets as u32, moved);
        egress.settle(&mut refused);
        if egress.held() == 0 {
            limit.set_full(false);
            return total;
        }
        if stuck {
            let next = egress.next_ready_ns(now_ns);
            limit.set_full(next.is_some_and(|next| next <= now_ns));
            return total;
        }
    }
}
