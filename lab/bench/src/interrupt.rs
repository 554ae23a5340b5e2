//! The router of 2005 (Bianco05, Fig. 4), for comparison: arrivals interrupt, and are moved to a
//! backlog before anything is forwarded. Under overload, reception takes all the time.
//!
//! Only the loop differs from a worker: stages, tables, pool and queues are the same. What an
//! interrupt costs is a system call here, as a worker's sleep and wake-up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::Packet;
use bora_contract::Counts;
use bora_fib::PortId;
use bora_forward::schedule::OutputError;
use bora_forward::{
    Batch, Context, Egress, Inputs, Meta, Outputs, Reason, RuleCounters, Tunnelling, Verdict,
    enqueue, run,
};
use bora_port::af_xdp::RING_SIZE;
use bora_worker::{QUOTA, Tables, WorkerConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::outcome::Outcome;

/// Packets between reception and forwarding; Linux 2.4's netdev_max_backlog.
const BACKLOG: usize = 300;
/// Longest sleep, which delays the end of a run.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// When arrivals interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// Each of them.
    Each,
    /// Up to [`QUOTA`] of them at once: interrupt moderation.
    Moderated,
}

/// The loop, with a worker's parts. Each port has one queue.
pub(crate) struct Interrupted {
    config: WorkerConfig,
    tables: Arc<Tables>,
    /// Packets that an interrupt announces.
    announced: usize,
    batch: Batch,
    rules: Vec<RuleCounters>,
    egress: Vec<Egress>,
    min_frames: Vec<u16>,
    inputs: Inputs,
    tunnelling: Tunnelling,
    /// Received and not forwarded yet, with the port it came in by.
    backlog: VecDeque<(usize, Packet)>,
    received: u64,
    sent: u64,
    backlog_full: u64,
    dropped: Counts,
}

impl Interrupted {
    /// Takes the same configuration as a worker.
    ///
    /// # Errors
    /// The configuration of an output is impossible.
    pub(crate) fn new(
        mut config: WorkerConfig,
        interrupts: Interrupts,
    ) -> Result<Self, OutputError> {
        let egress = config.ports.iter().map(|port| Egress::new(&port.output));
        let egress = egress.collect::<Result<_, _>>()?;
        let (_, tables) = config.tables.latest();
        for port in &mut config.ports {
            port.queues[0].refill(&mut config.pool);
        }
        Ok(Self {
            announced: match interrupts {
                Interrupts::Each => 1,
                Interrupts::Moderated => QUOTA as usize,
            },
            batch: Batch::new(),
            rules: std::iter::repeat_with(RuleCounters::default)
                .take(tables.classifier.rules())
                .collect(),
            egress,
            min_frames: config.ports.iter().map(|port| port.min_frame).collect(),
            inputs: Inputs::new(
                config.ports.iter().map(|port| &port.ingress),
                &*tables.devices,
            ),
            tunnelling: Tunnelling::default(),
            backlog: VecDeque::with_capacity(BACKLOG),
            received: 0,
            sent: 0,
            backlog_full: 0,
            dropped: Counts::default(),
            config,
            tables,
        })
    }

    /// Runs until it is told to stop and its queues are empty.
    pub(crate) fn run(mut self) -> Outcome {
        let (start, mut stopping) = (Instant::now(), false);
        loop {
            // benchmarks send no command but stop
            stopping |= self.config.commands.pop().is_some();
            let received = self.receive_all();
            let forwarded = self.forward_some();
            let sent = self.send(start.elapsed().as_nanos() as u64);
            self.config.fib.quiesce();
            if received + forwarded + sent > 0 {
                continue;
            }
            if stopping {
                break;
            }
            self.sleep();
        }
        Outcome {
            received: self.received,
            sent: self.sent,
            dropped: self.dropped,
            backlog_full: self.backlog_full,
            held: self.egress.iter().map(|egress| egress.held() as u64).sum(),
            ..Outcome::default()
        }
    }

