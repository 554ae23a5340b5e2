//! The engine: memory, sockets, workers and the slow path.

mod live;
mod sockets;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use bora_buffer::{Region, SharedFrames};
use bora_fib::FibHandle;
use bora_forward::{Classifier, HashPolicy};
use bora_kernel::{Devices, SlowPath, SlowPathCounters};
use bora_port::af_xdp::Socket;
use bora_port::inject::Injector;
use bora_port::xdp::{MAX_PORTS, Program};
use bora_port::{Queue, QueueStats, StatsReader};
use bora_worker::{
    Budgets, Command, Commands, Mode, PUNT_RING, PuntRing, Returns, Worker, WorkerConfig,
    WorkerCounters, WorkerPort,
};
use crossbeam_queue::ArrayQueue;

use crate::config::{PortConfig, RunConfig};
use crate::ports::Port;
pub(crate) use sockets::Sockets;

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
    region: Arc<Region>,
    frames: SharedFrames,
    /// Of each port's sockets, by port number.
    sockets: Vec<PortSockets>,
    devices: Arc<Devices>,
    /// Queues of removed ports, from all workers.
    returns: Returns,
    slow_path_stop: Arc<AtomicBool>,
    slow_path_thread: Option<JoinHandle<()>>,
}

/// What the control side keeps of a port's sockets, which are the workers'.
#[derive(Debug, Default)]
struct PortSockets {
    readers: Vec<StatsReader>,
    zero_copy: bool,
    /// What closed sockets of the same number had lost.
    lost: QueueStats,
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
        (hash, classifier): ((HashPolicy, HashPolicy), Arc<Classifier>),
    ) -> anyhow::Result<Self> {
        let region = Arc::new(sockets::region_for(ports)?);
        let frames = SharedFrames::of_new_region(&region);
        let mut sockets = sockets::open_all(ports, &region)?;
        let fewest = sockets.iter().map(Vec::len).min().unwrap_or(1).max(1);
        let wanted = config.cores.len().max(1);
        let count = wanted.min(fewest);
        if count < wanted {
            log::warn!(
                "{count} of {wanted} workers: each needs a queue of its own on every port, and a \
                 port has {fewest}"
            );
        }
        let mut kept = Vec::with_capacity(ports.len());
        for (port, sockets) in ports.iter_mut().zip(&sockets) {
            let zero_copy = sockets.iter().all(Socket::zero_copy);
            port.zero_copy = Some(zero_copy);
            for (queue, socket) in sockets.iter().enumerate() {
                program.set_socket(port.id.0, queue as u32, socket.as_fd())?;
            }
            kept.push(PortSockets {
                readers: sockets::readers(sockets)?,
                zero_copy,
                lost: QueueStats::default(),
            });
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
        let devices = Arc::new(Devices::new(MAX_PORTS));
        for port in ports.iter() {
            devices.set(port.id, port.ifindex, port.settings.generic);
        }
        let returns: Returns = Arc::new(ArrayQueue::new(COMMANDS));
        let runner = SlowPath {
            punts: punts.clone(),
            region: region.clone(),
            frames: frames.clone(),
            devices: devices.clone(),
            counters: slow_path.clone(),
            stop: slow_path_stop.clone(),
        };
        let slow_path_thread = spawn("bora-slowpath".into(), move || runner.run(injector))?;

        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let ports = ports
                .iter()
                .zip(&config.ports)
                .zip(&mut sockets)
                .map(|((port, config), sockets)| {
                    worker_port(port, config, sockets::share_of(sockets, number, count))
                })
                .collect::<Vec<_>>();
            let counters = Arc::new(WorkerCounters::new(MAX_PORTS));
            let commands: Commands = Arc::new(ArrayQueue::new(COMMANDS));
            let core = config.cores.get(number).copied();
            let budget = config.punt_budget;
            let worker = Worker::new(WorkerConfig {
                core,
                mode: config.mode,
                region: region.clone(),
                frames: frames.clone(),
                fib: fib.reader()?,
                ports,
                hash,
                punts: punts.clone(),
                budgets: Budgets::new(move |_| budget),
                classifier: classifier.clone(),
                budget: config.budget,
                commands: commands.clone(),
                returns: returns.clone(),
                counters: counters.clone(),
            });
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
            region,
            frames,
            sockets: kept,
            devices,
            returns,
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

/// One worker's part of a port.
fn worker_port(port: &Port, config: &PortConfig, sockets: Vec<Socket>) -> WorkerPort {
    WorkerPort {
        ingress: port.ingress(),
        min_frame: port.settings.min_frame,
        queues: sockets.into_iter().map(Queue::AfXdp).collect(),
        quota: config.quota,
        output: config.output.clone(),
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a thread")
}
