//! An engine in this process, for benchmarks: tables, memory, ports, and workers on threads. The
//! one place that makes workers.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_buffer::{Region, SharedFrames};
use bora_fib::{Adjacency, FibConfig, FibHandle, FibWriter, NextHop, PortId, Prefix4};
use bora_forward::classify::RuleSet;
use bora_forward::schedule::OutputConfig;
use bora_forward::{Drop, FlowHash, Ingress, Punt, RpFilter};
use bora_port::{Queue, QueueStats, StatsReader};
use bora_worker::{
    BUDGET, Bell, Budgets, Command, Commands, Mode, QUOTA, Reception, Share, Worker, WorkerConfig,
    WorkerCounters, WorkerPort,
};
use crossbeam_queue::ArrayQueue;

use crate::cpu::Usage;
use crate::packets::{FRAME, MAC};

/// Frames of a worker: more than its rings, queues and lists hold.
pub const FRAMES: u32 = 16_384;

/// Routes, shared by any number of workers.
pub struct Tables {
    handle: FibHandle,
    _writer: FibWriter,
}

impl Tables {
    /// A table of these prefixes and the ports they lead to.
    ///
    /// # Errors
    /// No room.
    pub fn new(routes: &[(Prefix4, PortId)]) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(FibConfig::default())?;
        let ports = routes.iter().map(|(_, port)| port.0).max().unwrap_or(0);
        let hops = (0..=ports)
            .map(|port| {
                writer.add_next_hop(NextHop::Forward(Adjacency {
                    port: PortId(port),
                    mtu: 1500,
                    l2: [port as u8; 14],
                    unconfirmed: false,
                }))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let routes: Vec<_> = routes
            .iter()
            .map(|(prefix, port)| (*prefix, hops[usize::from(port.0)]))
            .collect();
        writer.load4(&routes)?;
        Ok(Self {
            handle,
            _writer: writer,
        })
    }

    /// Everything leads to this port.
    ///
    /// # Errors
    /// No room.
    pub fn default_route(port: u16) -> anyhow::Result<Self> {
        Self::new(&[(Prefix4::masked(0, 0), PortId(port))])
    }
}

/// Memory for packets.
#[derive(Clone)]
pub struct Memory {
    /// All of it.
    pub region: Arc<Region>,
    frames: SharedFrames,
}

impl Memory {
    /// Memory for as many workers.
    ///
    /// # Errors
    /// The system has none.
    pub fn new(workers: u32) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(FRAMES * workers, 2048)?);
        let frames = SharedFrames::of_new_region(&region);
        Ok(Self { region, frames })
    }
}

/// A port of a worker.
pub struct Port {
    /// Its queue.
    pub queue: Queue,
    /// Packets a turn.
    pub quota: u32,
    /// Its queues and rates.
    pub output: OutputConfig,
}

impl From<Queue> for Port {
    fn from(queue: Queue) -> Self {
        Self {
            queue,
            quota: QUOTA,
            output: OutputConfig::default(),
        }
    }
}

/// What a worker does.
#[derive(Clone)]
pub struct Settings {
    /// CPU to run on.
    pub core: Option<usize>,
    /// When it looks at its queues.
    pub mode: Mode,
    /// Rules between parsing and look-up.
    pub rules: RuleSet,
    /// Packets a round.
    pub budget: u32,
    /// Whether it keeps freed frames to itself (Bianco05, Fig. 7).
    pub recycling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            core: None,
            mode: Mode::Poll,
            rules: RuleSet::default(),
            budget: BUDGET,
            recycling: true,
        }
    }
}

/// A worker that has not begun.
pub struct Job {
    worker: Worker,
    counters: Arc<WorkerCounters>,
    losses: Vec<StatsReader>,
    commands: Commands,
}

/// A worker on its thread.
pub struct Running {
    thread: JoinHandle<anyhow::Result<(Outcome, Usage)>>,
    losses: Vec<StatsReader>,
    commands: Commands,
    counters: Arc<WorkerCounters>,
    thread_id: u32,
}

