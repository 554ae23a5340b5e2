//! The engine: memory, sockets, workers and the slow path.

mod live;
mod sockets;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use bora_buffer::{Region, SharedFrames};
use bora_fib::{FibHandle, PortId};
use bora_forward::{Classifier, HashPolicy};
use bora_kernel::{Device, Devices, SlowPath, SlowPathCounters};
use bora_port::af_xdp::Socket;
use bora_port::inject::Injector;
use bora_port::xdp::{MAX_PORTS, Program};
use bora_port::{Queue, QueueStats, StatsReader};
use bora_worker::{
    Bell, Budgets, Command, Commands, Mode, PUNT_RING, PuntRing, Returns, Worker, WorkerConfig,
    WorkerCounters, WorkerPort,
};
use crossbeam_queue::ArrayQueue;

use crate::config::{PortConfig, RunConfig};
use crate::divide::{Part, divide};
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
    /// What each worker is woken by.
    bells: Vec<Arc<Bell>>,
    /// Queues of removed ports, from all workers.
    returns: Returns,
    leaving: Vec<Leaving>,
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

/// A removed port whose queues not all workers have given back yet.
#[derive(Debug)]
struct Leaving {
    port: PortId,
    queues: Vec<Queue>,
    missing: usize,
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
        let count = config.cores.len().max(1);
        let region = Arc::new(sockets::region_for(ports, &config.ports, count as u32)?);
        let frames = SharedFrames::of_new_region(&region);
        let sockets = sockets::open_all(ports, &region)?;
        let mut kept = Vec::with_capacity(ports.len());
        for (port, sockets) in ports.iter_mut().zip(&sockets) {
            let zero_copy = sockets.iter().all(Socket::zero_copy);
            port.zero_copy = port.twin().is_none().then_some(zero_copy);
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
            devices.set(port.id, way_to_linux(port)?);
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

        let bells = (0..count).map(|_| Ok(Arc::new(Bell::new()?)));
        let bells: Vec<_> = bells.collect::<std::io::Result<_>>().context("eventfd")?;
        let counters: Vec<_> = (0..count)
            .map(|_| Arc::new(WorkerCounters::new(MAX_PORTS)))
            .collect();
        let mut parts: Vec<Vec<WorkerPort>> = bells.iter().map(|_| Vec::new()).collect();
        for ((port, config), sockets) in ports.iter_mut().zip(&config.ports).zip(sockets) {
            let (queues, mut twin) = match port.twin_mut() {
                None => (sockets.into_iter().map(Queue::AfXdp).collect(), None),
                Some(twin) => (twin.open_queues(&region)?, Some(twin.queue(&region)?)),
            };
            if let Some(twin) = &twin {
                let readers = queues.iter().chain([twin]).map(Queue::stats_reader);
                kept[usize::from(port.id.0)].readers = readers.collect::<Result<_, _>>()?;
            }
            let divided = divide(queues, &config.output, &bells)?;
            for (ports, part) in parts.iter_mut().zip(divided) {
                let mut part = worker_port(port, config, part);
                // one worker is enough for what Linux has to say
                part.twin = twin.take();
                ports.push(part);
            }
        }
        let mut workers = Vec::with_capacity(count);
        for (number, ports) in parts.into_iter().enumerate() {
            let peers = if count > 1 {
                counters.clone()
            } else {
                Vec::new()
            };
            let counters = counters[number].clone();
            let commands: Commands = Arc::new(ArrayQueue::new(COMMANDS));
            let core = config.cores.get(number).copied();
            let budget = config.punt_budget;
            let worker = Worker::new(WorkerConfig {
                core,
                mode: config.mode,
                region: region.clone(),
                frames: frames.clone(),
                recycling: config.recycling,
                fib: fib.reader()?,
                ports,
                hash,
                punts: punts.clone(),
                budgets: Budgets::new(move |_| budget),
                classifier: classifier.clone(),
                budget: config.budget,
                bell: bells[number].clone(),
                peers,
                commands: commands.clone(),
                returns: returns.clone(),
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
            region,
            frames,
            sockets: kept,
            devices,
            bells,
            returns,
            leaving: Vec::new(),
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
fn worker_port(port: &Port, config: &PortConfig, (queues, share): Part) -> WorkerPort {
    WorkerPort {
        ingress: port.ingress(),
        min_frame: port.settings.min_frame,
        quota: config.quota,
        output: config.output.clone(),
        queues,
        twin: None,
        share,
    }
}

fn way_to_linux(port: &Port) -> std::io::Result<Device> {
    match port.twin() {
        Some(twin) => Ok(Device::Twin(Arc::new(twin.writer()?))),
        None => Ok(Device::Interface {
            ifindex: port.ifindex,
            generic: port.settings.generic,
        }),
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a thread")
}
