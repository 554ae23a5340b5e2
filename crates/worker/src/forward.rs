//! The heart of the loop: the stages decide about a batch, and the worker does what they decided.

use bora_buffer::Packet;
use bora_fib::PortId;
use bora_forward::{Context, Outputs, Reason, Verdict, enqueue, octets, run};

use crate::punt::Punted;
use crate::worker::Worker;

impl Worker {
    /// Runs the stages over the batch, and empties it: into the queues of the outputs, to the slow
    /// path, or back to the pool.
    pub(crate) fn forward(&mut self, port: usize) {
        let devices = &self.config.devices;
        if devices.is_trunk(self.config.ports[port].ingress.port) {
            return self.forward_by_device(port);
        }
        self.forward_batch(port, None);
    }

    /// The same for packets of several VLAN devices, or of a bond: first those of the first packet's device, and so on.
    fn forward_by_device(&mut self, port: usize) {
        let mut others = std::mem::take(&mut self.others);
        others.append(&mut self.batch.packets);
        while !others.is_empty() {
            let config = &self.config;
            let (region, trunk) = (&config.region, config.ports[port].ingress.port);
            let device = |packet: &Packet| {
                let device = config.devices.device_of(trunk, region.octets(packet))?;
                Some(device.ingress.port)
            };
            let number = others.first().and_then(device);
            let packets = &mut self.batch.packets;
            packets.extend(others.extract_if(.., |packet| device(packet) == number));
            if let Some(counters) = number.and_then(|number| config.counters.device(number)) {
                counters.rx_packets.add(packets.len() as u64);
                counters.rx_bytes.add(octets(packets));
            }
            if let Some(device) = number.and_then(|number| config.devices.get(number)) {
                let packets = packets.iter_mut();
                packets.for_each(|packet| device.untag(region, packet));
            }
            self.forward_batch(port, number);
        }
        self.others = others;
    }

    /// Forwards a batch that has come in by a port, or by the device on it with this number.
    fn forward_batch(&mut self, port: usize, number: Option<PortId>) {
        let config = &mut self.config;
        let device = number.and_then(|number| config.devices.get(number));
        let trunk = &config.ports[port].ingress;
        let ingress = device.map_or(trunk, |device| &device.ingress);
        let context = Context {
            region: &config.region,
            fib: &config.fib,
            ingress,
            min_frames: &self.min_frames,
            classifier: &config.classifier,
            policies: &config.policies,
            hash4: config.hash.0,
            hash6: config.hash.1,
        };
        let (batch, rules) = (&mut self.batch, &config.counters.rules);
        match &mut self.profiler {
            None => run(batch, &context, rules, |_| {}),
            Some(profiler) => {
                run(batch, &context, rules, |stage| profiler.done(stage));
            }
        }

        let outputs = Outputs {
            egress: &mut self.egress,
            devices: &config.devices,
            min_frames: &self.min_frames,
            region: &config.region,
        };
        let left = |device, octets: usize| {
            if let Some(counters) = config.counters.device(device) {
                counters.tx_packets.add(1);
                counters.tx_bytes.add(octets as u64);
            }
        };
        let counters = &config.counters.ports[port];
        let (region, pool) = (&config.region, &mut config.pool);
        let (budgets, punts) = (&mut config.budgets, &config.punts);
        let (port, partial_checksum) = (trunk.port, ingress.partial_checksum);
        let mut punted_any = false;
        enqueue(batch, outputs, left, |mut packet, verdict| {
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
                    if let Some(device) = device {
                        device.restore(region, &mut packet);
                    }
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
