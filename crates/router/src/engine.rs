//! The engine: memory, sockets, workers and the slow path.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use anyhow::{Context, ensure};
use bora_buffer::{HEADROOM, Region, SharedFrames};
use bora_fib::FibHandle;
use bora_forward::HashPolicy;
use bora_forward::classify::RuleSet;
use bora_forward::schedule::OutputConfig;
use bora_kernel::{SlowPath, SlowPathCounters};
use bora_port::af_xdp::{RING_SIZE, Socket, SocketConfig, SocketError};
use bora_port::inject::Injector;
use bora_port::xdp::{AttachMode, MAX_PORTS, MAX_QUEUES, Program};
use bora_port::{Queue, StatsReader};
use bora_worker::{
    BUDGET, Budgets, Command, Commands, Mode, PUNT_RING, PuntRing, QUOTA, Returned, Worker,
    WorkerConfig, WorkerCounters, WorkerPort,
};
use crossbeam_queue::ArrayQueue;

use crate::config::RunConfig;
use crate::ports::Port;

/// Commands that may wait for a worker.
const COMMANDS: usize = 1024;

impl Running {
    fn tell(&self, command: Command) {
        if self.commands.push(command).is_err() {
            log::error!("a worker does not take its commands; a setting is not applied");
        }
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.tell(Command::SetMode(mode));
    }
}

/// The running engine.
pub(crate) struct Engine {
    pub(crate) workers: Vec<Running>,
    pub(crate) slow_path: Arc<SlowPathCounters>,
    /// Statistics of each port's sockets, by port number.
    pub(crate) sockets: Vec<Vec<StatsReader>>,
    slow_path_stop: Arc<AtomicBool>,
    slow_path_thread: Option<JoinHandle<()>>,
}

