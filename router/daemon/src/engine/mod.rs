//! The engine: memory, sockets, workers and the slow path.

mod ledger;
mod live;
pub(crate) mod shares;
mod slow_path;
mod sockets;
mod workers;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed},
};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use bora_buffer::Region;
use bora_capture::Subscription;
use bora_fib::{FibHandle, PortId};
use bora_forward::schedule::OutputConfig;
use bora_port::af_xdp::Socket;
use bora_port::{Closing, Queue, QueueStats, StatsReader};
use bora_worker::{Bell, Command, Mode, Published, PuntRings, Tables, WorkerCounters, WorkerPort};
use bora_xdp::inject::Injector;
use bora_xdp::{MAX_PORTS, Program};
use crossbeam_queue::ArrayQueue;

use crate::config::{File, PortSection};
use crate::engine::shares::{Part, divide};
use crate::ports::Port;
use crate::process::threads::join;
pub(crate) use ledger::FramesReport;
use slow_path::{Device, Devices, SlowPath, SlowPathCounters};
pub(crate) use sockets::{Opening, Sockets, open_all};
use workers::Common;
pub(crate) use workers::Running;

/// Commands that may wait for a worker.
const COMMANDS: usize = 1024;

/// The running engine.
pub(crate) struct Engine {
    pub(crate) workers: Vec<Running>,
    pub(crate) slow_path: Arc<SlowPathCounters>,
    common: Common,
    /// The latest that the workers were given.
    tables: Tables,
    /// What workers that are gone have counted.
    past: Arc<WorkerCounters>,
    /// The sockets of each port, by port number.
    sockets: Vec<PortSockets>,
    devices: Arc<Devices>,
    leaving: Vec<Leaving>,
    /// Whether there are rules, for the slow path.
    rules: Arc<AtomicBool>,
    /// Closed sockets whose frames have not returned yet, and their ports.
    closing: Vec<(PortId, Closing)>,
    slow_path_stop: Arc<AtomicBool>,
    slow_path_thread: Option<JoinHandle<()>>,
}

