//! One forwarding thread and its loop.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bora_forward::schedule::OutputError;
use bora_forward::{Batch, Egress, Inputs, PollList, Tunnelling, Unwrapped};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::byte_limit::ByteLimit;
use crate::config::{WorkerConfig, WorkerPort};
use crate::handover::Handover;
use crate::mode::Mode;
use crate::profile::Profiler;
use crate::tables::Tables;
use crate::watch::Watching;

/// Empty rounds in a row before an adaptive worker sleeps, and before a stopping one looks whether
/// it is done.
const IDLE_ROUNDS: u32 = 64;
/// Rounds after [`crate::Command::Stop`] in which ports without an XDP program still receive: nothing
/// keeps packets away from them, so they may never be empty.
const LAST_ROUNDS: u32 = 4096;
/// Longest sleep without a packet: bounds how late a command is taken.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// How long a stopping worker waits for a transmit ring that takes nothing: longer than any sensible
/// rate makes a frame wait.
const STUCK: Duration = Duration::from_secs(1);
/// How long a stopping worker sends what slow queues hold. The rest is dropped: who stops a router
/// does not wait for minutes.
const LONGEST_STOP: Duration = Duration::from_secs(5);
/// How long packets that Linux sends through a twin wait at most while the worker is awake; they wake a
/// sleeping one.
const TWIN_PAUSE_NS: u64 = 50_000;
/// How often the counters that cost more than a store are published.
const DETAILS_EVERY: Duration = Duration::from_millis(10);

/// A removed port whose queues are not given back yet.
pub(crate) struct Draining {
    pub(crate) number: usize,
    /// The number of packets it held when that number last changed, and when that was.
    pub(crate) held: u64,
    pub(crate) since: Instant,
}

/// The state of a worker that hands over.
#[derive(Debug)]
pub(crate) struct HandingOver {
    pub(crate) handover: Arc<Handover>,
    /// Since when everything that was received is forwarded.
    pub(crate) forwarded: Option<Instant>,
}

/// One forwarding thread.
pub struct Worker {
    pub(crate) config: WorkerConfig,
    /// What it decides by, and their generation.
    pub(crate) tables: Arc<Tables>,
    pub(crate) generation: u64,
    pub(crate) batch: Batch,
    /// What packets come in by: the ports, and the devices on them.
    pub(crate) inputs: Inputs,
    /// Packets that were in tunnels; empty between two batches.
    pub(crate) unwrapped: Unwrapped,
    /// Packets of the batch that somebody wants to see.
    pub(crate) watching: Watching,
    pub(crate) tunnelling: Tunnelling,
    /// Port and queue behind each number of the poll list.
    pub(crate) polled: Vec<(usize, usize)>,
    pub(crate) list: PollList,
    /// By port number, as the next two.
    pub(crate) egress: Vec<Egress>,
    pub(crate) byte_limits: Vec<ByteLimit>,
    pub(crate) min_frames: Vec<u16>,
    /// Set while it measures its own stages.
    pub(crate) profiler: Option<Profiler>,
    /// Nanoseconds since the start, read once a round.
    pub(crate) now_ns: u64,
    start: Instant,
    /// When the worker looks for packets of Linux again; as `now_ns`.
    pub(crate) twins_due_ns: u64,
    /// When the details were published last.
    published: Instant,
    /// When a packet was received or sent last.
    busy: Instant,
    /// Removed ports whose queues are not given back yet.
    pub(crate) draining: Vec<Draining>,
    /// Set while the worker hands its ports over to its successors.
    pub(crate) handing_over: Option<HandingOver>,
    /// When it was told to stop.
    pub(crate) stopping: Option<Instant>,
    /// The thread that has made it.
    maker: ThreadId,
    /// The worker stops, and ports without an XDP program receive no more.
    pub(crate) last_rounds_over: bool,
}

impl Worker {
    /// Makes a worker and fills its receive rings, so that packets can come at once. To be called on the
    /// thread that will run it: what a worker writes is then in memory of its own NUMA node, and in cache
    /// lines that no other worker writes.
    ///
    /// # Errors
    /// The configuration of an output is impossible.
    pub fn new(mut config: WorkerConfig) -> Result<Self, OutputError> {
        let now = Instant::now();
        let ports = std::mem::take(&mut config.ports);
        pin(config.core);
        let (generation, tables) = config.tables.latest();
        config.counters.generation.store(generation, Release);
        let mut worker = Self {
            batch: Batch::new(),
            inputs: Inputs::new([], &*tables.devices),
            unwrapped: Unwrapped::new(),
            watching: Watching::new(&tables.subscriptions),
            tunnelling: Tunnelling::new(RandomState::new().build_hasher().finish() as u16),
            polled: Vec::new(),
            list: PollList::new(&[], tables.budget),
            egress: Vec::new(),
            byte_limits: Vec::new(),
            min_frames: Vec::new(),
            profiler: None,
            now_ns: 0,
            start: now,
            twins_due_ns: 0,
            published: now,
            busy: now,
            draining: Vec::new(),
            handing_over: None,
            stopping: None,
            last_rounds_over: false,
            maker: thread::current().id(),
            tables,
            generation,
            config,
        };
        for port in ports {
            worker.add_port(port)?;
        }
        worker.list_inputs();
        Ok(worker)
    }

