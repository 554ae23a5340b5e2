//! The loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::FibReader;
use bora_forward::{Batch, Context, Drop, HashPolicy, Ingress, Verdict};
use bora_port::Queue;
use bora_port::af_xdp::RING_SIZE;
use crossbeam_queue::ArrayQueue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::counters::WorkerCounters;
use crate::mode::{BACKLOG, Mode};
use crate::punt::{Budgets, PuntRing, Punted};

/// Packets taken from one queue before the next has its turn; NAPI's weight. Queues, quotas and
/// modes that can be set belong to the scheduler to come.
const QUOTA: usize = 64;
/// Empty rounds before a worker sleeps.
const IDLE_ROUNDS: u32 = 64;
/// Most rounds after [`Command::Stop`]: ports that no gate closes may never be empty.
const LAST_ROUNDS: u32 = 4096;
/// Longest sleep without a packet: bounds how late a command is taken.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// What the control side can tell a running worker.
#[derive(Debug)]
pub enum Command {
    /// New settings of a port.
    SetIngress(Ingress),
    /// Another mode.
    SetMode(Mode),
    /// New flow-hash policies, IPv4 and IPv6.
    SetHash(HashPolicy, HashPolicy),
    /// Finish: the gate is closed, so empty the receive rings, send what is held, and end.
    Stop,
}

/// From the control side to one worker.
pub type Commands = Arc<ArrayQueue<Command>>;

/// A worker's part of one port.
#[derive(Debug)]
pub struct WorkerPort {
    /// Settings; `ingress.port` is the index in [`WorkerConfig::ports`].
    pub ingress: Ingress,
    /// Shortest frame to send, octets without FCS.
    pub min_frame: u16,
    /// The queues this worker owns; it sends through the first.
    pub queues: Vec<Queue>,
    /// Where a port that is no interface gets what Linux sends by it: goes out as it is.
    pub twin: Option<Queue>,
}

/// What a worker is made of.
pub struct WorkerConfig {
    /// CPU to run on; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// When it looks at its queues.
    pub mode: Mode,
    /// All memory for packets.
    pub region: Arc<Region>,
    /// The reserve of free frames.
    pub frames: SharedFrames,
    /// Its access to the tables.
    pub fib: FibReader,
    /// By port number.
    pub ports: Vec<WorkerPort>,
    /// Flow-hash policies, IPv4 and IPv6.
    pub hash: (HashPolicy, HashPolicy),
    /// The way to the slow path.
    pub punts: PuntRing,
    /// What may go there.
    pub budgets: Budgets,
    /// What the control side says.
    pub commands: Commands,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
}

/// One forwarding thread.
pub struct Worker {
    config: WorkerConfig,
    pool: Pool,
    batch: Batch,
    /// Packets for each output, filled and emptied within one turn.
    outputs: Vec<Vec<Packet>>,
    min_frames: Vec<u16>,
    /// Received and not yet looked at ([`Mode::Interrupt`]), with the port it came in by.
    backlog: VecDeque<(usize, Packet)>,
    stopping: bool,
}

impl Worker {
    /// Makes a worker; fills its rings, so that packets can come as soon as the gate opens.
    pub fn new(config: WorkerConfig) -> Self {
        let queues: usize = config.ports.iter().map(|port| port.queues.len()).sum();
        let pool = Pool::new(
            config.frames.clone(),
            (queues.max(1) * RING_SIZE as usize) / 2,
        );
        let outputs = config
            .ports
            .iter()
            .map(|_| Vec::with_capacity(QUOTA))
            .collect();
        let min_frames = config.ports.iter().map(|port| port.min_frame).collect();
        let mut worker = Self {
            config,
            pool,
            batch: Batch::new(),
            outputs,
            min_frames,
            backlog: VecDeque::with_capacity(BACKLOG),
            stopping: false,
        };
        for queue in worker
            .config
            .ports
            .iter_mut()
            .flat_map(|port| port.queues.iter_mut().chain(&mut port.twin))
        {
            queue.refill(&mut worker.pool);
        }
        worker
    }

