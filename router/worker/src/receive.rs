//! The way in: which queue has its turn, and what it receives.

use bora_buffer::{MAX_BATCH, Packet};
use bora_forward::{Class, Inputs, PollList, Reason, Stage, Turn, flow_of, octets};

use crate::spread::Reception;
use crate::worker::Worker;

impl Worker {
    /// Builds the poll list; to be called when queues, quotas or the budget change.
    pub(crate) fn list_queues(&mut self) {
        let ports = self.config.ports.iter().enumerate();
        self.polled = ports
            .flat_map(|(port, part)| (0..part.queues.len()).map(move |queue| (port, queue)))
            .collect();
        let quota = |&(port, _): &(usize, usize)| self.config.ports[port].quota;
        let quotas: Vec<u32> = self.polled.iter().map(quota).collect();
        self.list = PollList::new(&quotas, self.tables.budget);
    }

    /// Builds the table of inputs; to be called when ports, their settings or devices change.
    pub(crate) fn list_inputs(&mut self) {
        let ports = self.config.ports.iter().map(|port| &port.ingress);
        self.inputs = Inputs::new(ports, &*self.tables.devices);
    }

    /// Gives each queue a turn, within quotas and budget; returns the number of packets received.
    pub(crate) fn round(&mut self) -> usize {
        let mut received = 0;
        self.list.start_round();
        while let Some(turn) = self.list.next_turn() {
            let count = self.turn(turn);
            self.list.finish(turn, count as u32);
            received += count;
        }
        received
    }

    /// Receives and forwards batches until the queue is empty or its turn is over.
    fn turn(&mut self, turn: Turn) -> usize {
        let (port, queue) = self.polled[turn.queue];
        let mut left = turn.allowance as usize;
        while left > 0 {
            if let Some(profiler) = &mut self.profiler {
                profiler.begin();
            }
            let count = self.receive(port, queue, left.min(MAX_BATCH));
            // fewer than asked for does not mean empty: one call may not bring more
            if count == 0 {
                break;
            }
            left -= count;
            self.stage_done(Stage::Receive);
            self.forward(port);
            self.stage_done(Stage::Enqueue);
            self.send();
            self.stage_done(Stage::Transmit);
            if let Some(profiler) = &mut self.profiler {
                profiler.count(count);
            }
        }
        turn.allowance as usize - left
    }

    #[inline]
    fn stage_done(&mut self, stage: Stage) {
        if let Some(profiler) = &mut self.profiler {
            profiler.done(stage);
        }
    }

    /// Fills the batch with up to `most` packets.
    fn receive(&mut self, port: usize, queue: usize, most: usize) -> usize {
        let counters = &self.config.counters.ports[port];
        let port = &mut self.config.ports[port];
        let (is_direct, has_xdp) = (port.reception.is_direct(), port.ingress.has_xdp());
        if is_direct && (self.handing_over.is_some() || self.last_rounds_over && !has_xdp) {
            return 0;
        }
        let queue = &mut port.queues[queue];
        let packets = &mut self.batch.packets;
        let count = queue.receive(packets, most);
        queue.refill(&mut self.config.pool);
        // packets in a ring between workers were counted by the worker that received them
        if count > 0 && is_direct {
            let bytes = octets(packets);
            counters.rx_packets.add(count as u64);
            counters.rx_bytes.add(bytes);
            if !has_xdp {
                counters.ungated_packets.add(count as u64);
                counters.ungated_bytes.add(bytes);
            }
        }
        if let Reception::Spread(spreader) = &mut port.reception {
            let (region, pool) = (&self.config.region, &mut self.config.pool);
            let flow = |packet: &Packet| flow_of(region.octets(packet));
            spreader.divide(packets, flow, |packet| {
                counters.dropped[Reason::WorkerRingFull].add(1);
                pool.give(packet.into_frame(region));
            });
        }
        count
    }

    /// Queues what Linux sends through the twins, by its code points; ARP and the like in the highest class of the port.
    /// Returns the number of packets.
    pub(crate) fn relay_twins(&mut self) -> usize {
        let mut relayed = 0;
        if self.stopping.is_some() || self.handing_over.is_some() {
            return relayed;
        }
        for (number, port) in self.config.ports.iter_mut().enumerate() {
            let Some(twin) = &mut port.twin else {
                continue;
            };
            let packets = &mut self.batch.packets; // empty between two turns
            let count = twin.receive(packets, MAX_BATCH);
            twin.refill(&mut self.config.pool);
            let egress = &mut self.egress[number];
            let last = Class(egress.queues().last_class());
            let (classifier, region) = (&self.tables.classifier, &self.config.region);
            for mut packet in packets.drain(..) {
                let class = classifier.class_of_linux(region.octets(&packet));
                packet.set_mark(class.unwrap_or(last).0);
                egress.stage(packet);
            }
            self.config.counters.ports[number]
                .from_linux
                .add(count as u64);
            relayed += count;
        }
        relayed
    }
}
