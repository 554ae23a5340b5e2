//! The engine: memory, sockets, workers and the slow path.

mod ledger;
mod live;
mod sockets;
mod workers;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use bora_fib::{FibHandle, PortId};
use bora_forward::schedule::OutputConfig;
use bora_forward::{Classifier, FlowHash};
use bora_kernel::{Device, Devices, SlowPath, SlowPathCounters};
use bora_port::af_xdp::Closing;
use bora_port::inject::Injector;
use bora_port::xdp::{MAX_PORTS, Program};
use bora_port::{Queue, QueueStats, StatsReader};
use bora_worker::{Command, PuntRings, WorkerCounters, WorkerPort};
use crossbeam_queue::ArrayQueue;

use crate::config::{PortConfig, RunConfig};
use crate::divide::{Part, divide};
use crate::ports::Port;
pub(crate) use sockets::{Opening, Sockets, open_all, wanted_queues};
pub(crate) use workers::Running;
use workers::{Common, Settings};

/// Commands that may wait for a worker.
const COMMANDS: usize = 1024;

/// The running engine.
pub(crate) struct Engine {
    pub(crate) workers: Vec<Running>,
    pub(crate) slow_path: Arc<SlowPathCounters>,
    common: Common,
    /// What workers that are gone have counted.
    past: Arc<WorkerCounters>,
    /// Of each port's sockets, by port number.
    sockets: Vec<PortSockets>,
    devices: Arc<Devices>,
    leaving: Vec<Leaving>,
    /// Whether there are rules, for the slow path.
    rules: Arc<AtomicBool>,
    /// Closed sockets whose frames are not home yet, and the ports they were of.
    closing: Vec<(PortId, Closing)>,
    slow_path_stop: Arc<AtomicBool>,
    slow_path_thread: Option<JoinHandle<()>>,
}

/// What the control side keeps of a port's sockets, which are the workers'.
#[derive(Debug, Default)]
struct PortSockets {
    readers: Vec<StatsReader>,
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

impl Engine {
    /// Gives the sockets to workers and starts these.
    pub(crate) fn start(
        ports: &mut [Port],
        Opening {
            region,
            frames,
            sockets,
        }: Opening,
        program: &mut Program,
        fib: &FibHandle,
        config: &RunConfig,
        (hash, classifier): ((FlowHash, FlowHash), Arc<Classifier>),
    ) -> anyhow::Result<Self> {
        let mut kept = Vec::with_capacity(ports.len());
        for (port, sockets) in ports.iter_mut().zip(&sockets) {
            for socket in sockets {
                program.set_socket(port.id.0, socket.queue(), socket.as_fd())?;
            }
            kept.push(PortSockets {
                readers: sockets::readers(sockets)?,
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
        let punts = Arc::new(PuntRings::default());
        let slow_path = Arc::new(SlowPathCounters::default());
        let slow_path_stop = Arc::new(AtomicBool::new(false));
        let rules = Arc::new(AtomicBool::new(classifier.rules() > 0));
        let injector =
            Injector::load(program.netns_inode()).context("cannot load the injection program")?;
        let devices = Arc::new(Devices::new(MAX_PORTS));
        for port in ports.iter() {
            devices.set(port.id, way_to_linux(port)?);
        }
        let runner = SlowPath {
            punts: punts.clone(),
            region: region.clone(),
            frames: frames.clone(),
            devices: devices.clone(),
            counters: slow_path.clone(),
            rules: rules.clone(),
            stop: slow_path_stop.clone(),
        };
        let destinations = program.linux_destinations()?;
        let run = move || runner.run(injector, destinations);
        let slow_path_thread = spawn("bora-slowpath".into(), run)?;

        let common = Common {
            region,
            frames,
            fib: fib.clone(),
            punts,
            returns: Arc::new(ArrayQueue::new(COMMANDS)),
        };
        let recruits = common.recruit(&config.cores)?;
        let bells: Vec<_> = recruits.iter().map(|one| one.bell.clone()).collect();
        let mut parts: Vec<Vec<WorkerPort>> = bells.iter().map(|_| Vec::new()).collect();
        for ((port, config), sockets) in ports.iter_mut().zip(&config.ports).zip(sockets) {
            let (queues, mut twin) = match port.twin_mut() {
                None => (sockets.into_iter().map(Queue::AfXdp).collect(), None),
                Some(twin) => (
                    twin.open_queues(&common.region)?,
                    Some(twin.queue(&common.region)?),
                ),
            };
            if let Some(twin) = &twin {
                let readers = queues.iter().chain([twin]).map(Queue::stats_reader);
                kept[usize::from(port.id.0)].readers = readers.collect::<Result<_, _>>()?;
            }
            let divided = divide(port.id, queues, &config.output, &bells)?;
            for (ports, part) in parts.iter_mut().zip(divided) {
                let mut part = worker_port(port, config, part);
                // one worker is enough for what Linux has to say
                part.twin = twin.take();
                ports.push(part);
            }
        }
        let settings = Settings {
            config,
            hash,
            classifier: &classifier,
        };
        let workers = common.start(recruits, parts, &settings)?;
        Ok(Self {
            workers,
            slow_path,
            common,
            past: Arc::new(WorkerCounters::new(MAX_PORTS)),
            sockets: kept,
            devices,
            leaving: Vec::new(),
            rules,
            closing: Vec::new(),
            slow_path_stop,
            slow_path_thread: Some(slow_path_thread),
        })
    }

    /// Tells every worker to obey other rules, whose counts start anew.
    pub(crate) fn set_rules(&self, classifier: &Arc<Classifier>) {
        self.rules.store(classifier.rules() > 0, Relaxed);
        self.common.punts.announce(); // it then lets nothing past the rules
        self.tell(|| Command::SetRules(classifier.clone()));
        self.wait_for_workers();
        self.past.forget_rules();
    }

    /// Tells every worker to have other queues at an output, whose counts start anew.
    pub(crate) fn set_output(&self, port: PortId, config: &OutputConfig) {
        self.past.forget_classes(port.0.into());
        self.tell(|| Command::SetOutput {
            port,
            config: config.clone(),
        });
    }

    /// Octets of a packet buffer.
    pub(crate) fn frame_size(&self) -> u32 {
        self.common.region.frame_size()
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
        self.common.punts.announce();
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
fn worker_port(port: &Port, config: &PortConfig, part: Part) -> WorkerPort {
    WorkerPort {
        ingress: port.ingress(),
        min_frame: port.settings.min_frame,
        quota: config.quota,
        output: config.output.clone(),
        queues: part.queues,
        twin: None,
        reception: part.reception,
        share: part.share,
        held: Vec::new(),
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

fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a thread")
}
