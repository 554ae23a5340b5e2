//! Starting workers, and replacing them by others while packets come.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bora_buffer::{Region, SharedFrames};
use bora_fib::{FibHandle, FibReader};
use bora_forward::schedule::Output;
use bora_worker::{
    Bell, Budgets, Command, Commands, Handover, Published, PuntRings, Returns, Worker,
    WorkerConfig, WorkerCounters, WorkerPort, free_frames, merge_parts,
};
use bora_xdp::MAX_PORTS;
use crossbeam_queue::ArrayQueue;

use super::live::{LOOK, PATIENCE};
use super::{COMMANDS, Engine, sockets, spawn};
use crate::config::{File, PortSection};
use crate::engine::shares::divide;
use crate::ports::Port;
use crate::process::lease::Watched;

/// A worker that stands still this long is stuck.
const WORKER_PATIENCE: Duration = Duration::from_millis(300);
/// The slow path waits for Linux, which may be busy with what it is given.
const SLOW_PATH_PATIENCE: Duration = Duration::from_secs(3);

/// What all workers use, those to come too.
pub(super) struct Common {
    pub(super) region: Arc<Region>,
    pub(super) frames: SharedFrames,
    pub(super) fib: FibHandle,
    pub(super) punts: Arc<PuntRings>,
    /// Queues of removed ports, from all workers.
    pub(super) returns: Returns,
    /// What all workers decide by.
    pub(super) tables: Arc<Published>,
}

/// One running worker.
pub(crate) struct Running {
    pub(crate) core: Option<usize>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(super) bell: Arc<Bell>,
    pub(super) commands: Commands,
    pub(super) thread: Option<JoinHandle<Vec<WorkerPort>>>,
}

/// The thread of a worker that has no ports yet. Everything that can fail is done.
pub(super) struct Spawned {
    number: usize,
    core: Option<usize>,
    pub(super) bell: Arc<Bell>,
    fib: FibReader,
    /// The thread waits for what it is to run.
    start: Sender<WorkerConfig>,
    thread: JoinHandle<Vec<WorkerPort>>,
}

impl Running {
    pub(super) fn tell(&self, command: Command) {
        if let Err(command) = self.commands.push(command) {
            log::error!("a worker has too many commands waiting; it does not do this: {command:?}");
        }
    }
}

impl Common {
    /// Threads for workers on the CPUs of the configuration; for one anywhere if there are none. The
    /// queues of its outputs are possible.
    pub(super) fn spawn(&self, config: &File) -> anyhow::Result<Vec<Spawned>> {
        for port in &config.ports {
            Output::new(&port.queues.output()).context("queues of an output")?;
        }
        let cores = &config.workers.cores;
        let spawn_one = |number: usize| {
            let mut fib = self.fib.reader()?;
            fib.offline(); // nobody must wait for it until it runs
            let (start, orders) = mpsc::channel();
            // its sockets, rings and eventfds are open when it gets them
            let run = move || {
                bora_confine::thread(bora_confine::NONE);
                match orders.recv() {
                    Ok(config) => run(config),
                    Err(_) => Vec::new(), // the start has failed, and its error says why
                }
            };
            Ok(Spawned {
                number,
                core: cores.get(number).copied(),
                bell: Arc::new(Bell::new().context("eventfd")?),
                fib,
                start,
                thread: spawn(format!("bora-worker{number}"), run)?,
            })
        };
        (0..cores.len().max(1)).map(spawn_one).collect()
    }

    /// Gives each thread its worker, with its part of the ports.
    pub(super) fn start(
        &self,
        spawned: Vec<Spawned>,
        parts: Vec<Vec<WorkerPort>>,
        config: &File,
    ) -> anyhow::Result<Vec<Running>> {
        let fresh = || Arc::new(WorkerCounters::new(MAX_PORTS));
        let counters: Vec<_> = spawned.iter().map(|_| fresh()).collect();
        let peers = if counters.len() > 1 {
            counters.clone()
        } else {
            Vec::new()
        };
        let workers = spawned.into_iter().zip(parts).zip(&counters);
        let start = |((spawned, ports), counters): ((Spawned, _), &Arc<WorkerCounters>)| {
            self.start_one(spawned, ports, config, counters, &peers)
        };
        workers.map(start).collect()
    }