/// What became of the packets of a run, and what it took.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Dropped, or left to a slow path that is not there, by name; no zeros.
    pub dropped: Vec<(&'static str, u64)>,
    /// In a queue or ring at the end.
    pub held: u64,
    /// Lost before reception, by port.
    pub losses: Vec<QueueStats>,
    /// Of its thread.
    pub usage: Usage,
}

impl Outcome {
    /// Packets dropped after reception.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|(_, count)| count).sum()
    }

    /// Packets sent for each second that its thread ran.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.usage.ran.as_secs_f64()
    }

    /// received = sent + dropped + held.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.received == self.sent + self.drops() + self.held,
            "packets lost without a name: {self:?}"
        );
        Ok(())
    }

    fn of_worker(counters: &WorkerCounters) -> Self {
        let mut outcome = Self {
            held: counters.queued.get(),
            ..Self::default()
        };
        let mut add = |name: &'static str, count: u64| match outcome
            .dropped
            .iter_mut()
            .find(|(other, _)| *other == name)
        {
            Some((_, total)) => *total += count,
            None => outcome.dropped.push((name, count)),
        };
        for port in &counters.ports {
            outcome.received += port.rx_packets.get();
            outcome.sent += port.tx_packets.get();
            for (reason, counter) in Drop::ALL.iter().zip(&port.dropped) {
                add(reason.name(), counter.get());
            }
            for (reason, counter) in Punt::ALL.iter().zip(&port.punted) {
                add(reason.name(), counter.get());
            }
        }
        outcome.dropped.retain(|(_, count)| *count > 0);
        outcome
    }
}

/// Makes a worker. A packet may leave by the port it came in by.
///
/// # Errors
/// What its parts refuse.
pub fn worker(
    tables: &Tables,
    memory: &Memory,
    settings: &Settings,
    ports: Vec<Port>,
) -> anyhow::Result<Job> {
    let readers = ports.iter().map(|port| port.queue.stats_reader());
    let losses = readers.collect::<Result<_, _>>()?;
    let commands: Commands = Arc::new(ArrayQueue::new(8));
    let counters = Arc::new(WorkerCounters::new(ports.len()));
    let port = |(number, port): (usize, Port)| WorkerPort {
        ingress: ingress(number),
        min_frame: FRAME as u16,
        quota: port.quota,
        output: port.output,
        queues: vec![port.queue],
        reception: Reception::Own,
        share: Share::Alone,
        twin: None,
        held: Vec::new(),
    };
    let worker = Worker::new(WorkerConfig {
        core: settings.core,
        mode: settings.mode,
        budget: settings.budget,
        region: memory.region.clone(),
        frames: memory.frames.clone(),
        recycling: settings.recycling,
        fib: tables.handle.reader()?,
        ports: ports.into_iter().enumerate().map(port).collect(),
        classifier: Arc::new(settings.rules.compile()?),
        hash: (FlowHash::default(), FlowHash::default()),
        punts: Arc::default(),
        // nobody empties the ring: reasons of punts are all that is wanted
        budgets: Budgets::new(|_| u64::MAX),
        commands: commands.clone(),
        returns: Arc::new(ArrayQueue::new(8)),
        bell: Arc::new(Bell::new()?),
        peers: vec![],
        counters: counters.clone(),
    })?;
    Ok(Job {
        worker,
        counters,
        losses,
        commands,
    })
}

/// The settings of a port.
fn ingress(number: usize) -> Ingress {
    Ingress {
        port: PortId(number as u16),
        mac: MAC,
        forward4: true,
        forward6: true,
        rp_filter: RpFilter::Off,
        partial_checksum: false,
        send_redirects4: false,
        gate: None,
    }
}

