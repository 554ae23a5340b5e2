//! An engine in this process, for benchmarks: tables, memory, ports, and workers on threads. All
//! benchmarks make their workers here.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use bora_buffer::{Pool, Region, SharedFrames};
use bora_fib::{
    Adjacency, FibConfig, FibHandle, FibWriter, NextHop, PortId, Prefix4, Prefix6, Reason,
};
use bora_forward::classify::RuleSet;
use bora_forward::schedule::OutputConfig;
use bora_forward::{Devices, Ingress, Policies};
use bora_port::{Queue, StatsReader};
use bora_worker::{
    BUDGET, Command, Commands, Mode, Published, QUOTA, Worker, WorkerConfig, WorkerCounters,
    WorkerPort, free_frames,
};

use crate::cpu::Usage;
use crate::interrupt::{Interrupted, Interrupts};
use crate::outcome::Outcome;
use crate::packets::MAC;
use crate::tunnels;

/// Frames for each worker, more than its rings, queues and lists hold.
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
        let hops = routes
            .iter()
            .map(|&(prefix, port)| (prefix, usize::from(port.0)));
        Self::of(hops, &|number| PortId(number as u16))
    }

    /// A table of these prefixes, which lead to the first port by this many next hops in turn.
    ///
    /// # Errors
    /// No room.
    pub fn mixed(prefixes: impl Iterator<Item = Prefix4>, hops: usize) -> anyhow::Result<Self> {
        let routes = prefixes
            .enumerate()
            .map(|(number, prefix)| (prefix, number % hops));
        Self::of(routes, &|_| PortId(0))
    }

    /// A table of these prefixes and their next hops, each of which leads to a port.
    fn of(
        routes: impl Iterator<Item = (Prefix4, usize)>,
        port: &dyn Fn(usize) -> PortId,
    ) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(FibConfig::default())?;
        let mut hops = Vec::new();
        let mut table = Vec::new();
        for (prefix, number) in routes {
            while hops.len() <= number {
                let hop = neighbour(port(hops.len()), hops.len());
                hops.push(writer.add_next_hop(hop)?);
            }
            table.push((prefix, hops[number]));
        }
        writer.load4(&table)?;
        Ok(Self {
            handle,
            _writer: writer,
        })
    }

    /// A table whose default route leads to this port.
    ///
    /// # Errors
    /// No room.
    pub fn default_route(port: u16) -> anyhow::Result<Self> {
        Self::new(&[(Prefix4::masked(0, 0), PortId(port))])
    }

    /// A table whose IPv6 default route leads to this port.
    ///
    /// # Errors
    /// No room.
    pub fn default_route6(port: u16) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(FibConfig::default())?;
        let hop = writer.add_next_hop(neighbour(PortId(port), 0))?;
        writer.load6(&[(Prefix6::masked(0, 0), hop)])?;
        Ok(Self {
            handle,
            _writer: writer,
        })
    }
}

impl Tables {
    /// A table whose default route leads into the first tunnel, with its far end behind the first port.
    ///
    /// # Errors
    /// No room.
    pub fn into_tunnel() -> anyhow::Result<Self> {
        let way = NextHop::Tunnel(tunnels::way(0).into());
        Self::with_ends(way, &[(tunnels::FAR[0], neighbour(PortId(0), 0))])
    }

    /// A table whose default route leads to the first port; the tunnels' near end is this machine.
    ///
    /// # Errors
    /// No room.
    pub fn out_of_tunnel() -> anyhow::Result<Self> {
        Self::with_ends(neighbour(PortId(0), 0), &[(tunnels::NEAR, local())])
    }

    /// A table whose default route leads into the second tunnel, with its far end behind the first port; the tunnels' near
    /// end is this machine.
    ///
    /// # Errors
    /// No room.
    pub fn between_tunnels() -> anyhow::Result<Self> {
        let way = NextHop::Tunnel(tunnels::way(1).into());
        let far = (tunnels::FAR[1], neighbour(PortId(0), 0));
        Self::with_ends(way, &[far, (tunnels::NEAR, local())])
    }

