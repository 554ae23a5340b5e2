//! One forwarding thread: what it is made of, and its loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{FibReader, PortId};
use bora_forward::schedule::{OutputConfig, OutputError};
use bora_forward::{Batch, Classifier, Exit, FlowHash, Ingress, PollList, RuleHits};
use bora_port::af_xdp::RING_SIZE;
use bora_port::{Bell, Queue};
use crossbeam_queue::ArrayQueue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::command::Leaving;
use crate::counters::WorkerCounters;
use crate::flight::Flight;
use crate::leave::{Departure, Exodus};
use crate::mode::{BACKLOG, Mode};
use crate::punt::{Budgets, PuntRings};
use crate::share::Share;
use crate::spread::Reception;

/// Packets a queue may bring a turn, without configuration; NAPI's weight.
pub const QUOTA: u32 = 64;
/// Packets a round, without configuration; Linux's netdev_budget.
pub const BUDGET: u32 = 300;
/// Empty rounds before a worker sleeps.
const IDLE_ROUNDS: u32 = 64;
/// Rounds after [`Command::Stop`] in which ports are listened to that no gate closes: they may never
/// be empty.
const LAST_ROUNDS: u32 = 4096;
/// Longest sleep without a packet: bounds how late a command is taken.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Longest sleep where a queue cannot wake the worker.
const BLIND_SLEEP: Duration = Duration::from_millis(1);
/// Queues that can wake it.
const MOST_FDS: usize = 256;
/// Longest that a stopping worker waits for a transmit ring that takes nothing: beyond what any
/// rate makes a frame wait, and short for who has stopped it.
const STUCK: Duration = Duration::from_secs(1);
/// Between two publications of the numbers that are many.
const RARELY: Duration = Duration::from_millis(10);

/// What the control side can tell a running worker.
#[derive(Debug)]
pub enum Command {
    /// New settings of a port.
    SetIngress(Ingress),
    /// Another mode.
    SetMode(Mode),
    /// New flow-hash policies, IPv4 and IPv6.
    SetHash(FlowHash, FlowHash),
    /// Other rules; their counters start anew.
    SetRules(Arc<Classifier>),
    /// Packets that each queue of a port may bring a turn.
    SetQuota {
        /// The port.
        port: PortId,
        /// At least 1.
        quota: u32,
    },
    /// Packets a round, at least 1.
    SetBudget(u32),
    /// Other queues of an output; what the old ones hold goes over.
    SetOutput {
        /// The port.
        port: PortId,
        /// A configuration that was found good.
        config: OutputConfig,
    },
    /// One more port: the next number, or that of a port that was removed.
    AddPort(Box<WorkerPort>),
    /// Give the port's queues back through [`WorkerConfig::returns`], once what they received is
    /// forwarded and what they send is sent. The gate in front of it is closed.
    RemovePort(PortId),
    /// Receive no more from ports, forward what all who leave have received, and end: the queues go
    /// to whoever joins the thread. Ring the bell ([`Bell::ring`]), for packets wait meanwhile.
    Leave(Arc<Departure>),
    /// Finish: the gate is closed, so empty the receive rings, send what is held, and end.
    Stop,
}

/// From the control side to one worker.
pub type Commands = Arc<ArrayQueue<Command>>;

/// One worker's queues of a removed port.
#[derive(Debug)]
pub struct Returned {
    /// The port.
    pub port: PortId,
    /// Its queues, drained: to be closed.
    pub queues: Vec<Queue>,
}

/// From the workers to the control side.
pub type Returns = Arc<ArrayQueue<Returned>>;

