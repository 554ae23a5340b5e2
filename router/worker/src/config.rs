//! What a worker is made of, and what the control side tells it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{FibReader, PortId};
use bora_forward::Ingress;
use bora_forward::schedule::OutputConfig;
use bora_port::af_xdp::RING_SIZE;
use bora_port::{Bell, Queue};
use crossbeam_queue::ArrayQueue;

use crate::counters::WorkerCounters;
use crate::handover::Handover;
use crate::punt::{Budgets, PuntRings};
use crate::share::Share;
use crate::spread::Reception;
use crate::tables::{Intake, Published, Tables};

/// Default quota: packets that a queue may bring in one turn; NAPI's weight.
pub const QUOTA: u32 = 64;
/// Default length of the queues of commands and of returned queues.
const COMMANDS: usize = 8;
/// Shortest Ethernet frame, octets without FCS.
const MIN_FRAME: u16 = 60;
/// A worker may keep this many free frames however small the region is.
const LEAST_KEPT: usize = 128;

/// What the control side has a running worker do. What it is to decide by comes with [`Published`].
#[derive(Debug)]
pub enum Command {
    /// Replace the queues of an output; packets in the old queues move to the new ones.
    SetOutput {
        /// The port.
        port: PortId,
        /// A valid configuration.
        config: OutputConfig,
    },
    /// Add a port: the next number, or the number of a port that was removed.
    AddPort(Box<WorkerPort>),
    /// Measure for so long what each stage of the loop takes: [`WorkerCounters::profile`].
    Profile(Duration),
    /// Drain a port: forward what its queues have received, send what they have to send, and give
    /// them back through [`WorkerConfig::returns`]. The XDP program must no longer redirect packets
    /// to the port.
    RemovePort(PortId),
    /// Stop receiving, forward what all workers of the hand-over have received, and end. Whoever
    /// joins the thread gets the queues. Packets wait meanwhile, so ring the bell ([`Bell::ring`]).
    HandOver(Arc<Handover>),
    /// Empty the receive rings, send what is held, and end. XDP programs must no longer redirect
    /// packets to the worker.
    Stop,
}

/// The queue of commands from the control side to one worker.
pub type Commands = Arc<ArrayQueue<Command>>;

/// One worker's queues of a removed port.
#[derive(Debug)]
pub struct Returned {
    /// The port.
    pub port: PortId,
    /// Its queues: drained, to be closed.
    pub queues: Vec<Queue>,
}

/// The queue of returned queues from the workers to the control side.
pub type Returns = Arc<ArrayQueue<Returned>>;

/// A worker's part of one port.
#[derive(Debug)]
pub struct WorkerPort {
    /// Settings; `ingress.port` is the index in [`WorkerConfig::ports`].
    pub ingress: Ingress,
    /// Shortest frame to send, octets without FCS.
    pub min_frame: u16,
    /// Packets that each of its queues may bring in one turn.
    pub quota: u32,
    /// Classes, queues and rates of the output; a valid configuration.
    pub output: OutputConfig,
    /// The queues that this worker owns; it sends through the first. With [`Reception::Ring`], the
    /// ring it receives from.
    pub queues: Vec<Queue>,
    /// For a port that is no Linux interface: what Linux sends through the TAP twin goes out of the
    /// port unchanged.
    pub twin: Option<Queue>,
    /// Whether other workers get a part of what these queues receive.
    pub reception: Reception,
    /// Whether other workers send through the same transmit ring.
    pub share: Share,
    /// Packets to send before any other, left by workers that had the port before. The mark of each
    /// packet is its class.
    pub held: Vec<Packet>,
}

impl WorkerPort {
    /// A port with one queue that no other worker uses; default quota and output.
    pub fn new(ingress: Ingress, queue: Queue) -> Self {
        Self {
            ingress,
            min_frame: MIN_FRAME,
            quota: QUOTA,
            output: OutputConfig::default(),
            queues: vec![queue],
            twin: None,
            reception: Reception::Own,
            share: Share::Alone,
            held: Vec::new(),
        }
    }

    /// Takes what it is told; returns whether its queues have another quota.
    pub(crate) fn take(&mut self, told: &Intake) -> bool {
        self.ingress.clone_from(&told.ingress);
        std::mem::replace(&mut self.quota, told.quota) != told.quota
    }
}

/// What a worker is made of.
pub struct WorkerConfig {
    /// CPU to run on; `None` leaves the choice to the scheduler.
    pub core: Option<usize>,
    /// Its number.
    pub number: usize,
    /// What it decides by, now and later.
    pub tables: Arc<Published>,
    /// The memory of all packets.
    pub region: Arc<Region>,
    /// Its free frames; see [`free_frames`].
    pub pool: Pool,
    /// Its access to the forwarding tables.
    pub fib: FibReader,
    /// Ports by number.
    pub ports: Vec<WorkerPort>,
    /// The rings to the slow path.
    pub punts: Arc<PuntRings>,
    /// How many packets may go there.
    pub budgets: Budgets,
    /// Others wake the worker with it.
    pub bell: Arc<Bell>,
    /// Counters of the workers it shares ports with: it ends only after their packets have left.
    pub peers: Vec<Arc<WorkerCounters>>,
    /// Commands of the control side.
    pub commands: Commands,
    /// Where the queues of removed ports go.
    pub returns: Returns,
    /// What it counts, for as many ports as it will ever have.
    pub counters: Arc<WorkerCounters>,
}

impl WorkerConfig {
    /// The only worker of these ports: [`crate::Mode::Adaptive`] on any CPU, no rules, Linux's default flow
    /// hash, no limit for punts.
    ///
    /// # Errors
    /// The process may open no more file descriptors.
    pub fn new(
        region: Arc<Region>,
        pool: Pool,
        fib: FibReader,
        ports: Vec<WorkerPort>,
    ) -> io::Result<Self> {
        Ok(Self {
            core: None,
            number: 0,
            tables: Published::new(Tables::default()),
            region,
            pool,
            fib,
            counters: Arc::new(WorkerCounters::new(ports.len())),
            ports,
            punts: Arc::default(),
            budgets: Budgets::new(u64::MAX),
            bell: Arc::new(Bell::new()?),
            peers: Vec::new(),
            commands: Arc::new(ArrayQueue::new(COMMANDS)),
            returns: Arc::new(ArrayQueue::new(COMMANDS)),
        })
    }
}

/// The list of free frames of a worker with these ports. It keeps at most half of what their rings
/// hold, and at most a quarter of the region, because other workers need frames too.
pub fn free_frames(reserve: &SharedFrames, region: &Region, ports: &[WorkerPort]) -> Pool {
    let queues: usize = ports.iter().map(|port| port.queues.len()).sum();
    let rings = queues.max(1) * RING_SIZE as usize;
    let most = (region.frames() as usize / 4).max(LEAST_KEPT);
    Pool::new(reserve.clone(), (rings / 2).min(most))
}