    /// Runs until [`Command::Stop`] and its rings are empty.
    pub fn run(mut self) {
        self.pin();
        let (mut idle, mut last_rounds) = (0, 0);
        loop {
            // before the turn: after a sleep the first packet must meet the latest settings
            self.take_commands();
            let busy = match self.config.mode {
                Mode::Interrupt => self.interrupted_turn(),
                _ if !self.backlog.is_empty() => self.forward_backlog(), // of another mode
                _ => self.turn(),
            };
            self.config.fib.quiesce();
            self.config.budgets.tick(Instant::now());
            self.publish();
            last_rounds += u32::from(self.stopping);
            if last_rounds > LAST_ROUNDS {
                return;
            }
            if busy > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if self.stopping && idle >= IDLE_ROUNDS {
                return;
            }
            if !self.stopping && self.rest(idle) {
                idle = 0;
            }
        }
    }

    /// What the mode does after so many empty rounds; whether it slept.
    fn rest(&mut self, idle: u32) -> bool {
        match self.config.mode {
            Mode::Poll => return false,
            Mode::Adaptive if idle < IDLE_ROUNDS => return false,
            Mode::Adaptive | Mode::Interrupt => self.sleep(),
            Mode::Moderated { packets, time } => {
                self.sleep();
                self.gather(packets as usize, time);
            }
        }
        true
    }