/// A worker's part of one port.
#[derive(Debug)]
pub struct WorkerPort {
    /// Settings; `ingress.port` is the index in [`WorkerConfig::ports`].
    pub ingress: Ingress,
    /// Shortest frame to send, octets without FCS.
    pub min_frame: u16,
    /// Packets that each of its queues may bring a turn.
    pub quota: u32,
    /// Classes, queues and rates on the way out; found good.
    pub output: OutputConfig,
    /// The queues this worker owns; it sends through the first. With [`Reception::Ring`], the ring it
    /// receives from.
    pub queues: Vec<Queue>,
    /// Where a port that is no interface gets what Linux sends by it: goes out as it is.
    pub twin: Option<Queue>,
    /// Whether others get a part of what comes by these queues.
    pub reception: Reception,
    /// Whether others send through the same ring.
    pub share: Share,
    /// What is to be sent before anything else, of workers that had the port before; each packet's
    /// mark is its class.
    pub held: Vec<Packet>,
}

/// What a worker is made of.
pub struct WorkerConfig {
    /// CPU to run on; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// When it looks at its queues.
    pub mode: Mode,
    /// Packets a round.
    pub budget: u32,
    /// All memory for packets.
    pub region: Arc<Region>,
    /// The reserve of free frames.
    pub frames: SharedFrames,
    /// Whether the worker keeps freed frames to itself, the last one to be used first; without,
    /// each goes through the reserve, which is for measuring only (Bianco05).
    pub recycling: bool,
    /// Its access to the tables.
    pub fib: FibReader,
    /// By port number.
    pub ports: Vec<WorkerPort>,
    /// Classes and rules.
    pub classifier: Arc<Classifier>,
    /// Flow-hash policies, IPv4 and IPv6.
    pub hash: (FlowHash, FlowHash),
    /// The way to the slow path.
    pub punts: Arc<PuntRings>,
    /// What may go there.
    pub budgets: Budgets,
    /// What others wake it by.
    pub bell: Arc<Bell>,
    /// Counters of the workers it shares ports with: it ends after their packets have left.
    pub peers: Vec<Arc<WorkerCounters>>,
    /// What the control side says.
    pub commands: Commands,
    /// Queues the worker is done with.
    pub returns: Returns,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
}

/// One forwarding thread.
pub struct Worker {
    pub(crate) config: WorkerConfig,
    pub(crate) pool: Pool,
    pub(crate) batch: Batch,
    /// Port and queue behind each number of the poll list.
    pub(crate) inputs: Vec<(usize, usize)>,
    pub(crate) list: PollList,
    /// By port number.
    pub(crate) exits: Vec<Exit>,
    /// Of the transmit ring behind each.
    pub(crate) flights: Vec<Flight>,
    pub(crate) min_frames: Vec<u16>,
    pub(crate) hits: Vec<RuleHits>,
    /// Received and not yet looked at ([`Mode::Interrupt`]), with the port it came in by.
    pub(crate) backlog: VecDeque<(usize, Packet)>,
    /// Nanoseconds since the start, read once a round.
    pub(crate) now_ns: u64,
    start: Instant,
    published: Instant,
    /// When there was something to do last.
    busy: Instant,
    /// Ports to be given back.
    pub(crate) leaving: Vec<Leaving>,
    /// The worker itself is about to go.
    pub(crate) exodus: Option<Exodus>,
    pub(crate) stopping: bool,
    /// Ports without a gate are listened to no more.
    pub(crate) deaf: bool,
}

impl Worker {
    /// Makes a worker; fills its rings, so that packets can come as soon as the gate opens.
    ///
    /// # Errors
    /// The configuration of an output is impossible.
    pub fn new(mut config: WorkerConfig) -> Result<Self, OutputError> {
        let queues: usize = config.ports.iter().map(|port| port.queues.len()).sum();
        // where rings are short there is less memory, and other workers need theirs
        let most = config.region.frames() as usize / 4;
        let keep = ((queues.max(1) * RING_SIZE as usize) / 2).min(most);
        let now = Instant::now();
        let ports = std::mem::take(&mut config.ports);
        let mut worker = Self {
            pool: match config.recycling {
                true => Pool::new(config.frames.clone(), keep),
                false => Pool::without_recycling(config.frames.clone()),
            },
            batch: Batch::new(),
            inputs: Vec::new(),
            list: PollList::new(&[], config.budget),
            exits: Vec::new(),
            flights: Vec::new(),
            min_frames: Vec::new(),
            hits: vec![RuleHits::default(); config.classifier.rules()],
            backlog: VecDeque::with_capacity(BACKLOG),
            now_ns: 0,
            start: now,
            published: now,
            busy: now,
            leaving: Vec::new(),
            exodus: None,
            stopping: false,
            deaf: false,
            config,
        };
        for port in ports {
            worker.add_port(port)?;
        }
        Ok(worker)
    }