/// What the control side keeps of a port's queues, which the workers own.
#[derive(Debug, Default)]
struct PortSockets {
    readers: Vec<StatsReader>,
    /// What closed sockets of the same number had counted.
    counted: QueueStats,
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
        opening: Opening,
        program: &mut Program,
        fib: &FibHandle,
        config: &File,
        tables: Tables,
    ) -> anyhow::Result<Self> {
        let Opening {
            region,
            frames,
            sockets,
        } = opening;
        log_memory(&region);
        let common = Common {
            region,
            frames,
            fib: fib.clone(),
            punts: Arc::new(PuntRings::default()),
            returns: Arc::new(ArrayQueue::new(COMMANDS)),
            tables: Published::new(tables.clone()),
        };
        let devices = Arc::new(Devices::new(MAX_PORTS));
        for port in ports.iter() {
            devices.set(port.id, way_to_linux(port)?);
        }
        let mut engine = Self {
            workers: Vec::new(),
            slow_path: Arc::new(SlowPathCounters::new(MAX_PORTS)),
            past: Arc::new(WorkerCounters::new(MAX_PORTS)),
            sockets: Vec::with_capacity(ports.len()),
            devices,
            leaving: Vec::new(),
            rules: Arc::new(AtomicBool::new(tables.classifier.rules() > 0)),
            closing: Vec::new(),
            slow_path_stop: Arc::default(),
            slow_path_thread: None,
            tables,
            common,
        };
        engine.start_slow_path(program)?;
        let spawned = engine.common.spawn(config)?;
        let bells: Vec<_> = spawned.iter().map(|one| one.bell.clone()).collect();
        let parts = engine.divide_ports(ports, sockets, &config.ports, program, &bells)?;
        engine.workers = engine.common.start(spawned, parts, config)?;
        Ok(engine)
    }

    fn start_slow_path(&mut self, program: &mut Program) -> anyhow::Result<()> {
        let injector =
            Injector::load(program.netns_inode()).context("cannot load the injection program")?;
        let slow_path = SlowPath {
            punts: self.common.punts.clone(),
            region: self.common.region.clone(),
            frames: self.common.frames.clone(),
            devices: self.devices.clone(),
            counters: self.slow_path.clone(),
            rules: self.rules.clone(),
            stop: self.slow_path_stop.clone(),
        };
        let destinations = program.linux_destinations()?;
        let run = move || {
            bora_confine::thread(bora_confine::KERNEL);
            slow_path.run(injector, destinations);
        };
        self.slow_path_thread = Some(spawn("bora-slowpath".into(), run)?);
        Ok(())
    }

    /// Each worker's part of the ports. Workers are named by their bells.
    fn divide_ports(
        &mut self,
        ports: &mut [Port],
        sockets: Vec<Vec<Socket>>,
        sections: &[PortSection],
        program: &Program,
        bells: &[Arc<Bell>],
    ) -> anyhow::Result<Vec<Vec<WorkerPort>>> {
        let mut parts: Vec<Vec<WorkerPort>> = bells.iter().map(|_| Vec::new()).collect();
        for ((port, section), sockets) in ports.iter_mut().zip(sections).zip(sockets) {
            let (queues, mut twin) = self.queues_of(port, sockets, program)?;
            let divided = divide(port.id, queues, &section.queues.output(), bells)?;
            for (ports, part) in parts.iter_mut().zip(divided) {
                let mut part = worker_port(port, section, part);
                // one worker is enough for what Linux sends by the port
                part.twin = twin.take();
                ports.push(part);
            }
        }
        Ok(parts)
    }

    /// The queues of a port, and that of its twin if it has one. Keeps readers of what they count.
    fn queues_of(
        &mut self,
        port: &mut Port,
        sockets: Vec<Socket>,
        program: &Program,
    ) -> anyhow::Result<(Vec<Queue>, Option<Queue>)> {
        for socket in &sockets {
            program.set_socket(port.id.0, socket.queue(), socket.as_fd())?;
        }
        let region = &self.common.region;
        let (queues, twin): (Vec<Queue>, _) = match port.twin_mut() {
            None => (sockets.into_iter().map(Queue::AfXdp).collect(), None),
            Some(twin) => (
                twin.open_queues(region, &self.common.frames)?,
                Some(twin.queue(region)?),
            ),
        };
        let readers = queues.iter().chain(&twin).map(Queue::stats_reader);
        let readers: std::io::Result<_> = readers.collect();
        self.sockets.push(PortSockets {
            readers: readers.context("statistics of queues")?,
            counted: QueueStats::default(),
        });
        Ok((queues, twin))
    }

    /// Has every worker go by these tables, and waits until all do; captures and modes of single workers stay. Returns whether they
    /// are others than before.
    pub(crate) fn adopt(&mut self, tables: Tables) -> bool {
        let now = &self.tables;
        let modes = match tables.mode == now.mode {
            true => now.modes.clone(),
            false => BTreeMap::new(),
        };
        let subscriptions = now.subscriptions.clone();
        self.publish(Tables {
            modes,
            subscriptions,
            ..tables
        })
    }

    /// Tells every worker of the captures and traces.
    pub(crate) fn set_subscriptions(&mut self, subscriptions: Vec<Arc<Subscription>>) {
        self.publish(Tables {
            subscriptions,
            ..self.tables.clone()
        });
    }

    /// Gives one worker a mode of its own, or takes all such modes away.
    pub(crate) fn set_mode(&mut self, worker: Option<(usize, Mode)>) {
        let mut tables = self.tables.clone();
        match worker {
            Some(one) => tables.modes.extend([one]),
            None => tables.modes.clear(),
        }
        self.publish(tables);
    }

    fn publish(&mut self, tables: Tables) -> bool {
        if tables.is_same(&self.tables) {
            return false;
        }
        let old = std::mem::replace(&mut self.tables, tables.clone());
        let same_rules = Arc::ptr_eq(&old.classifier, &tables.classifier);
        self.rules.store(tables.classifier.rules() > 0, Relaxed);
        if !same_rules || !Arc::ptr_eq(&old.policies, &tables.policies) {
            self.common.punts.announce(); // so that the slow path forgets destinations that bypass rules
        }
        let counted_anew = old.rule_set != tables.rule_set;
        self.common.tables.publish(tables);
        self.workers.iter().for_each(|worker| worker.bell.ring());
        self.wait_for_tables();
        if counted_anew {
            self.past.forget_rules();
        }
        true
    }

    /// The tables that workers are to go by.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Whether all workers go by the latest tables.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.workers.iter().all(|worker| self.lag(worker) == 0)
    }

    /// How many generations of tables a worker is behind; mostly none.
    pub(crate) fn lag(&self, worker: &Running) -> u64 {
        let adopted = worker.counters.generation.load(Acquire);
        self.common.tables.generation().saturating_sub(adopted)
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

    /// Ends the workers when their rings are empty, and then the slow path when its own are.
    pub(crate) fn stop(&mut self) {
        self.tell(|| Command::Stop);
        let workers = self.workers.iter_mut();
        for thread in workers.filter_map(|worker| worker.thread.take()) {
            join(thread);
        }
        self.slow_path_stop.store(true, Relaxed);
        self.common.punts.announce();
        if let Some(thread) = self.slow_path_thread.take() {
            join(thread);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

fn log_memory(region: &Region) {
    let pages = match region.huge_pages() {
        true => "2 MiB",
        false => "ordinary (no free 2 MiB)",
    };
    let (frames, octets) = (region.frames(), region.frame_size());
    log::info!("{frames} frames of {octets} octets in {pages} pages");
}

/// One worker's part of a port.
fn worker_port(port: &Port, config: &PortSection, part: Part) -> WorkerPort {
    WorkerPort {
        ingress: (&port.settings).into(),
        min_frame: port.settings.min_frame,
        quota: config.quota,
        output: config.queues.output(),
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
