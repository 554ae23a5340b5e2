//! The engine: memory, sockets, workers and the slow path.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use anyhow::{Context, ensure};
use bora_buffer::{HEADROOM, Region, SharedFrames};
use bora_fib::FibHandle;
use bora_forward::HashPolicy;
use bora_kernel::{Device, SlowPath, SlowPathCounters};
use bora_port::af_xdp::{RING_SIZE, Socket, SocketConfig, SocketError};
use bora_port::inject::Injector;
use bora_port::xdp::{AttachMode, MAX_QUEUES, Program};
use bora_port::{Queue, StatsReader};
use bora_worker::{
    Budgets, Command, Commands, Mode, PUNT_RING, PuntRing, Worker, WorkerConfig, WorkerCounters,
    WorkerPort,
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
    /// Statistics of each port's queues, by port number.
    pub(crate) queues: Vec<Vec<StatsReader>>,
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
    /// Opens all queues of all ports and starts the workers.
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
        let region = Arc::new(region_for(ports, &queues)?);
        let frames = SharedFrames::of_new_region(&region);
        let sockets = open_sockets(ports, &queues, &region)?;
        for (port, sockets) in ports.iter_mut().zip(&sockets) {
            if port.twin().is_none() {
                port.zero_copy = Some(sockets.iter().all(Socket::zero_copy));
            }
            for (queue, socket) in sockets.iter().enumerate() {
                program.set_socket(port.id.0, queue as u32, socket.as_fd())?;
            }
        }
        let mut all_queues = Vec::with_capacity(ports.len());
        for (port, sockets) in ports.iter_mut().zip(sockets) {
            all_queues.push(match port.twin_mut() {
                None => sockets.into_iter().map(Queue::AfXdp).collect(),
                Some(twin) => twin.open_queues(&region)?,
            });
        }
        let fewest = all_queues.iter().map(Vec::len).min().unwrap_or(1).max(1);
        let wanted = config.cores.len().max(1);
        let count = wanted.min(fewest);
        if count < wanted {
            log::warn!(
                "{count} of {wanted} workers: each needs a queue of its own on every port, and a \
                 port has {fewest}"
            );
        }
        let mut readers = all_queues
            .iter()
            .map(|queues| queues.iter().map(Queue::stats_reader).collect())
            .collect::<std::io::Result<Vec<Vec<_>>>>()
            .context("queue statistics")?;

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
            devices: ports.iter().map(way_to_linux).collect::<Result<_, _>>()?,
            counters: slow_path.clone(),
            stop: slow_path_stop.clone(),
        };
        let slow_path_thread = spawn("bora-slowpath".into(), move || runner.run(injector))?;

        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            let ports = ports
                .iter()
                .zip(&mut all_queues)
                .map(|(port, queues)| {
                    // one worker is enough for what Linux has to say
                    let twin = port.twin().filter(|_| number == 0);
                    let twin = twin.map(|twin| twin.queue(&region)).transpose()?;
                    if let Some(twin) = &twin {
                        readers[usize::from(port.id.0)].push(twin.stats_reader()?);
                    }
                    Ok(WorkerPort {
                        ingress: port.ingress(),
                        min_frame: port.settings.min_frame,
                        queues: share_of(queues, number, count),
                        twin,
                    })
                })
                .collect::<std::io::Result<Vec<_>>>()?;
            let counters = Arc::new(WorkerCounters::new(ports.len()));
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
                commands: commands.clone(),
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
            queues: readers,
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

/// Frames for twice what all rings hold, and what may wait for the slow path.
fn region_for(ports: &[Port], queues: &[u32]) -> anyhow::Result<Region> {
    let longest = ports.iter().map(|port| port.link.mtu).max().unwrap_or(1500) + 18;
    let frame_size = if longest <= 2048 - HEADROOM {
        2048
    } else {
        4096
    };
    let of_port = |(port, queues): (&Port, &u32)| match port.twin() {
        None => queues * RING_SIZE * 2,
        Some(twin) => twin.ring_slots() * 2 + RING_SIZE,
    };
    let frames: u32 = ports.iter().zip(queues).map(of_port).sum();
    let frames = frames + 2 * PUNT_RING as u32;
    Ok(Region::new(frames, frame_size)?)
}

fn way_to_linux(port: &Port) -> std::io::Result<Device> {
    match port.twin() {
        Some(twin) => Ok(Device::Twin(twin.writer()?)),
        None => Ok(Device::Interface {
            ifindex: port.ifindex,
            generic: port.settings.generic,
        }),
    }
}

/// A socket for each queue of each interface. Sockets of one mode share one UMEM.
fn open_sockets(
    ports: &[Port],
    queues: &[u32],
    region: &Arc<Region>,
) -> anyhow::Result<Vec<Vec<Socket>>> {
    let mut all: Vec<Vec<Socket>> = Vec::with_capacity(ports.len());
    for (port, &queues) in ports.iter().zip(queues) {
        if port.twin().is_some() {
            all.push(Vec::new());
            continue;
        }
        let zero_copy = port.query.zero_copy && port.mode() == Some(AttachMode::Driver);
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

/// Every `count`-th queue from `number` on, so that its first is queue `number`; the rest stay.
fn share_of(queues: &mut Vec<Queue>, number: usize, count: usize) -> Vec<Queue> {
    // earlier workers have taken their shares: of each remaining round, ours is the first
    let step = count - number;
    let (mut mine, mut rest) = (Vec::new(), Vec::new());
    for (index, queue) in queues.drain(..).enumerate() {
        if index % step == 0 {
            mine.push(queue)
        } else {
            rest.push(queue)
        }
    }
    *queues = rest;
    mine
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a thread")
}
