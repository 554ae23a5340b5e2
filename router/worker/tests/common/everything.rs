//! A worker on memory ports to which everything happens that belongs to the loop: forwarding of
//! both IP versions, rules, two classes, a rate, a full output, drops and punts.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bora_apparatus::{Observer, Replay, observed, replay};
use bora_buffer::{Packet, Region, SharedFrames};
use bora_fib::FibWriter;
use bora_forward::classify::{Action, Addresses, Rule, RuleSet, Ternary};
use bora_forward::schedule::{OutputConfig, Shaping};
use bora_forward::{Class, Reason};
use bora_port::af_xdp::RING_SIZE;
use bora_port::{Queue, memory};
use bora_worker::{
    Budgets, Command, Commands, Mode, Published, PuntRings, Tables, Worker, WorkerConfig,
    WorkerCounters, WorkerPort,
};

use super::{MAC, ipv4_packet, ipv6_packet, port_without_xdp, tables, worker_config};

/// Packets come in by this port, some go out by it, too.
const SOURCE: usize = 0;
/// The planted code sits here.
const OBSERVED: usize = 1;
/// Nobody takes what it sends.
const FULL: usize = 2;
/// It may send less than comes.
const SLOW: usize = 3;
const PORTS: usize = 4;
/// Rules that match nothing, enough for a row of bits to have a summary.
const OTHER_RULES: u16 = 100;

/// What happens in the middle of the loop besides.
#[derive(Clone, Copy)]
pub(crate) enum Plant {
    /// As it should be.
    Nothing,
    /// This, once.
    Once(fn()),
}

impl Plant {
    /// Not before this many packets have left.
    pub(crate) fn after(self, packets: u64) -> Planted {
        Planted {
            plant: self,
            left: packets / 2, // the output gets a part of all
        }
    }
}

/// Sees what leaves.
pub(crate) struct Planted {
    plant: Plant,
    left: u64,
}

impl fmt::Debug for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planted").finish_non_exhaustive()
    }
}

impl Observer for Planted {
    fn observe(&mut self, _: &Region, packets: &[Packet]) {
        self.left = self.left.saturating_sub(packets.len() as u64);
        if self.left == 0
            && let Plant::Once(act) = std::mem::replace(&mut self.plant, Plant::Nothing)
        {
            act();
        }
    }
}

/// The worker, and what must live as long.
pub(crate) struct Subject {
    config: Option<WorkerConfig>,
    thread: Option<JoinHandle<()>>,
    commands: Commands,
    counters: Arc<WorkerCounters>,
    punts: Arc<PuntRings>,
    _writer: FibWriter,
    _far: memory::Queue,
}