impl Job {
    /// Starts it on a thread at a certain time.
    ///
    /// # Errors
    /// No thread.
    pub fn start(self, at: Instant) -> anyhow::Result<Running> {
        let (worker, counters) = (self.worker, self.counters.clone());
        let (tell, told) = mpsc::channel();
        let body = move || {
            // nobody listens only if the other thread has failed
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let before = Usage::of_this_thread()?;
            worker.run();
            Ok((
                Outcome::of_worker(&counters),
                Usage::of_this_thread()?.since(before),
            ))
        };
        let thread = thread::Builder::new().name("worker".into()).spawn(body)?;
        Ok(Running {
            thread,
            losses: self.losses,
            commands: self.commands,
            counters: self.counters,
            thread_id: told.recv()?,
        })
    }
}

impl Running {
    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        let ports = self.counters.ports.iter();
        ports.map(|port| port.tx_packets.get()).sum()
    }

    /// Times round the loop so far, and those of them with nothing to do.
    pub fn loops(&self) -> (u64, u64) {
        (self.counters.loops.get(), self.counters.idle_loops.get())
    }

    /// Its thread's number.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Tells it to stop when its sources have dried up; once.
    ///
    /// # Errors
    /// It takes no commands.
    pub fn tell(&self) -> anyhow::Result<()> {
        let pushed = self.commands.push(Command::Stop);
        pushed.map_err(|_| anyhow::anyhow!("the worker takes no commands"))
    }

    /// [`Self::tell`], and [`Self::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn stop(self) -> anyhow::Result<Outcome> {
        self.tell()?;
        self.finish()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// A packet was lost without a name, or the worker panicked.
    pub fn finish(self) -> anyhow::Result<Outcome> {
        let joined = self.thread.join();
        let (outcome, usage) = joined.map_err(|_| anyhow::anyhow!("the worker panicked"))??;
        let outcome = Outcome {
            usage,
            losses: self.losses.iter().map(StatsReader::read).collect(),
            ..outcome
        };
        outcome.check().context("conservation")?;
        Ok(outcome)
    }

    /// [`Self::stop`] at a certain time.
    ///
    /// # Errors
    /// As there.
    pub fn stop_at(self, at: Instant) -> anyhow::Result<Outcome> {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        self.stop()
    }
}

/// Soon, but late enough that a thread can be ready.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_millis(3)
}

#[cfg(test)]
mod tests {
    use bora_port::memory::{self, Replay};

    use super::*;
    use crate::packets;

    fn source(memory: &Memory, packets: u64) -> Port {
        let flows = packets::flows(16, 0, 0);
        let flows: Vec<&[u8]> = flows.iter().map(<[u8; _]>::as_slice).collect();
        let replay = Replay::new(memory.region.clone(), &flows).unwrap();
        let (queue, _) = memory::replay(memory.region.clone(), replay.limited(packets));
        Queue::Memory(queue).into()
    }

    #[test]
    fn what_comes_in_goes_out() {
        let (tables, memory) = (Tables::default_route(0).unwrap(), Memory::new(1).unwrap());
        let ports = vec![source(&memory, 10_000)];
        let job = worker(&tables, &memory, &Settings::default(), ports).unwrap();
        let outcome = job.start(soon()).unwrap().stop().unwrap();
        assert_eq!((outcome.received, outcome.sent), (10_000, 10_000));
        assert!(outcome.dropped.is_empty() && outcome.rate() > 0.0);
    }

    #[test]
    fn a_worker_ends_although_nobody_takes_what_it_holds() {
        let (tables, memory) = (Tables::default_route(1).unwrap(), Memory::new(1).unwrap());
        let (queue, _idle_peer) = memory::pair(64);
        let ports = vec![source(&memory, 2000), Queue::Memory(queue).into()];
        let job = worker(&tables, &memory, &Settings::default(), ports).unwrap();
        let outcome = job.start(soon()).unwrap().stop().unwrap();
        assert_eq!(
            (outcome.received, outcome.sent, outcome.held),
            (2000, 64, 0)
        );
        let names: Vec<_> = outcome.dropped.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["queue_full", "no_output"]);
    }
}
