//! The way in: whose turn it is, and what the modes do before anything is forwarded.

use std::time::{Duration, Instant};

use bora_buffer::{MAX_BATCH, Packet};
use bora_forward::{Drop, PollList, Turn, flow_of};
use bora_port::af_xdp::RING_SIZE;

use crate::mode::BACKLOG;
use crate::spread::Reception;
use crate::worker::{QUOTA, Worker, WorkerConfig};

impl Worker {
    /// The poll list of all queues; to be called when queues, quotas or the budget change.
    pub(crate) fn list_queues(&mut self) {
        let ports = self.config.ports.iter().enumerate();
        self.inputs = ports
            .flat_map(|(port, part)| (0..part.queues.len()).map(move |queue| (port, queue)))
            .collect();
        let quota = |&(port, _): &(usize, usize)| self.config.ports[port].quota;
        let quotas: Vec<u32> = self.inputs.iter().map(quota).collect();
        self.list = PollList::new(&quotas, self.config.budget);
        // looking at a queue costs no interrupt here, so all stay on the list
        (0..quotas.len()).for_each(|queue| self.list.add(queue));
    }

    /// One round over the queues, within quotas and budget; returns the packets received.
    pub(crate) fn round(&mut self) -> usize {
        let mut received = 0;
        self.list.start_round();
        while let Some(turn) = self.list.next_turn() {
            let count = self.turn(turn);
            self.list.finish(turn, count as u32, true);
            received += count;
        }
        received
    }

    /// Stages what Linux sends out of twins, in the highest class of its port, because it is mostly
    /// ARP and routing protocols; returns how many packets.
    pub(crate) fn relay(&mut self) -> usize {
        let mut relayed = 0;
        if self.stopping || self.exodus.is_some() {
            return relayed;
        }
        for (number, port) in self.config.ports.iter_mut().enumerate() {
            let Some(twin) = &mut port.twin else {
                continue;
            };
            // empty between two turns
            let packets = &mut self.batch.packets;
            let count = twin.receive(packets, MAX_BATCH);
            twin.refill(&mut self.pool);
            let exit = &mut self.exits[number];
            let class = exit.queues().last_class();
            for mut packet in packets.drain(..) {
                packet.set_mark(class);
                exit.stage(packet);
            }
            self.config.counters.ports[number]
                .from_linux
                .add(count as u64);
            relayed += count;
        }
        relayed
    }

    fn turn(&mut self, turn: Turn) -> usize {
        let (port, queue) = self.inputs[turn.queue];
        let mut left = turn.allowance as usize;
        while left > 0 {
            let most = left.min(MAX_BATCH);
            let count = self.receive(port, queue, most);
            left -= count;
            if count > 0 {
                self.forward(port);
                self.send();
            }
            // fewer than asked for may only mean that a call brings no more
            if count == 0 {
                break;
            }
        }
        turn.allowance as usize - left
    }

    /// Fills the batch with up to `most` packets.
    fn receive(&mut self, port: usize, queue: usize, most: usize) -> usize {
        let counters = &self.config.counters.ports[port];
        let port = &mut self.config.ports[port];
        let is_direct = port.reception.is_direct();
        let is_deaf = self.exodus.is_some() || self.deaf && port.ingress.gate.is_some();
        if is_direct && is_deaf {
            return 0;
        }
        let queue = &mut port.queues[queue];
        let packets = &mut self.batch.packets;
        let count = queue.receive(packets, most);
        queue.refill(&mut self.pool);
        // a ring brings what another worker has counted
        if count > 0 && is_direct {
            let bytes: usize = packets.iter().map(Packet::length).sum();
            counters.rx_packets.add(count as u64);
            counters.rx_bytes.add(bytes as u64);
            if port.ingress.gate.is_some() {
                counters.ungated_packets.add(count as u64);
                counters.ungated_bytes.add(bytes as u64);
            }
        }
        if let Reception::Spread(spreader) = &mut port.reception {
            let (region, pool) = (&self.config.region, &mut self.pool);
            let flow = |packet: &Packet| flow_of(region.octets(packet));
            spreader.divide(packets, flow, |packet| {
                counters.dropped[Drop::WorkerRingFull as usize].add(1);
                pool.give(packet.into_frame(region));
            });
        }
        count
    }

    /// Lets packets gather in the receive rings, until there are enough or the time is up
    /// ([`crate::Mode::Moderated`]).
    pub(crate) fn gather(&mut self, enough: usize, time: Duration) {
        let start = Instant::now();
        let arrived = |config: &mut WorkerConfig| -> usize {
            let queues = config.ports.iter_mut().flat_map(|port| &mut port.queues);
            queues.map(|queue| queue.waiting(enough)).sum()
        };
        self.config.fib.offline();
        loop {
            let waiting = arrived(&mut self.config);
            let left = time.saturating_sub(start.elapsed());
            if waiting == 0 || waiting >= enough || left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(time / 4));
        }
        self.config.fib.online();
    }

    /// One round of [`crate::Mode::Interrupt`]: reception first and to the end, then one quota of
    /// forwarding. Returns the packets received and forwarded.
    pub(crate) fn interrupted_round(&mut self) -> usize {
        let mut received = 0;
        for input in 0..self.inputs.len() {
            let (port, queue) = self.inputs[input];
            // a ring's worth: what comes meanwhile interrupts again
            for _ in 0..RING_SIZE / QUOTA {
                let count = self.receive(port, queue, QUOTA as usize);
                received += count;
                self.set_aside(port);
                if count < QUOTA as usize {
                    break;
                }
            }
        }
        received + self.forward_backlog()
    }

    /// Forwards up to a quota of what was set aside; returns how many packets.
    pub(crate) fn forward_backlog(&mut self) -> usize {
        let Some(&(port, _)) = self.backlog.front() else {
            return 0;
        };
        let mut forwarded = 0;
        while forwarded < QUOTA as usize
            && self.backlog.front().is_some_and(|(from, _)| *from == port)
        {
            let packet = self.backlog.pop_front().map(|(_, packet)| packet);
            self.batch.packets.extend(packet);
            forwarded += 1;
        }
        self.forward(port);
        self.send();
        forwarded
    }

    /// Moves what was received to the backlog, or drops it by name.
    fn set_aside(&mut self, port: usize) {
        let dropped = &self.config.counters.ports[port].dropped[Drop::BacklogFull as usize];
        for packet in self.batch.packets.drain(..) {
            if self.backlog.len() < BACKLOG {
                self.backlog.push_back((port, packet));
            } else {
                dropped.add(1);
                self.pool.give(packet.into_frame(&self.config.region));
            }
        }
    }
}