    /// Runs until [`Command::Stop`] and its rings are empty, or until [`Command::Leave`]: then what it
    /// had of each port is returned, by port number; see [`crate::reunite`].
    pub fn run(mut self) -> Vec<WorkerPort> {
        self.pin();
        let (mut idle, mut last_rounds) = (0u32, 0);
        loop {
            // before the turn: after a sleep the first packet must meet the latest settings
            self.take_commands();
            let now = Instant::now();
            self.now_ns = now.duration_since(self.start).as_nanos() as u64;
            let received = match self.config.mode {
                Mode::Interrupt => self.interrupted_round(),
                _ if !self.backlog.is_empty() => self.forward_backlog(), // of another mode
                _ => self.round(),
            };
            let received = received + self.relay();
            let sent = self.send();
            self.kick();
            self.config.fib.quiesce();
            self.config.budgets.tick(now);
            self.publish(now);
            if !self.leaving.is_empty() {
                self.give_ports_back(now);
            }
            if self.may_go(now) {
                return self.hand_over(now);
            }
            last_rounds += u32::from(self.stopping);
            self.deaf = last_rounds > LAST_ROUNDS;
            if received + sent > 0 {
                idle = 0;
                self.busy = now;
                continue;
            }
            idle = idle.saturating_add(1);
            self.config.counters.idle_loops.add(1);
            if self.stopping && idle >= IDLE_ROUNDS && self.is_over(now) {
                (0..self.exits.len()).for_each(|port| self.drop_held(port));
                self.publish(now);
                self.publish_details();
                return Vec::new();
            }
            if self.exodus.is_some() {
                // others may need this CPU to leave too
                std::thread::yield_now();
            } else if !self.stopping {
                self.rest(idle);
            }
        }
    }

