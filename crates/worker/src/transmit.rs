//! The way out: what the stages decide is carried out here.

use bora_buffer::Packet;
use bora_forward::{Context, Drop, Verdict, enqueue, run_classified};

use crate::punt::Punted;
use crate::worker::Worker;

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
        let port = ingress.port;
        enqueue(&mut self.batch, &mut self.exits, |packet, verdict| {
            let mut drop = |packet: Packet, reason: Drop| {
                counters.dropped[reason as usize].add(1);
                pool.give(packet.into_frame(region));
            };
            match verdict {
                Verdict::Drop(reason) => drop(packet, reason),
                Verdict::Punt(reason) if !budgets.take(reason) => drop(packet, Drop::PuntBudget),
                Verdict::Punt(reason) => match punts.push(Punted { packet, port }) {
                    Ok(()) => counters.punted[reason as usize].add(1),
                    Err(punted) => drop(punted.packet, Drop::PuntRingFull),
                },
                Verdict::Pending | Verdict::Forward(_) => drop(packet, Drop::NoOutput),
            }
        });
    }

    /// Moves packets from the exits to the transmit rings; what does not fit stays queued, what a
    /// full queue does not take is dropped by name. Returns how many were sent.
    pub(crate) fn send(&mut self) -> usize {
        let mut total = 0;
        for (number, exit) in self.exits.iter_mut().enumerate() {
            if exit.held() == 0 {
                continue;
            }
            let counters = &self.config.counters.ports[number];
            let (region, pool) = (&self.config.region, &mut self.pool);
            let Some(queue) = self.config.ports[number].queues.first_mut() else {
                continue;
            };
            queue.reclaim(pool);
            let mut refused = |packet: Packet| {
                counters.dropped[Drop::QueueFull as usize].add(1);
                pool.give(packet.into_frame(region));
            };
            let (mut packets, mut bytes) = (0, 0);
            loop {
                let ready = exit.ready(self.now_ns, &mut refused);
                let before: usize = ready.iter().map(Packet::length).sum();
                let sent = queue.transmit(ready);
                let after: usize = ready.iter().map(Packet::length).sum();
                packets += sent;
                bytes += before - after;
                let stuck = sent == 0 || !ready.is_empty();
                exit.settle(&mut refused);
                if stuck || exit.held() == 0 {
                    break;
                }
            }
            counters.tx_packets.add(packets as u64);
            counters.tx_bytes.add(bytes as u64);
            total += packets;
        }
        total
    }

    /// Drops by name what waits for transmit rings that take nothing: their links are down.
    pub(crate) fn drop_held(&mut self) {
        let exits = self.exits.iter_mut().zip(&self.config.counters.ports);
        for (exit, counters) in exits {
            exit.clear(|packet| {
                counters.dropped[Drop::NoOutput as usize].add(1);
                self.pool.give(packet.into_frame(&self.config.region));
            });
        }
    }

    /// Tells the transmit rings' other sides, and takes back what was sent.
    pub(crate) fn kick(&mut self) {
        for port in &mut self.config.ports {
            if let Some(queue) = port.queues.first_mut() {
                queue.kick();
                queue.reclaim(&mut self.pool);
            }
        }
    }
}