/// One running worker.
pub(crate) struct Running {
    pub(crate) core: Option<usize>,
    pub(crate) mode: Mode,
    pub(crate) counters: Arc<WorkerCounters>,
    commands: Commands,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Opens sockets on all queues of all ports and starts the workers.
    pub(crate) fn start(
        ports: &mut [Port],
        program: &Program,
        fib: &FibHandle,
        config: &RunConfig,
        hash: (HashPolicy, HashPolicy),
    ) -> anyhow::Result<Self> {
        let queues: Vec<u32> = ports
            .iter()
            .map(|port| port.link.rx_queues.min(MAX_QUEUES))
            .collect();
        let wanted = config.cores.len().max(1);
        let region = Arc::new(region_for(ports, &queues, wanted as u32)?);
        let frames = SharedFrames::of_new_region(&region);
        let mut sockets = open_sockets(ports, &queues, &region)?;
        let fewest = sockets.iter().map(Vec::len).min().unwrap_or(1).max(1);
        let count = wanted.min(fewest);
        if count < wanted {
            log::warn!(
                "{count} of {wanted} workers: each needs a queue of its own on every port, and a \
                 port has {fewest}"
            );
        }
        let readers = sockets
            .iter()
            .map(|port| {
                port.iter()
                    .map(|socket| Ok(StatsReader::AfXdp(socket.stats_reader()?)))
                    .collect()
            })
            .collect::<std::io::Result<Vec<Vec<_>>>>()
            .context("socket statistics")?;
        for (port, sockets) in ports.iter_mut().zip(&sockets) {
            port.zero_copy = Some(sockets.iter().all(Socket::zero_copy));
            for (queue, socket) in sockets.iter().enumerate() {
                program.set_socket(port.id.0, queue as u32, socket.as_fd())?;
            }
        }

        log::info!(
            "{} frames of {} octets in {} pages",
            region.frames(),
            region.frame_size(),
            if region.huge_pages() {
                "2 MiB"
            } else {
                "ordinary (no free 2 MiB)"
            }
        );
        let punts: PuntRing = Arc::new(ArrayQueue::new(PUNT_RING));
        let slow_path = Arc::new(SlowPathCounters::default());
        let slow_path_stop = Arc::new(AtomicBool::new(false));
        let injector =
            Injector::load(program.injected()).context("cannot load the injection program")?;
        let runner = SlowPath {
            punts: punts.clone(),
            region: region.clone(),
            frames: frames.clone(),
            devices: ports
                .iter()
                .map(|port| (port.ifindex, port.settings.generic))
                .collect(),
            counters: slow_path.clone(),
            stop: slow_path_stop.clone(),
        };
        let slow_path_thread = spawn("bora-slowpath".into(), move || runner.run(injector))?;

        let classifier = Arc::new(RuleSet::default().compile().context("rules")?);
        let returned: Returned = Arc::new(ArrayQueue::new(COMMANDS));
        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let ports = ports
                .iter()
                .zip(&mut sockets)
                .map(|(port, sockets)| WorkerPort {
                    ingress: port.ingress(),
                    min_frame: port.settings.min_frame,
                    quota: QUOTA,
                    output: OutputConfig::default(),
                    queues: share_of(sockets, number, count)
                        .into_iter()
                        .map(Queue::AfXdp)
                        .collect(),
                })
                .collect::<Vec<_>>();
            let counters = Arc::new(WorkerCounters::new(MAX_PORTS));
            let commands: Commands = Arc::new(ArrayQueue::new(COMMANDS));
            let core = config.cores.get(number).copied();
            let budget = config.punt_budget;
            let worker = Worker::new(WorkerConfig {
                core,
                mode: config.mode,
                budget: BUDGET,
                region: region.clone(),
                frames: frames.clone(),
                recycling: true,
                fib: fib.reader()?,
                ports,
                classifier: classifier.clone(),
                hash,
                punts: punts.clone(),
                budgets: Budgets::new(move |_| budget),
                commands: commands.clone(),
                returned: returned.clone(),
                counters: counters.clone(),
            })
            .context("queues of an output")?;
            let thread = spawn(format!("bora-worker{number}"), move || worker.run())?;
            workers.push(Running {
                core,
                mode: config.mode,
                counters,
                commands,
                thread: Some(thread),
            });
        }
        Ok(Self {
            workers,
            slow_path,
            sockets: readers,
            slow_path_stop,
            slow_path_thread: Some(slow_path_thread),
        })
    }

    /// Tells every worker.
    pub(crate) fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            worker.tell(command());
        }
    }

    /// Lets the workers empty their rings, then the slow path its own, and ends them.
    pub(crate) fn stop(&mut self) {
        self.tell(|| Command::Stop);
        for thread in self
            .workers
            .iter_mut()
            .filter_map(|worker| worker.thread.take())
        {
            let _ = thread.join();
        }
        self.slow_path_stop.store(true, Relaxed);
        if let Some(thread) = self.slow_path_thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Frames for twice what all rings hold, and what may wait in queues and for the slow path, so that
/// no queue can starve reception.
fn region_for(ports: &[Port], queues: &[u32], workers: u32) -> anyhow::Result<Region> {
    let longest = ports.iter().map(|port| port.link.mtu).max().unwrap_or(1500) + 18;
    let frame_size = if longest <= 2048 - HEADROOM {
        2048
    } else {
        4096
    };
    let sockets: u32 = queues.iter().sum();
    let output = OutputConfig::default();
    let held: u32 = output
        .classes
        .iter()
        .map(|class| class.limits.packets)
        .sum();
    let frames =
        sockets * RING_SIZE * 2 + 2 * PUNT_RING as u32 + workers * ports.len() as u32 * held;
    Ok(Region::new(frames, frame_size)?)
}

/// A socket for each queue of each port. Sockets of one mode share one UMEM.
fn open_sockets(
    ports: &[Port],
    queues: &[u32],
    region: &Arc<Region>,
) -> anyhow::Result<Vec<Vec<Socket>>> {
    let mut all: Vec<Vec<Socket>> = Vec::with_capacity(ports.len());
    for (port, &queues) in ports.iter().zip(queues) {
        let zero_copy = port.query.zero_copy && port.attachment.mode() == AttachMode::Driver;
        let mut sockets = Vec::with_capacity(queues as usize);
        for queue in 0..queues {
            let config = SocketConfig {
                interface: port.name.clone(),
                ifindex: port.ifindex,
                queue,
                zero_copy,
            };
            let share = all
                .iter()
                .flatten()
                .chain(&sockets)
                .find(|socket| socket.zero_copy() == zero_copy)
                .map(AsFd::as_fd);
            match Socket::open(&config, region.clone(), share) {
                Ok(socket) => sockets.push(socket),
                // Linux tells how many queues there may be, not how many are in use
                Err(SocketError::NoSuchQueue { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(!sockets.is_empty(), "{} has no receive queue", port.name);
        all.push(sockets);
    }
    Ok(all)
}

/// Every `count`-th socket from `number` on, so that its first is queue `number`; the rest stay.
fn share_of(sockets: &mut Vec<Socket>, number: usize, count: usize) -> Vec<Socket> {
    // earlier workers have taken their shares: of each remaining round, ours is the first
    let step = count - number;
    let (mut mine, mut rest) = (Vec::new(), Vec::new());
    for (index, socket) in sockets.drain(..).enumerate() {
        if index % step == 0 {
            mine.push(socket)
        } else {
            rest.push(socket)
        }
    }
    *sockets = rest;
    mine
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a thread")
}