    /// What the mode does after so many empty rounds: a sleep that nothing ended is one.
    fn rest(&mut self, idle: u32) {
        match self.config.mode {
            Mode::Poll => {}
            Mode::Adaptive if idle < IDLE_ROUNDS => {}
            Mode::Adaptive | Mode::Interrupt => self.sleep(),
            Mode::Moderated { packets, time } => {
                self.sleep();
                self.gather(packets as usize, time);
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

    /// Packets this worker has in hand, those with drivers not among them.
    pub(crate) fn held(&self) -> u64 {
        let ports = self.config.ports.iter();
        let shared = ports.map(|port| port.share.in_flight() + port.reception.in_flight());
        let exits = self.exits.iter().map(|exit| exit.held() as u64);
        self.backlog.len() as u64 + exits.sum::<u64>() + shared.sum::<u64>()
    }

    /// Packets with drivers.
    fn in_flight(&self) -> u64 {
        let queues = self.config.ports.iter().flat_map(|port| &port.queues);
        queues.map(|queue| u64::from(queue.in_flight())).sum()
    }

    /// Whether nothing is left here, nor with those who send through this worker's rings. They
    /// publish what they hold once a round, hence the wait. Or nothing has moved for too long.
    fn is_over(&self, now: Instant) -> bool {
        if now.duration_since(self.busy) >= STUCK {
            return true;
        }
        let quiet = self.config.peers.is_empty() || now.duration_since(self.busy) >= LONGEST_SLEEP;
        quiet
            && self.held() == 0
            && self.in_flight() == 0
            && self.config.peers.iter().all(|peer| peer.queued.get() == 0)
    }

    pub(crate) fn publish(&mut self, now: Instant) {
        let counters = &self.config.counters;
        counters.held.set(self.in_flight());
        counters.queued.set(self.held());
        counters.loops.add(1);
        if now.duration_since(self.published) >= RARELY {
            self.published = now;
            self.publish_details();
        }
    }

    /// The numbers that nobody needs each round.
    pub(crate) fn publish_details(&self) {
        let counters = &self.config.counters;
        let pool = self.pool.stats();
        counters.pool_hits.set(pool.hits);
        counters.pool_refilled.set(pool.refilled);
        counters.pool_spilled.set(pool.spilled);
        counters.pool_exhausted.set(pool.exhausted);
        counters.pool_size.set(self.pool.len() as u64);
        for (port, exit) in counters.ports.iter().zip(&self.exits) {
            for (class, stats) in port.classes.iter().zip(exit.stats()) {
                class.enqueued.set(stats.enqueued);
                class.sent.set(stats.pulled);
                class.dropped.set(stats.dropped);
            }
        }
        for (counters, port) in counters.ports.iter().zip(&self.config.ports) {
            let queues = port.queues.iter().chain(&port.twin);
            counters
                .frames
                .set(queues.map(|queue| u64::from(queue.frames())).sum());
        }
        for (rule, hits) in counters.rules.iter().zip(&self.hits) {
            rule.packets.set(hits.packets);
            rule.octets.set(hits.octets);
        }
    }

    /// Waits for a packet in the kernel; the tables may change meanwhile.
    fn sleep(&mut self) {
        self.publish_details();
        self.config.counters.sleeps.add(1);
        self.config.fib.offline();
        let mut longest = self.longest_sleep();
        self.config.bell.lie_down();
        let mut fds: ArrayVec<PollFd<'_>, MOST_FDS> = ArrayVec::new();
        fds.push(PollFd::new(&self.config.bell, PollFlags::IN));
        for port in &mut self.config.ports {
            if port.share.has_mail() {
                longest = Duration::ZERO;
            }
            if let Some(fd) = port.twin.as_mut().and_then(Queue::wait)
                && fds
                    .try_push(PollFd::from_borrowed_fd(fd, PollFlags::IN))
                    .is_err()
            {
                longest = longest.min(BLIND_SLEEP);
            }
            for queue in &mut port.queues {
                // who fills a ring rings the bell
                if !port.reception.is_direct() {
                    if queue.waiting(1) > 0 {
                        longest = Duration::ZERO;
                    }
                    continue;
                }
                let fd = queue.wait();
                let fd = fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                if fd.is_none_or(|fd| fds.try_push(fd).is_err()) {
                    longest = longest.min(BLIND_SLEEP);
                }
            }
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: longest.as_nanos().try_into().unwrap_or(i64::MAX),
        };
        // an interrupted or failed wait is a short sleep, no more
        let _ = poll(&mut fds, Some(&timeout));
        self.config.bell.get_up();
        self.config.fib.online();
    }

    /// Until a rate lets a packet go that waits. What waits for another worker is announced by it.
    fn longest_sleep(&mut self) -> Duration {
        let now = self.now_ns;
        let ports = self.config.ports.iter_mut().zip(&mut self.exits);
        let exits = ports.filter_map(|(port, exit)| match &mut port.share {
            Share::Alone => Some(exit),
            Share::Owner(owner) => Some(&mut owner.last),
            Share::Member(_) => None,
        });
        let held = exits.filter(|exit| exit.held() > 0);
        let next = held.filter_map(|exit| exit.next_ready_ns(now)).min();
        let until = next.map(|next| Duration::from_nanos(next.saturating_sub(now)));
        until.map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
    }
}