    fn start_one(
        &self,
        spawned: Spawned,
        ports: Vec<WorkerPort>,
        config: &File,
        counters: &Arc<WorkerCounters>,
        peers: &[Arc<WorkerCounters>],
    ) -> anyhow::Result<Running> {
        let Spawned {
            number,
            core,
            bell,
            mut fib,
            start,
            thread,
        } = spawned;
        let running = Running {
            core,
            counters: counters.clone(),
            bell: bell.clone(),
            commands: Arc::new(ArrayQueue::new(COMMANDS)),
            thread: Some(thread),
        };
        fib.online();
        let config = WorkerConfig {
            core,
            number,
            tables: self.tables.clone(),
            region: self.region.clone(),
            pool: free_frames(&self.frames, &self.region, &ports),
            fib,
            ports,
            punts: self.punts.clone(),
            budgets: Budgets::new(config.linux.punt_budget),
            bell,
            peers: peers.to_vec(),
            commands: running.commands.clone(),
            returns: self.returns.clone(),
            counters: counters.clone(),
        };
        match start.send(config) {
            Ok(()) => Ok(running),
            Err(_) => bail!("a worker's thread has ended"), // the error is the configuration
        }
    }
}

/// What the thread of a worker does.
fn run(config: WorkerConfig) -> Vec<WorkerPort> {
    match Worker::new(config) {
        Ok(worker) => worker.run(),
        Err(error) => {
            log::error!("a worker does not start: queues of an output: {error}");
            Vec::new()
        }
    }
}

impl Engine {
    /// What all workers have counted, with what those had that are gone.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        let running = self.workers.iter().map(|worker| &*worker.counters);
        running.chain([&*self.past])
    }

    /// The threads that must go on.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let worker = |(number, worker): (usize, &Running)| {
            let counters = worker.counters.clone();
            let loops = move || counters.loops.get();
            Watched::new(format!("worker {number}"), WORKER_PATIENCE, loops)
        };
        let counters = self.slow_path.clone();
        let loops = move || counters.loops.get();
        let slow_path = Watched::new("the slow path", SLOW_PATH_PATIENCE, loops);
        let workers = self.workers.iter().enumerate().map(worker);
        workers.chain([slow_path]).collect()
    }

    /// Whether there is memory for this many workers, and nothing in their way.
    pub(crate) fn could_have_workers(
        &self,
        count: usize,
        ports: &[Port],
        configs: &[PortSection],
    ) -> anyhow::Result<()> {
        let wanted = sockets::frames_for(ports, configs, count as u32);
        let region = self.common.region.frames();
        ensure!(
            wanted <= region || count <= self.workers.len(),
            "no packet memory for {count} workers ({wanted} frames, there are {region}); restart to \
             have more"
        );
        ensure!(
            self.leaving.is_empty(),
            "the workers still send what they hold for a removed port; try again later"
        );
        Ok(())
    }

    /// Replaces the workers. What comes meanwhile waits in the receive rings. An error leaves
    /// everything as it was, unless a worker's thread died.
    pub(crate) fn replace_workers(&mut self, config: &File) -> anyhow::Result<()> {
        let spawned = self.common.spawn(config)?;
        let bells: Vec<_> = spawned.iter().map(|one| one.bell.clone()).collect();
        let parts = self.stop_workers()?.into_iter();
        let mut hands: Vec<_> = parts.map(Vec::into_iter).collect();
        let mut parts: Vec<Vec<WorkerPort>> = bells.iter().map(|_| Vec::new()).collect();
        while let Some(port) = merge_parts(hands.iter_mut().filter_map(Iterator::next)) {
            let divided = divide(port.ingress.port, port.queues, &port.output, &bells)?;
            let (mut twin, mut held) = (port.twin, port.held);
            for (ports, part) in parts.iter_mut().zip(divided) {
                ports.push(WorkerPort {
                    ingress: port.ingress.clone(),
                    min_frame: port.min_frame,
                    quota: port.quota,
                    output: port.output.clone(),
                    queues: part.queues,
                    twin: twin.take(),
                    reception: part.reception,
                    share: part.share,
                    held: std::mem::take(&mut held),
                });
            }
        }
        self.workers = self.common.start(spawned, parts, config)?;
        self.set_mode(None); // the modes were others'
        Ok(())
    }

    /// Ends all workers, or none; returns what each had of each port.
    fn stop_workers(&mut self) -> anyhow::Result<Vec<Vec<WorkerPort>>> {
        let handover = Arc::new(Handover::new(self.workers.len()));
        for worker in &self.workers {
            worker.tell(Command::HandOver(handover.clone()));
            worker.bell.ring();
        }
        let deadline = Instant::now() + PATIENCE;
        while !handover.is_committed() {
            ensure!(
                Instant::now() < deadline || !handover.cancel(),
                "a worker has not answered within {} s; all stay as they are",
                PATIENCE.as_secs()
            );
            std::thread::sleep(LOOK);
        }
        let mut parts = Vec::with_capacity(self.workers.len());
        for mut worker in self.workers.drain(..) {
            let ended = worker.thread.take().map(JoinHandle::join);
            self.past.absorb(&worker.counters);
            // one that has panicked has ended the process
            if let Some(Ok(ports)) = ended {
                parts.push(ports);
            }
        }
        Ok(parts)
    }
}
