//! The heart of the loop: the stages decide about a batch, and the worker does what they decided.

use bora_buffer::Packet;
use bora_forward::{Context, Reason, Verdict, enqueue, run};

use crate::punt::Punted;
use crate::worker::Worker;

impl Worker {
    /// Runs the stages over the batch, and empties it: into the queues of the outputs, to the slow
    /// path, or back to the pool.
    pub(crate) fn forward(&mut self, port: usize) {
        let config = &mut self.config;
        let ingress = &config.ports[port].ingress;
        let context = Context {
            region: &config.region,
            fib: &config.fib,
            ingress,
            min_frames: &self.min_frames,
            classifier: &config.classifier,
            hash4: config.hash.0,
            hash6: config.hash.1,
        };
        let (batch, hits) = (&mut self.batch, &mut self.hits);
        match &mut self.profiler {
            None => run(batch, &context, hits, |_| {}),
            Some(profiler) => {
                run(batch, &context, hits, |stage| profiler.done(stage));
            }
        }

        let counters = &config.counters.ports[port];
        let (region, pool) = (&config.region, &mut config.pool);
        let (budgets, punts) = (&mut config.budgets, &config.punts);
        let (port, partial_checksum) = (ingress.port, ingress.partial_checksum);
        let mut punted_any = false;
        enqueue(batch, &mut self.egress, |packet, verdict| {
            let mut drop = |packet: Packet, reason: Reason| {
                counters.dropped[reason].add(1);
                pool.give(packet.into_frame(region));
            };
            match verdict {
                Verdict::Drop(reason) => drop(packet, reason),
                Verdict::Punt(reason) if reason.has_budget() && !budgets.take(reason) => {
                    drop(packet, Reason::PuntBudget);
                }
                Verdict::Punt(reason) => {
                    let punted = Punted {
                        packet,
                        port,
                        reason,
                        partial_checksum,
                    };
                    punted_any = true;
                    if let Err(punted) = punts.push(punted) {
                        drop(punted.packet, Reason::PuntRingFull);
                    }
                }
                Verdict::Pending | Verdict::Forward(_) => drop(packet, Reason::NoOutput),
            }
        });
        if punted_any {
            punts.announce();
        }
    }
}
