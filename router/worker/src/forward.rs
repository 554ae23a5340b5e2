//! The heart of the loop: the stages decide about a batch, and the worker does what they decided.

use bora_fib::PortId;
use bora_forward::{Context, Outputs, enqueue, find_inputs, run};

use crate::counters::WorkerCounters;
use crate::rest::Rest;
use crate::watch;
use crate::worker::Worker;

impl Worker {
    /// Runs the stages over the batch, which a port has received, and then over what was in tunnels. Empties it: into the queues
    /// of the outputs, to the slow path, or back to the pool.
    pub(crate) fn forward(&mut self, port: usize) {
        self.find_inputs(port);
        self.run_stages();
        let (batch, region) = (&mut self.batch, &self.config.region);
        self.unwrapped
            .take(batch, &self.tables.devices, &self.inputs, region);
        self.carry_out(port, false);
        if !self.unwrapped.is_empty() {
            let counters = &self.config.counters;
            self.unwrapped.fill(&mut self.batch, received(counters));
            self.run_stages();
            self.carry_out(port, true);
        }
    }

    fn find_inputs(&mut self, port: usize) {
        let config = &self.config;
        let port = config.ports[port].ingress.port;
        let (devices, region) = (&self.tables.devices, &config.region);
        let received = received(&config.counters);
        find_inputs(&mut self.batch, port, devices, region, received);
    }

    fn run_stages(&mut self) {
        let (config, tables, batch) = (&self.config, &*self.tables, &mut self.batch);
        if !tables.subscriptions.is_empty() {
            watch::note(
                &mut self.watching,
                &tables.subscriptions,
                batch,
                &config.region,
            );
        }
        let context = Context {
            region: &config.region,
            fib: &config.fib,
            inputs: &self.inputs,
            devices: &tables.devices,
            min_frames: &self.min_frames,
            classifier: &tables.classifier,
            policies: &tables.policies,
            hash4: tables.hash.0,
            hash6: tables.hash.1,
            tunnelling: &self.tunnelling,
        };
        let rules = &config.counters.rules;
        match &mut self.profiler {
            None => run(batch, &context, rules, |_| {}),
            Some(profiler) => run(batch, &context, rules, |stage| profiler.done(stage)),
        }
        let noted = &mut self.watching.noted;
        if !noted.is_empty() {
            watch::leave(
                noted,
                &tables.subscriptions,
                batch,
                &tables.devices,
                &config.region,
            );
        }
    }

    /// Does with each packet of the batch, which has come by `port`, what the stages decided. `inside`: they were in tunnels.
    fn carry_out(&mut self, port: usize, inside: bool) {
        let config = &mut self.config;
        let counters = &config.counters;
        let left = |device: PortId, packets, octets| {
            if let Some(counters) = counters.device(device) {
                counters.sent(packets, octets);
            }
        };
        self.tunnelling.take_sent(left);
        let outputs = Outputs {
            egress: &mut self.egress,
            devices: &self.tables.devices,
            min_frames: &self.min_frames,
            region: &config.region,
        };
        let mut rest = Rest {
            port: config.ports[port].ingress.port,
            unwrapped: inside.then_some(&self.unwrapped),
            region: &config.region,
            fib: &config.fib,
            devices: &self.tables.devices,
            inputs: &self.inputs,
            dropped: &counters.ports[port].dropped,
            pool: &mut config.pool,
            budgets: &mut config.budgets,
            punts: &config.punts,
            punted_any: false,
        };
        enqueue(&mut self.batch, outputs, left, |place, packet, meta| {
            rest.take(place, packet, meta);
        });
        if rest.punted_any {
            config.punts.announce();
        }
    }
}

/// Counts what devices receive.
fn received(counters: &WorkerCounters) -> impl FnMut(PortId, u64, u64) {
    |device, packets, octets| {
        if let Some(counters) = counters.device(device) {
            counters.received(packets, octets);
        }
    }
}
