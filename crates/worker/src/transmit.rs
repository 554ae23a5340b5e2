//! The way out: what the stages decide is carried out here.

use bora_buffer::{Packet, Pool};
use bora_forward::{Context, Drop, Exit, Verdict, enqueue, octets, run_classified};
use bora_port::Queue;

use crate::flight::Flight;
use crate::punt::Punted;
use crate::share::Share;
use crate::worker::{Worker, WorkerPort};

impl Worker {
    /// Runs the stages over the batch and empties it.
    pub(crate) fn forward(&mut self, port: usize) {
        let config = &mut self.config;
        let ingress = &config.ports[port].ingress;
        let context = Context {
            region: &config.region,
            fib: &config.fib,
            ingress,
            min_frames: &self.min_frames,
            hash4: config.hash.0,
            hash6: config.hash.1,
        };
        run_classified(
            &mut self.batch,
            &context,
            &config.classifier,
            &mut self.hits,
        );

        let counters = &config.counters.ports[port];
        let (region, pool) = (&config.region, &mut self.pool);
        let (budgets, punts) = (&mut config.budgets, &config.punts);
        let (port, partial_checksum) = (ingress.port, ingress.partial_checksum);
        let mut punted_any = false;
        enqueue(&mut self.batch, &mut self.exits, |packet, verdict| {
            let mut drop = |packet: Packet, reason: Drop| {
                counters.dropped[reason as usize].add(1);
                pool.give(packet.into_frame(region));
            };
            match verdict {
                Verdict::Drop(reason) => drop(packet, reason),
                Verdict::Punt(reason) if reason.is_exception() && !budgets.take(reason) => {
                    drop(packet, Drop::PuntBudget);
                }
                Verdict::Punt(reason) => {
                    let punted = Punted {
                        packet,
                        port,
                        reason,
                        partial_checksum,
                    };
                    punted_any = true;
                    match punts.push(punted) {
                        Ok(()) => counters.punted[reason as usize].add(1),
                        Err(punted) => drop(punted.packet, Drop::PuntRingFull),
                    }
                }
                Verdict::Pending | Verdict::Forward(_) => drop(packet, Drop::NoOutput),
            }
        });
        if punted_any {
            punts.announce();
        }
    }

    /// Moves packets from the exits to the transmit rings; what does not fit stays queued, what a
    /// full queue does not take is dropped by name. Returns how many went.
    pub(crate) fn send(&mut self) -> usize {
        let (region, pool, now_ns) = (&*self.config.region, &mut self.pool, self.now_ns);
        let mut total = 0;
        for (number, exit) in self.exits.iter_mut().enumerate() {
            let counters = &self.config.counters.ports[number];
            let WorkerPort { queues, share, .. } = &mut self.config.ports[number];
            let refused = |pool: &mut Pool, packet: Packet| {
                counters.dropped[Drop::QueueFull as usize].add(1);
                pool.give(packet.into_frame(region));
            };
            let exit = match share {
                Share::Alone => exit,
                Share::Owner(owner) => {
                    owner.exchange(exit, |packet| refused(pool, packet));
                    &mut owner.last
                }
                Share::Member(member) => {
                    total += member.exchange(exit, |packet| refused(pool, packet));
                    continue;
                }
            };
            if exit.held() == 0 {
                continue;
            }
            let Some(queue) = queues.first_mut() else {
                exit.clear(|packet| {
                    counters.dropped[Drop::NoOutput as usize].add(1);
                    pool.give(packet.into_frame(region));
                });
                continue;
            };
            queue.reclaim(pool);
            let flight = &mut self.flights[number];
            flight.update(queue.in_flight(), now_ns);
            let refused = |packet| refused(pool, packet);
            let (packets, octets) = empty(exit, (queue, flight), now_ns, refused);
            counters.tx_packets.add(packets);
            counters.tx_bytes.add(octets);
            total += packets as usize;
        }
        total
    }

    /// Drops by name what waits for a port's transmit ring, which takes nothing any more.
    pub(crate) fn drop_held(&mut self, number: usize) {
        let (region, pool) = (&self.config.region, &mut self.pool);
        let dropped = &self.config.counters.ports[number].dropped[Drop::NoOutput as usize];
        let mut drop = |packet: Packet| {
            dropped.add(1);
            pool.give(packet.into_frame(region));
        };
        self.exits[number].clear(&mut drop);
        if let Share::Owner(owner) = &mut self.config.ports[number].share {
            owner.last.clear(&mut drop);
            owner.drain(&mut drop);
        }
    }

    /// Tells the transmit rings' other sides, and takes back what was sent.
    pub(crate) fn kick(&mut self) {
        for port in &mut self.config.ports {
            for (number, queue) in port.queues.iter_mut().enumerate() {
                // nobody sends through the others, but who had them before may have
                if number == 0 || queue.in_flight() > 0 {
                    queue.kick();
                    queue.reclaim(&mut self.pool);
                }
            }
        }
    }
}

/// Moves what may leave to the transmit ring while it has room; returns packets and octets.
#[inline]
fn empty(
    exit: &mut Exit,
    (queue, flight): (&mut Queue, &mut Flight),
    now_ns: u64,
    mut refused: impl FnMut(Packet),
) -> (u64, u64) {
    let mut total = (0, 0);
    loop {
        let ready = exit.ready(now_ns, flight.room(), &mut refused);
        let before = octets(ready);
        let packets = queue.transmit(ready);
        let moved = before - octets(ready);
        let stuck = packets == 0 || !ready.is_empty();
        total = (total.0 + packets as u64, total.1 + moved);
        flight.add(packets as u32, moved);
        exit.settle(&mut refused);
        if stuck || exit.held() == 0 {
            let next = exit.next_ready_ns(now_ns);
            flight.set_full(next.is_some_and(|next| next <= now_ns));
            return total;
        }
    }
}