    /// Lets packets gather in the receive rings, until there are enough or the time is up.
    fn gather(&mut self, enough: usize, time: Duration) {
        let start = Instant::now();
        let arrived = |config: &mut WorkerConfig| -> usize {
            let ports = config.ports.iter_mut();
            ports
                .flat_map(|port| &mut port.queues)
                .map(|queue| queue.waiting(enough))
                .sum()
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

    /// One round of [`Mode::Interrupt`]: reception first and to the end, then one quota of
    /// forwarding. Returns the packets received and forwarded.
    fn interrupted_turn(&mut self) -> usize {
        let mut received = 0;
        for port in 0..self.config.ports.len() {
            for queue in 0..self.config.ports[port].queues.len() {
                // a ring's worth: what comes meanwhile interrupts again
                for _ in 0..RING_SIZE as usize / QUOTA {
                    let count = self.receive(port, queue);
                    received += count;
                    self.set_aside(port);
                    if count < QUOTA {
                        break;
                    }
                }
            }
        }
        received + self.relay() + self.forward_backlog()
    }

    /// Forwards up to a quota of what was set aside; returns how many packets.
    fn forward_backlog(&mut self) -> usize {
        let Some(&(port, _)) = self.backlog.front() else {
            self.settle();
            return 0;
        };
        let mut forwarded = 0;
        while forwarded < QUOTA && self.backlog.front().is_some_and(|(from, _)| *from == port) {
            self.batch
                .packets
                .extend(self.backlog.pop_front().map(|(_, packet)| packet));
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

    fn pin(&self) {
        let Some(core) = self.config.core else { return };
        let mut cpus = CpuSet::new();
        cpus.set(core);
        if let Err(error) = sched_setaffinity(None, &cpus) {
            log::warn!("worker stays where the scheduler puts it: CPU {core}: {error}");
        }
    }

    /// One round over all queues; returns the packets received.
    fn turn(&mut self) -> usize {
        let mut received = 0;
        for port in 0..self.config.ports.len() {
            for queue in 0..self.config.ports[port].queues.len() {
                let count = self.receive(port, queue);
                if count > 0 {
                    received += count;
                    self.forward(port);
                    self.send();
                }
            }
        }
        received += self.relay();
        if received == 0 {
            self.settle();
        }
        received
    }

    /// Sends what Linux sends out of the twins; returns how many packets.
    fn relay(&mut self) -> usize {
        let mut relayed = 0;
        if self.stopping {
            return relayed;
        }
        for port in 0..self.config.ports.len() {
            let Some(twin) = &mut self.config.ports[port].twin else {
                continue;
            };
            let count = twin.receive(&mut self.outputs[port], QUOTA);
            twin.refill(&mut self.pool);
            if count > 0 {
                self.config.counters.ports[port]
                    .from_linux
                    .add(count as u64);
                relayed += count;
                self.send();
            }
        }
        relayed
    }

    fn receive(&mut self, port: usize, queue: usize) -> usize {
        let port = &mut self.config.ports[port];
        let queue = &mut port.queues[queue];
        let count = queue.receive(&mut self.batch.packets, QUOTA);
        queue.refill(&mut self.pool);
        if count > 0 {
            let bytes: usize = self.batch.packets.iter().map(Packet::length).sum();
            let counters = &self.config.counters.ports[usize::from(port.ingress.port.0)];
            counters.rx_packets.add(count as u64);
            counters.rx_bytes.add(bytes as u64);
        }
        count
    }

    /// Runs the stages and carries their verdicts out.
    fn forward(&mut self, port: usize) {
        let ingress = &self.config.ports[port].ingress;
        let context = Context {
            region: &self.config.region,
            fib: &self.config.fib,
            ingress,
            min_frames: &self.min_frames,
            hash4: self.config.hash.0,
            hash6: self.config.hash.1,
        };
        bora_forward::run(&mut self.batch, &context);

        let port = ingress.port;
        let counters = &self.config.counters.ports[usize::from(port.0)];
        let (region, pool) = (&self.config.region, &mut self.pool);
        let mut drop = |packet: Packet, reason: Drop| {
            counters.dropped[reason as usize].add(1);
            pool.give(packet.into_frame(region));
        };
        let Batch { packets, meta } = &mut self.batch;
        for (packet, meta) in packets.drain(..).zip(meta.iter()) {
            match meta.verdict {
                Verdict::Forward(out) => match self.outputs.get_mut(usize::from(out.0)) {
                    Some(output) => output.push(packet),
                    None => drop(packet, Drop::TxRingFull),
                },
                Verdict::Drop(reason) => drop(packet, reason),
                Verdict::Punt(reason) if !self.config.budgets.take(reason) => {
                    drop(packet, Drop::PuntBudget);
                }
                Verdict::Punt(reason) => match self.config.punts.push(Punted { packet, port }) {
                    Ok(()) => counters.punted[reason as usize].add(1),
                    Err(punted) => drop(punted.packet, Drop::PuntRingFull),
                },
                Verdict::Pending => drop(packet, Drop::Truncated),
            }
        }
    }

    /// Moves the outputs' packets to the transmit rings; what does not fit is dropped by name.
    fn send(&mut self) {
        for (index, output) in self.outputs.iter_mut().enumerate() {
            if output.is_empty() {
                continue;
            }
            let counters = &self.config.counters.ports[index];
            if let Some(queue) = self.config.ports[index].queues.first_mut() {
                queue.reclaim(&mut self.pool);
                let before: usize = output.iter().map(Packet::length).sum();
                let sent = queue.transmit(output);
                let after: usize = output.iter().map(Packet::length).sum();
                counters.tx_packets.add(sent as u64);
                counters.tx_bytes.add((before - after) as u64);
                queue.kick();
            }
            counters.dropped[Drop::TxRingFull as usize].add(output.len() as u64);
            for packet in output.drain(..) {
                self.pool.give(packet.into_frame(&self.config.region));
            }
        }
    }

    /// Takes back what was sent, and sends what a driver had no time for.
    fn settle(&mut self) {
        for queue in self
            .config
            .ports
            .iter_mut()
            .filter_map(|port| port.queues.first_mut())
        {
            queue.kick();
            queue.reclaim(&mut self.pool);
        }
    }

    fn take_commands(&mut self) {
        while let Some(command) = self.config.commands.pop() {
            match command {
                Command::SetIngress(ingress) => {
                    if let Some(port) = self.config.ports.get_mut(usize::from(ingress.port.0)) {
                        port.ingress = ingress;
                    }
                }
                Command::SetHash(v4, v6) => self.config.hash = (v4, v6),
                Command::SetMode(mode) => self.config.mode = mode,
                Command::Stop => self.stopping = true,
            }
        }
    }

    fn publish(&self) {
        let counters = &self.config.counters;
        let queues = self.config.ports.iter().flat_map(|port| &port.queues);
        counters
            .held
            .set(queues.map(|queue| u64::from(queue.in_flight())).sum());
        counters.queued.set(self.backlog.len() as u64);
        let pool = self.pool.stats();
        counters.pool_hits.set(pool.hits);
        counters.pool_refilled.set(pool.refilled);
        counters.pool_spilled.set(pool.spilled);
        counters.pool_exhausted.set(pool.exhausted);
        counters.loops.add(1);
    }

    /// Waits for a packet in the kernel; the tables may change meanwhile.
    fn sleep(&mut self) {
        self.config.counters.sleeps.add(1);
        self.config.fib.offline();
        let ports = self.config.ports.iter_mut();
        let mut fds: Vec<PollFd<'_>> = ports
            .flat_map(|port| port.queues.iter_mut().chain(&mut port.twin))
            .filter_map(Queue::wait)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: LONGEST_SLEEP.as_nanos().try_into().unwrap_or(i64::MAX),
        };
        // an interrupted or failed wait is a short sleep, no more
        let _ = poll(&mut fds, Some(&timeout));
        self.config.fib.online();
    }
}