    fn with_ends(default: NextHop, ends: &[(u32, NextHop)]) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(FibConfig::default())?;
        let mut routes = vec![(Prefix4::masked(0, 0), writer.add_next_hop(default)?)];
        for (end, hop) in ends {
            let hop = writer.add_next_hop(hop.clone())?;
            routes.push((Prefix4::masked(*end, 32), hop));
        }
        writer.load4(&routes)?;
        Ok(Self {
            handle,
            _writer: writer,
        })
    }
}

/// This machine.
fn local() -> NextHop {
    NextHop::Punt {
        reason: Reason::Local,
        port: None,
    }
}

/// A neighbour behind a port.
fn neighbour(port: PortId, number: usize) -> NextHop {
    NextHop::Forward(Adjacency {
        port,
        mtu: 1500,
        l2: [number as u8; 14],
        unconfirmed: None,
    })
}

/// Memory for packets.
#[derive(Clone)]
pub struct Memory {
    /// The region.
    pub region: Arc<Region>,
    /// Its free frames.
    pub frames: SharedFrames,
}

impl Memory {
    /// Memory for this many workers.
    ///
    /// # Errors
    /// The system has not enough memory.
    pub fn new(workers: u32) -> anyhow::Result<Self> {
        Self::of(FRAMES * workers, 2048)
    }

    /// Memory of this many frames, each of this many octets.
    ///
    /// # Errors
    /// The system has not enough memory.
    pub fn of(frames: u32, size: u32) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(frames, size)?);
        let frames = SharedFrames::of_new_region(&region);
        Ok(Self { region, frames })
    }

    /// A pool over all its frames.
    pub fn pool(&self) -> Pool {
        Pool::new(self.frames.clone(), FRAMES as usize)
    }
}

/// A port of a worker.
pub struct Port {
    /// Its queue.
    pub queue: Queue,
    /// Packets per turn.
    pub quota: u32,
    /// Its output queues and rates.
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

/// Which loop forwards.
#[derive(Clone, Copy, Debug)]
pub enum Loop {
    /// The worker's.
    Worker(Mode),
    /// The loop of 2005, on any CPU.
    Interrupt(Interrupts),
}

/// The configuration of a worker.
#[derive(Clone)]
pub struct Settings {
    /// CPU to run on.
    pub core: Option<usize>,
    /// Which loop it runs.
    pub run: Loop,
    /// Rules between parsing and look-up.
    pub rules: RuleSet,
    /// VLAN devices, bonds and tunnels.
    pub devices: Arc<Devices>,
    /// Rules of policy routing.
    pub policies: Arc<Policies>,
    /// Packets per round.
    pub budget: u32,
    /// Whether it keeps freed frames on its own list (Bianco05, Fig. 7); otherwise each goes
    /// through the reserve.
    pub recycling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            core: None,
            run: Loop::Worker(Mode::Poll),
            rules: RuleSet::default(),
            devices: Arc::default(),
            policies: Arc::default(),
            budget: BUDGET,
            recycling: true,
        }
    }
}

/// What a thread does once it has got ready.
type Forward = Box<dyn FnOnce() -> Outcome>;