    /// Moves what has arrived to the backlog, or drops it. Returns how many packets.
    fn receive_all(&mut self) -> usize {
        let mut received = 0;
        let (region, pool) = (&self.config.region, &mut self.config.pool);
        let packets = &mut self.batch.packets;
        for (number, port) in self.config.ports.iter_mut().enumerate() {
            // at most one ring; what comes meanwhile interrupts again
            for _ in 0..RING_SIZE as usize / self.announced {
                let count = port.queues[0].receive(packets, self.announced);
                if count == 0 {
                    break;
                }
                interrupt();
                port.queues[0].refill(pool);
                received += count;
                for packet in packets.drain(..) {
                    if self.backlog.len() < BACKLOG {
                        self.backlog.push_back((number, packet));
                    } else {
                        self.backlog_full += 1;
                        pool.give(packet.into_frame(region));
                    }
                }
            }
        }
        self.received += received as u64;
        received
    }

    /// Forwards up to a quota of the backlog, of one port. Returns how many packets.
    fn forward_some(&mut self) -> usize {
        let Some(&(port, _)) = self.backlog.front() else {
            return 0;
        };
        let packets = &mut self.batch.packets;
        while packets.len() < QUOTA as usize
            && self.backlog.front().is_some_and(|(from, _)| *from == port)
        {
            packets.extend(self.backlog.pop_front().map(|(_, packet)| packet));
        }
        let count = packets.len();
        self.batch.came_by(PortId(port as u16));
        let (config, tables, dropped) = (&mut self.config, &*self.tables, &mut self.dropped);
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
        run(&mut self.batch, &context, &self.rules, |_| {});
        let outputs = Outputs {
            egress: &mut self.egress,
            devices: &tables.devices,
            min_frames: &self.min_frames,
            region: &config.region,
        };
        let drop = |_, packet: Packet, meta: Meta| {
            // there is no slow path
            let reason = match meta.verdict() {
                Verdict::Drop(reason) | Verdict::Punt(reason) => reason,
                Verdict::Pending | Verdict::Forward(_) => Reason::NoOutput,
            };
            dropped[reason] += 1;
            config.pool.give(packet.into_frame(&config.region));
        };
        enqueue(&mut self.batch, outputs, |_, _, _| {}, drop);
        count
    }

    /// Moves packets from the egress to the transmit rings. Returns how many.
    fn send(&mut self, now_ns: u64) -> usize {
        let (mut total, pool) = (0, &mut self.config.pool);
        for (egress, port) in self.egress.iter_mut().zip(&mut self.config.ports) {
            let queue = &mut port.queues[0];
            let mut refused = |packet: Packet| {
                self.dropped[Reason::QueueFull] += 1;
                pool.give(packet.into_frame(&self.config.region));
            };
            while egress.held() > 0 {
                let count = queue.transmit(egress.ready(now_ns, u64::MAX, &mut refused).0);
                egress.settle(&mut refused);
                total += count;
                if count == 0 {
                    break;
                }
            }
            queue.kick();
            queue.reclaim(pool);
        }
        self.sent += total as u64;
        total
    }

    /// Waits for an interrupt.
    fn sleep(&mut self) {
        self.config.fib.offline();
        let ports = self.config.ports.iter_mut();
        let interrupts = ports.filter_map(|port| port.queues[0].wait());
        let mut fds: Vec<PollFd<'_>> = interrupts
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: LONGEST_SLEEP.subsec_nanos().into(),
        };
        // if it fails, the sleep is only shorter
        let _ = poll(&mut fds, Some(&timeout));
        self.config.fib.online();
    }
}

/// What an interrupt costs: entering the system and leaving it.
fn interrupt() {
    // without descriptors it only looks at the time limit, which is over
    let _ = poll(&mut [], Some(&Timespec::default()));
}