    /// Runs until [`crate::Command::Stop`] and its rings are empty, or until
    /// [`crate::Command::HandOver`]: then it returns its part of each port, by port number, for
    /// [`crate::merge_parts`].
    pub fn run(mut self) -> Vec<WorkerPort> {
        let thread = thread::current().id();
        debug_assert_eq!(
            thread, self.maker,
            "a worker runs on the thread that made it"
        );
        let (mut idle, mut last_rounds) = (0u32, 0);
        loop {
            // before the round: after a sleep the first packet must meet the latest settings
            self.take_commands();
            let now = Instant::now();
            self.now_ns = now.duration_since(self.start).as_nanos() as u64;
            let mut received = self.round();
            // looking into a twin is a system call, even if nothing is there
            if self.now_ns >= self.twins_due_ns {
                self.twins_due_ns = self.now_ns + TWIN_PAUSE_NS;
                received += self.relay_twins();
            }
            let sent = self.send();
            self.kick();
            self.config.fib.quiesce();
            self.config.budgets.tick(now);
            self.publish(now);
            if !self.draining.is_empty() {
                self.drain_ports(now);
            }
            if self.may_hand_over(now) {
                return self.into_parts(now);
            }
            last_rounds += u32::from(self.stopping.is_some());
            self.last_rounds_over = last_rounds > LAST_ROUNDS;
            if received + sent > 0 {
                idle = 0;
                self.busy = now;
                continue;
            }
            idle = idle.saturating_add(1);
            self.config.counters.idle_loops.add(1);
            if self.stopping.is_some() && idle >= IDLE_ROUNDS && self.is_done(now) {
                (0..self.egress.len()).for_each(|port| self.drop_held(port));
                self.publish(now);
                self.publish_details();
                return Vec::new();
            }
            if self.handing_over.is_some() {
                // the other workers may need this CPU to get ready
                thread::yield_now();
            } else if self.stopping.is_none() {
                self.rest(idle);
            }
        }
    }

    /// Does what the mode says after this many empty rounds in a row.
    fn rest(&mut self, idle: u32) {
        match self.tables.mode_of(self.config.number) {
            Mode::Poll => {}
            Mode::Adaptive if idle < IDLE_ROUNDS => {}
            Mode::Adaptive => self.sleep(),
            Mode::Moderated { packets, time } => {
                self.sleep();
                self.gather(packets as usize, time);
            }
        }
    }

    /// Packets that wait in this worker or on the way to another one; those that drivers have do not
    /// count.
    pub(crate) fn held(&self) -> u64 {
        let ports = self.config.ports.iter();
        let shared = ports.map(|port| port.share.in_flight() + port.reception.in_flight());
        let egress = self.egress.iter().map(|egress| egress.held() as u64);
        egress.sum::<u64>() + shared.sum::<u64>()
    }

    /// Packets that drivers have to send.
    pub(crate) fn in_flight(&self) -> u64 {
        let queues = self.config.ports.iter().flat_map(|port| &port.queues);
        queues.map(|queue| u64::from(queue.in_flight())).sum()
    }

    /// Whether nothing is left to send, neither here nor with workers that send through this one's
    /// rings; they publish what they hold once a round, so wait for a round of theirs. Or whether
    /// nothing has moved for too long, or all of it takes too long.
    fn is_done(&self, now: Instant) -> bool {
        let pause = now.duration_since(self.busy);
        let is_late = |since| now.duration_since(since) >= LONGEST_STOP;
        if pause >= STUCK || self.stopping.is_some_and(is_late) {
            return true;
        }
        let peers = &self.config.peers;
        (peers.is_empty() || pause >= LONGEST_SLEEP)
            && self.held() == 0
            && self.in_flight() == 0
            && peers.iter().all(|peer| peer.queued.get() == 0)
    }

    pub(crate) fn publish(&mut self, now: Instant) {
        let counters = &self.config.counters;
        counters.held.set(self.in_flight());
        counters.queued.set(self.held());
        counters.loops.add(1);
        if now.duration_since(self.published) >= DETAILS_EVERY {
            self.published = now;
            self.publish_details();
        }
    }

    /// Publishes the numbers that nobody needs every round.
    pub(crate) fn publish_details(&mut self) {
        let counters = &self.config.counters;
        if let Some(profiler) = &self.profiler {
            profiler.publish(&counters.profile);
            if self.published >= profiler.until {
                self.profiler = None;
            }
        }
        let pool = self.config.pool.stats();
        counters.pool_hits.set(pool.hits);
        counters.pool_refilled.set(pool.refilled);
        counters.pool_spilled.set(pool.spilled);
        counters.pool_exhausted.set(pool.exhausted);
        counters.pool_size.set(self.config.pool.len() as u64);
        for (port, egress) in counters.ports.iter().zip(&self.egress) {
            for (class, stats) in port.classes.iter().zip(egress.stats()) {
                class.enqueued.set(stats.enqueued);
                class.sent.set(stats.pulled);
                class.held.set(stats.enqueued - stats.pulled);
                class.dropped.set(stats.dropped);
            }
        }
        for (counters, port) in counters.ports.iter().zip(&self.config.ports) {
            let queues = port.queues.iter().chain(&port.twin);
            let frames = queues.map(|queue| u64::from(queue.frames()));
            counters.frames.set(frames.sum());
        }
    }
}

/// Keeps this thread on a CPU, if one is given.
fn pin(core: Option<usize>) {
    let Some(core) = core else { return };
    let mut cpus = CpuSet::new();
    cpus.set(core);
    if let Err(error) = sched_setaffinity(None, &cpus) {
        log::warn!("cannot pin a worker to CPU {core}: {error}; the scheduler places it");
    }
}
