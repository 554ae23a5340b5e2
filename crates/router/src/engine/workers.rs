//! Starting workers, and replacing them by others while packets come.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, ensure};
use bora_buffer::{Region, SharedFrames};
use bora_fib::{FibHandle, FibReader};
use bora_forward::schedule::Output;
use bora_forward::{Classifier, FlowHash};
use bora_port::xdp::MAX_PORTS;
use bora_worker::{
    Bell, Budgets, Command, Commands, Departure, Mode, PuntRings, Returns, Worker, WorkerConfig,
    WorkerCounters, WorkerPort, reunite,
};
use crossbeam_queue::ArrayQueue;

use super::live::{LOOK, PATIENCE};
use super::{COMMANDS, Engine, sockets, spawn};
use crate::config::{PortConfig, RunConfig};
use crate::divide::divide;
use crate::lease::Watched;
use crate::ports::Port;

/// What all workers use, those to come too.
pub(super) struct Common {
    pub(super) region: Arc<Region>,
    pub(super) frames: SharedFrames,
    pub(super) fib: FibHandle,
    pub(super) punts: Arc<PuntRings>,
    /// Queues of removed ports, from all workers.
    pub(super) returns: Returns,
}

/// One running worker.
pub(crate) struct Running {
    pub(crate) core: Option<usize>,
    pub(crate) mode: Mode,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(super) bell: Arc<Bell>,
    pub(super) commands: Commands,
    pub(super) thread: Option<JoinHandle<Vec<WorkerPort>>>,
}

/// The settings of all workers.
pub(super) struct Settings<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) hash: (FlowHash, FlowHash),
    pub(super) classifier: &'a Arc<Classifier>,
}

/// A worker without ports: all of it that can fail is done.
pub(super) struct Recruit {
    core: Option<usize>,
    pub(super) bell: Arc<Bell>,
    fib: FibReader,
    /// The thread waits for what it is to run.
    start: Sender<Worker>,
    thread: JoinHandle<Vec<WorkerPort>>,
}

impl Running {
    pub(super) fn tell(&self, command: Command) {
        if self.commands.push(command).is_err() {
            log::error!("a worker does not take its commands; a setting is not applied");
        }
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.tell(Command::SetMode(mode));
    }
}

impl Common {
    /// Threads for workers on these CPUs; for one anywhere if there are none.
    pub(super) fn recruit(&self, cores: &[usize]) -> anyhow::Result<Vec<Recruit>> {
        let recruit = |number: usize| {
            let mut fib = self.fib.reader()?;
            fib.offline(); // nobody must wait for it until it runs
            let (start, orders) = mpsc::channel::<Worker>();
            let run = move || orders.recv().map(Worker::run).unwrap_or_default();
            Ok(Recruit {
                core: cores.get(number).copied(),
                bell: Arc::new(Bell::new().context("eventfd")?),
                fib,
                start,
                thread: spawn(format!("bora-worker{number}"), run)?,
            })
        };
        (0..cores.len().max(1)).map(recruit).collect()
    }

    /// Sets them to work on their parts of the ports.
    pub(super) fn start(
        &self,
        recruits: Vec<Recruit>,
        parts: Vec<Vec<WorkerPort>>,
        settings: &Settings<'_>,
    ) -> anyhow::Result<Vec<Running>> {
        let fresh = || Arc::new(WorkerCounters::new(MAX_PORTS));
        let counters: Vec<_> = recruits.iter().map(|_| fresh()).collect();
        let peers = if counters.len() > 1 {
            counters.clone()
        } else {
            Vec::new()
        };
        let config = settings.config;
        let start = |((recruit, ports), counters): ((Recruit, _), Arc<WorkerCounters>)| {
            let commands: Commands = Arc::new(ArrayQueue::new(COMMANDS));
            let budget = config.punt_budget;
            let mut fib = recruit.fib;
            fib.online();
            let worker = Worker::new(WorkerConfig {
                core: recruit.core,
                mode: config.mode,
                region: self.region.clone(),
                frames: self.frames.clone(),
                recycling: config.recycling,
                fib,
                ports,
                hash: settings.hash,
                punts: self.punts.clone(),
                budgets: Budgets::new(move |_| budget),
                classifier: settings.classifier.clone(),
                budget: config.budget,
                bell: recruit.bell.clone(),
                peers: peers.clone(),
                commands: commands.clone(),
                returns: self.returns.clone(),
                counters: counters.clone(),
            })
            .context("queues of an output")?;
            recruit
                .start
                .send(worker)
                .ok()
                .context("a worker's thread has ended")?;
            Ok(Running {
                core: recruit.core,
                mode: config.mode,
                counters,
                bell: recruit.bell,
                commands,
                thread: Some(recruit.thread),
            })
        };
        let workers = recruits.into_iter().zip(parts).zip(counters);
        workers.map(start).collect()
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
        let workers = self.workers.iter().map(|worker| worker.counters.clone());
        let workers = workers.enumerate();
        let workers = workers.map(|(number, counters)| Watched::worker(number, counters));
        let slow_path = Watched::slow_path(self.slow_path.clone());
        workers.chain([slow_path]).collect()
    }

    /// Whether there is memory for so many workers, and nothing in their way.
    pub(crate) fn could_have_workers(
        &self,
        count: usize,
        ports: &[Port],
        configs: &[PortConfig],
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
    pub(crate) fn replace_workers(
        &mut self,
        config: &RunConfig,
        hash: (FlowHash, FlowHash),
        classifier: &Arc<Classifier>,
    ) -> anyhow::Result<()> {
        for port in &config.ports {
            Output::new(&port.output).context("queues of an output")?;
        }
        let recruits = self.common.recruit(&config.cores)?;
        let bells: Vec<_> = recruits.iter().map(|one| one.bell.clone()).collect();
        let parts = self.dismiss()?.into_iter();
        let mut hands: Vec<_> = parts.map(Vec::into_iter).collect();
        let mut parts: Vec<Vec<WorkerPort>> = bells.iter().map(|_| Vec::new()).collect();
        while let Some(port) = reunite(hands.iter_mut().filter_map(Iterator::next)) {
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
        let settings = Settings {
            config,
            hash,
            classifier,
        };
        self.workers = self.common.start(recruits, parts, &settings)?;
        Ok(())
    }

    /// Ends all workers, or none; returns what each had of each port.
    fn dismiss(&mut self) -> anyhow::Result<Vec<Vec<WorkerPort>>> {
        let departure = Arc::new(Departure::new(self.workers.len()));
        for worker in &self.workers {
            worker.tell(Command::Leave(departure.clone()));
            worker.bell.ring();
        }
        let deadline = Instant::now() + PATIENCE;
        while !departure.is_certain() {
            ensure!(
                Instant::now() < deadline || !departure.call_off(),
                "a worker has not come round in {} s; all stay as they are",
                PATIENCE.as_secs()
            );
            std::thread::sleep(LOOK);
        }
        let mut parts = Vec::with_capacity(self.workers.len());
        for mut worker in self.workers.drain(..) {
            let ended = worker.thread.take().map(JoinHandle::join);
            self.past.absorb(&worker.counters);
            if let Some(Ok(ports)) = ended {
                parts.push(ports);
            }
        }
        Ok(parts)
    }
}