impl Subject {
    /// A worker that has not begun, with this many packets to come.
    pub(crate) fn new(mode: Mode, planted: Planted, packets: u64) -> Self {
        let region = Arc::new(Region::new(8 * RING_SIZE, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let (writer, handle) = tables(&[
            ("10.0.0.0/16", SOURCE as u16),
            ("10.1.0.0/16", OBSERVED as u16),
            ("2001:db8::/32", OBSERVED as u16),
            ("10.2.0.0/16", FULL as u16),
            ("10.3.0.0/16", SLOW as u16),
        ]);
        let all = traffic();
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let source = Replay::new(region.clone(), &all).unwrap().limited(packets);
        let (full, far) = memory::pair(64);
        let queues = [
            replay(region.clone(), source).0,
            observed(region.clone(), Box::new(planted)).0,
            Queue::Memory(full),
            observed(region.clone(), Box::new(Plant::Nothing.after(0))).0,
        ];
        let ports = queues.into_iter().enumerate();
        let ports = ports.map(|(number, queue)| port(number, queue)).collect();
        let config = WorkerConfig {
            tables: Published::new(Tables {
                mode,
                classifier: Arc::new(rules().compile().unwrap()),
                ..Tables::default()
            }),
            budgets: Budgets::new(20_000), // fills the ring within the warm-up
            ..worker_config(&region, &frames, &handle, ports)
        };
        let (commands, counters) = (config.commands.clone(), config.counters.clone());
        let punts = config.punts.clone();
        Self {
            config: Some(config),
            thread: None,
            commands,
            counters,
            punts,
            _writer: writer,
            _far: far,
        }
    }

    /// Starts it on a thread that does `first` before.
    pub(crate) fn start(&mut self, first: impl FnOnce() + Send + 'static) {
        let config = self.config.take().unwrap();
        self.thread = Some(thread::spawn(move || {
            let worker = Worker::new(config).unwrap();
            first();
            worker.run();
        }));
    }

    /// Packets so far.
    pub(crate) fn received(&self) -> u64 {
        self.counters.ports[SOURCE].rx_packets.get()
    }

    /// Rounds without a packet so far.
    pub(crate) fn idle_rounds(&self) -> u64 {
        self.counters.idle_loops.get()
    }

    /// Everything has happened, and often.
    pub(crate) fn check(&self) {
        let often = self.received() / 10_000;
        let ports = &self.counters.ports;
        for port in [SOURCE, OBSERVED, SLOW] {
            assert!(ports[port].tx_packets.get() > often, "port {port}");
        }
        for class in &ports[OBSERVED].classes[..2] {
            assert!(class.sent.get() > often, "a class was not used");
        }
        for port in [FULL, SLOW] {
            let dropped = &ports[port].dropped[Reason::QueueFull];
            assert!(dropped.get() > often, "port {port} was not full");
        }
        let reasons = [Reason::Rule, Reason::PuntBudget, Reason::BadChecksum];
        for reason in reasons {
            let dropped = &ports[SOURCE].dropped[reason];
            assert!(dropped.get() > often, "{}", reason.name());
        }
        let ring = ports[SOURCE].dropped[Reason::PuntRingFull].get();
        assert!(ring > 0, "the punt ring was not full");
        assert!(self.punts.held() > 0);
    }

    /// Ends it.
    pub(crate) fn stop(mut self) {
        self.commands.push(Command::Stop).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn port(number: usize, queue: Queue) -> WorkerPort {
    let slow = Shaping {
        rate: 50_000_000,
        burst: 10_000,
    };
    WorkerPort {
        output: OutputConfig {
            shaping: (number == SLOW).then_some(slow),
            ..OutputConfig::default()
        },
        ..port_without_xdp(number as u16, queue)
    }
}

/// One that drops, one that gives a class, and many for others.
fn rules() -> RuleSet {
    let to = |address: u32| Rule {
        addresses: Addresses::V4 {
            source: Ternary::default(),
            destination: Ternary {
                value: address,
                mask: u32::MAX,
            },
        },
        ..Rule::default()
    };
    let others = (0..OTHER_RULES).map(|number| Rule {
        destination_ports: Some(number..=number),
        ..to(0xc0a8_0000 + u32::from(number))
    });
    let drop = Rule {
        action: Action::Drop,
        ..to(0x0a01_0009)
    };
    let high = Rule {
        action: Action::Pass {
            class: Some(Class::HIGH),
            output: None,
        },
        destination_ports: Some(5000..=5001),
        ..Rule::default()
    };
    RuleSet {
        rules: others.chain([drop, high]).collect(),
        ..RuleSet::default()
    }
}

/// To every port in both classes, and what is dropped or punted.
fn traffic() -> Vec<Vec<u8>> {
    let mut all = vec![];
    for port in 0..PORTS as u32 {
        for (tos, destination_port) in [(0, 9), (46 << 2, 9), (0, 5000)] {
            let destination = 0x0a00_0001 + (port << 16);
            all.push(ipv4_packet(destination, tos, destination_port));
        }
    }
    all.push(ipv6_packet(0, 9));
    all.push(ipv6_packet(0, 5001));
    let (ruled_out, nowhere) = (0x0a01_0009, 0xc612_0001);
    all.push(ipv4_packet(ruled_out, 0, 9));
    all.push(ipv4_packet(nowhere, 0, 9));
    let mut broken = ipv4_packet(0x0a01_0001, 0, 9);
    broken[24] ^= 0xff;
    all.push(broken);
    debug_assert!(all.iter().all(|packet| packet[..6] == MAC.0));
    all
}
