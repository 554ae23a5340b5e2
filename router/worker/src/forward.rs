//! The heart of the loop: the stages decide about a batch, and the worker does what they decided.

use bora_buffer::Packet;
use bora_fib::PortId;
use bora_forward::{Context, Outputs, Reason, Urgency, Verdict, enqueue, octets, run};
use bora_wire::ethernet;

use crate::punt::Punted;
use crate::watch;
use crate::worker::Worker;

impl Worker {
    /// Runs the stages over the batch, and empties it: into the queues of the outputs, to the slow
    /// path, or back to the pool.
    pub(crate) fn forward(&mut self, port: usize) {
        let devices = &self.tables.devices;
        if devices.is_trunk(self.config.ports[port].ingress.port) {
            return self.forward_by_device(port);
        }
        self.forward_batch(port, None);
    }

    /// The same for packets of several VLAN devices, or of a bond: first those of the first packet's device, and so on.
    fn forward_by_device(&mut self, port: usize) {
        let mut others = std::mem::take(&mut self.others);
        while !self.batch.packets.is_empty() {
            let (config, devices) = (&self.config, &self.tables.devices);
            let (region, trunk) = (&config.region, config.ports[port].ingress.port);
            let device = |packet: &Packet| {
                let device = devices.device_of(trunk, region.octets(packet))?;
                Some(device.ingress.port)
            };
            let packets = &mut self.batch.packets;
            let number = packets.first().and_then(device);
            // mostly there are none
            others.extend(packets.extract_if(.., |packet| device(packet) != number));
            if let Some(counters) = number.and_then(|number| config.counters.device(number)) {
                counters.rx_packets.add(packets.len() as u64);
                counters.rx_bytes.add(octets(packets));
            }
            if let Some(device) = number.and_then(|number| devices.get(number)) {
                let packets = packets.iter_mut();
                packets.for_each(|packet| device.untag(region, packet));
            }
            self.forward_batch(port, number);
            std::mem::swap(&mut self.batch.packets, &mut others);
        }
        self.others = others;
    }

    /// Forwards a batch that has come in by a port, or by the device on it with this number, and then what was in
    /// tunnels.
    fn forward_batch(&mut self, port: usize, number: Option<PortId>) {
        self.run_stages(port, number, None);
        while let Some(&(tunnel, _)) = self.unwrapped.first() {
            let of_tunnel = |other: &mut (PortId, Packet)| other.0 == tunnel;
            let packets = self.unwrapped.extract_if(.., of_tunnel);
            let packets = packets.map(|(_, packet)| packet);
            let batch = &mut self.batch.packets;
            batch.extend(packets);
            if let Some(counters) = self.config.counters.device(tunnel) {
                counters.rx_packets.add(batch.len() as u64);
                let headers = (batch.len() * ethernet::HEADER_LEN) as u64;
                counters.rx_bytes.add(octets(batch) - headers);
            }
            self.run_stages(port, number, Some(tunnel));
        }
    }

    /// Runs the stages over the batch. `tunnel`: its packets were in one, whose packets came by `port` and `device`.
    fn run_stages(&mut self, port: usize, device: Option<PortId>, tunnel: Option<PortId>) {
        let tables = &*self.tables;
        if !tables.taps.is_empty() {
            let (taps, region) = (&tables.taps, &self.config.region);
            watch::note(&mut self.watching, taps, &self.batch, region);
        }
        let config = &mut self.config;
        let devices = &*tables.devices;
        let [device, tunnel] = [device, tunnel].map(|number| devices.get(number?));
        let trunk = &config.ports[port].ingress;
        let outer = device.map_or(trunk, |device| &device.ingress);
        let ingress = tunnel.map_or(outer, |tunnel| &tunnel.ingress);
        let context = Context {
            region: &config.region,
            fib: &config.fib,
            ingress,
            min_frames: &self.min_frames,
            classifier: &tables.classifier,
            policies: &tables.policies,
            hash4: tables.hash.0,
            hash6: tables.hash.1,
            tunnelling: &self.tunnelling,
        };
        let (batch, rules) = (&mut self.batch, &config.counters.rules);
        match &mut self.profiler {
            None => run(batch, &context, rules, |_| {}),
            Some(profiler) => {
                run(batch, &context, rules, |stage| profiler.done(stage));
            }
        }

        if !self.watching.noted.is_empty() {
            let input = ingress.port;
            watch::leave(
                &mut self.watching.noted,
                &tables.taps,
                (batch, &config.region),
                input,
            );
        }
        let outputs = Outputs {
            egress: &mut self.egress,
            devices,
            min_frames: &self.min_frames,
            region: &config.region,
        };
        let left = |device, octets: usize| {
            if let Some(counters) = config.counters.device(device) {
                counters.tx_packets.add(1);
                counters.tx_bytes.add(octets as u64);
            }
        };
        self.tunnelling.take_sent(left);
        let unwrapped = &mut self.unwrapped;
        let counters = &config.counters.ports[port];
        let (region, pool) = (&config.region, &mut config.pool);
        let (budgets, punts, fib) = (&mut config.budgets, &config.punts, &config.fib);
        let (port, partial_checksum) = (trunk.port, outer.partial_checksum);
        let mut punted_any = false;
        enqueue(batch, outputs, left, |mut packet, verdict| {
            let mut drop = |packet: Packet, reason: Reason| {
                counters.dropped[reason].add(1);
                pool.give(packet.into_frame(region));
            };
            match verdict {
                Verdict::Drop(reason) => drop(packet, reason),
                Verdict::Punt(reason) => {
                    if reason == Reason::Local
                        && tunnel.is_none()
                        && let Some(tunnel) = devices.unwrap(region, &mut packet, partial_checksum)
                    {
                        return unwrapped.push((tunnel.ingress.port, packet));
                    }
                    if reason.has_budget() && !budgets.take(reason) {
                        return drop(packet, Reason::PuntBudget);
                    }
                    let urgency = Urgency::of(reason, region.octets(&packet), fib);
                    if let Some(tunnel) = tunnel {
                        tunnel.rewrap(region, &mut packet);
                    }
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
                    if let Err(punted) = punts.push(punted, urgency) {
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