/// A worker that has not been started.
pub struct Job {
    get_ready: Box<dyn FnOnce() -> anyhow::Result<Forward> + Send>,
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

/// Makes a worker. A packet may leave by the port it came in by.
///
/// # Errors
/// A part refuses its configuration.
pub fn worker(
    tables: &Tables,
    memory: &Memory,
    settings: &Settings,
    ports: Vec<Port>,
) -> anyhow::Result<Job> {
    let readers = ports.iter().map(|port| port.queue.stats_reader());
    let losses = readers.collect::<Result<_, _>>()?;
    let port = |(number, port): (usize, Port)| WorkerPort {
        quota: port.quota,
        output: port.output,
        ..WorkerPort::new(Ingress::new(PortId(number as u16), MAC), port.queue)
    };
    let ports: Vec<_> = ports.into_iter().enumerate().map(port).collect();
    let reserve = &memory.frames;
    let pool = match settings.recycling {
        true => free_frames(reserve, &memory.region, &ports),
        false => Pool::new(reserve.clone(), 0),
    };
    let reader = tables.handle.reader()?;
    let config = WorkerConfig {
        core: settings.core,
        tables: Published::new(bora_worker::Tables {
            mode: match settings.run {
                Loop::Worker(mode) => mode,
                Loop::Interrupt(_) => Mode::default(),
            },
            budget: settings.budget,
            classifier: Arc::new(settings.rules.compile()?),
            devices: settings.devices.clone(),
            policies: settings.policies.clone(),
            ..bora_worker::Tables::default()
        }),
        ..WorkerConfig::new(memory.region.clone(), pool, reader, ports)?
    };
    let (commands, counters) = (config.commands.clone(), config.counters.clone());
    let punts = config.punts.clone();
    let (run, counted) = (settings.run, counters.clone());
    let get_ready = move || -> anyhow::Result<Forward> {
        Ok(match run {
            Loop::Worker(_) => {
                let worker = Worker::new(config)?;
                Box::new(move || {
                    worker.run();
                    Outcome::of_worker(&counted, &punts)
                })
            }
            Loop::Interrupt(interrupts) => {
                let interrupted = Interrupted::new(config, interrupts)?;
                Box::new(move || interrupted.run())
            }
        })
    };
    Ok(Job {
        get_ready: Box::new(get_ready),
        counters,
        losses,
        commands,
    })
}

impl Job {
    /// Has it measure its stages from the start, for so long: [`Outcome::stages`].
    ///
    /// # Errors
    /// It takes no commands.
    pub fn profile(&self, time: Duration) -> anyhow::Result<()> {
        push(&self.commands, Command::Profile(time))
    }

    /// Starts it on a thread; it begins at `at`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self, at: Instant) -> anyhow::Result<Running> {
        let get_ready = self.get_ready;
        let (tell, told) = mpsc::channel();
        let body = move || {
            // this fails only if the other thread has failed
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
            let forward = get_ready()?;
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let before = Usage::of_this_thread()?;
            let outcome = forward();
            Ok((outcome, Usage::of_this_thread()?.since(before)))
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

    /// Rounds of the loop so far, and how many of them had nothing to do.
    pub fn loops(&self) -> (u64, u64) {
        (self.counters.loops.get(), self.counters.idle_loops.get())
    }

    /// Its thread's number.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Tells it to stop when its sources are empty. Call it once.
    ///
    /// # Errors
    /// It takes no commands.
    pub fn tell(&self) -> anyhow::Result<()> {
        push(&self.commands, Command::Stop)
    }

    /// [`Self::tell`], and [`Self::finish`].
    ///
    /// # Errors
    /// It takes no commands, or a packet was lost, or the worker panicked.
    pub fn stop(self) -> anyhow::Result<Outcome> {
        self.tell()?;
        self.finish()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// A packet was lost without being counted, or the worker panicked.
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
    /// It takes no commands, or a packet was lost, or the worker panicked.
    pub fn stop_at(self, at: Instant) -> anyhow::Result<Outcome> {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        self.stop()
    }
}

fn push(commands: &Commands, command: Command) -> anyhow::Result<()> {
    let pushed = commands.push(command);
    pushed.map_err(|_| anyhow::anyhow!("the worker takes no commands"))
}

/// A start time in the near future, so that a thread can be ready.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_millis(3)
}

#[cfg(test)]
mod tests {
    use bora_apparatus::{Replay, replay};
    use bora_port::memory;

    use super::*;
    use crate::packets;

    fn source(memory: &Memory, packets: u64) -> Port {
        let flows = packets::flows(16, 0, 0);
        let flows: Vec<&[u8]> = flows.iter().map(<[u8; _]>::as_slice).collect();
        let source = Replay::new(memory.region.clone(), &flows).unwrap();
        let (queue, _) = replay(memory.region.clone(), source.limited(packets));
        queue.into()
    }

    #[test]
    fn what_comes_in_goes_out() {
        let (tables, memory) = (Tables::default_route(0).unwrap(), Memory::new(1).unwrap());
        let ports = vec![source(&memory, 10_000)];
        let job = worker(&tables, &memory, &Settings::default(), ports).unwrap();
        let outcome = job.start(soon()).unwrap().stop().unwrap();
        assert_eq!((outcome.received, outcome.sent), (10_000, 10_000));
        assert!(outcome.dropped.sum() == 0 && outcome.rate() > 0.0);
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
        let names: Vec<_> = outcome.dropped.named().map(|(name, _)| name).collect();
        assert_eq!(names, ["no_output", "queue_full"]);
    }
}
