//! Rates, levels and weights of an output that several workers send by, each with a receive queue of
//! its own: they hold for all workers together.

mod common;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_apparatus::{Observer, Replay, observed, replay};
use bora_buffer::{Packet, Region, SharedFrames};
use bora_fib::FibWriter;
use bora_forward::Class;
use bora_forward::classify::{Action, Rule, RuleSet};
use bora_forward::schedule::{ClassConfig, MIN_QUANTUM, OutputConfig, Shaping};
use bora_worker::{
    Bell, Command, Commands, Published, Share, Tables, Worker, WorkerConfig, WorkerCounters,
    WorkerPort, share,
};

use common::{ipv4_packet, port_without_xdp, tables, worker_config};

const WORKERS: usize = 2;
const CLASSES: usize = 2;
/// Octets: so late, half a second at this rate, may a worker be on a busy machine without losing of
/// the rate.
const BURST: u32 = 25_000;
const RATE: u64 = 400_000;
const TIME: Duration = Duration::from_secs(5);
/// Two workers that never rest are enough for a machine.
static ALONE: Mutex<()> = Mutex::new(());

/// Octets that left, by class, and when the last did. A packet's class is its destination port.
#[derive(Clone, Copy, Debug)]
struct Count {
    octets: [u64; CLASSES],
    last: Instant,
}

#[derive(Clone, Debug)]
struct Sent(Arc<Mutex<Count>>);

impl Observer for Sent {
    fn observe(&mut self, region: &Region, packets: &[Packet]) {
        let mut count = self.0.lock().unwrap();
        for packet in packets {
            let octets = region.octets(packet);
            count.octets[usize::from(octets[37])] += octets.len() as u64;
            count.last = Instant::now();
        }
    }
}

impl Sent {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Count {
            octets: [0; CLASSES],
            last: Instant::now(),
        })))
    }

    fn read(&self) -> Count {
        *self.0.lock().unwrap()
    }
}

/// Two workers, each of which always receives packets of its own classes for one output.
struct Router {
    threads: Vec<JoinHandle<Vec<WorkerPort>>>,
    commands: Vec<Commands>,
    sent: Sent,
    _writer: FibWriter,
    _alone: MutexGuard<'static, ()>,
}

impl Router {
    /// `classes` are those that each worker receives.
    fn new(output: &OutputConfig, classes: [&[u8]; WORKERS]) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let region = Arc::new(Region::new(32_768, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let (writer, handle) = tables(&[("10.0.0.0/16", 0), ("10.1.0.0/16", 1)]);
        let bells = [(); WORKERS].map(|()| Arc::new(Bell::new().unwrap()));
        let (owner, members) = share(output, &bells[0], &bells[1..]).unwrap();
        let shares = [Share::Owner(Box::new(owner))].into_iter();
        let members = members.into_iter().map(|one| Share::Member(Box::new(one)));
        let sent = Sent::new();
        let (mut threads, mut all_commands) = (Vec::new(), Vec::new());
        let counters = [(); WORKERS].map(|()| Arc::new(WorkerCounters::new(2)));
        for (number, share) in shares.chain(members).enumerate() {
            let packet = |&class: &u8| ipv4_packet(0x0a01_0001, 0, class.into());
            let packets: Vec<_> = classes[number].iter().map(packet).collect();
            let packets: Vec<_> = packets.iter().map(Vec::as_slice).collect();
            let packets = Replay::new(region.clone(), &packets).unwrap();
            let (source, _) = replay(region.clone(), packets);
            let (sink, _) = observed(region.clone(), Box::new(sent.clone()));
            let shared = WorkerPort {
                output: output.clone(),
                share,
                ..port_without_xdp(1, sink)
            };
            let ports = vec![port_without_xdp(0, source), shared];
            let config = WorkerConfig {
                tables: Published::new(Tables {
                    classifier: Arc::new(rules().compile().unwrap()),
                    ..Tables::default()
                }),
                bell: bells[number].clone(),
                peers: counters.to_vec(),
                counters: counters[number].clone(),
                ..worker_config(&region, &frames, &handle, ports)
            };
            all_commands.push(config.commands.clone());
            threads.push(thread::spawn(move || Worker::new(config).unwrap().run()));
        }
        Self {
            threads,
            commands: all_commands,
            sent,
            _writer: writer,
            _alone: alone,
        }
    }

    /// Bits a second of each class, over a while.
    fn measure(self) -> [f64; CLASSES] {
        thread::sleep(TIME / 8); // until bursts are over
        let before = self.sent.read();
        thread::sleep(TIME);
        let after = self.sent.read();
        let time = after.last.duration_since(before.last).as_secs_f64();
        for commands in &self.commands {
            commands.push(Command::Stop).unwrap();
        }
        self.threads
            .into_iter()
            .for_each(|one| drop(one.join().unwrap()));
        [0, 1].map(|class| 8.0 * (after.octets[class] - before.octets[class]) as f64 / time)
    }
}

/// The class is the destination port.
fn rules() -> RuleSet {
    let rule = |class: u8| Rule {
        destination_ports: Some(class.into()..=class.into()),
        action: Action::Pass {
            class: Some(Class(class)),
            output: None,
        },
        ..Rule::default()
    };
    RuleSet {
        rules: [0, 1].map(rule).to_vec(),
        ..RuleSet::default()
    }
}

fn rate(rate: u64) -> Option<Shaping> {
    Some(Shaping { rate, burst: BURST })
}

fn output(port: Option<u64>, classes: [(u8, u32, Option<u64>); CLASSES]) -> OutputConfig {
    let class = |(level, weight, limit): (u8, u32, Option<u64>)| ClassConfig {
        level,
        quantum: weight * MIN_QUANTUM,
        shaping: limit.and_then(rate),
        ..ClassConfig::strict(level)
    };
    OutputConfig {
        classes: classes.map(class).to_vec(),
        shaping: port.and_then(rate),
    }
}

/// Whether a rate is within 1 % of a part of the port's rate, or what it is.
fn about(measured: f64, part: f64) -> Result<(), String> {
    within(0.01, measured, part)
}

fn within(slack: f64, measured: f64, part: f64) -> Result<(), String> {
    let wanted = part * RATE as f64;
    if (measured - wanted).abs() <= slack * wanted {
        return Ok(());
    }
    Err(format!("{measured:.0} bit/s instead of {wanted:.0}"))
}

/// On a busy machine a worker may stand still for longer than what waits for it lasts: some other time
/// it must be right.
fn now_and_then(attempt: impl Fn() -> Result<(), String>) {
    let wrong: Vec<String> = (0..4).map_while(|_| attempt().err()).collect();
    assert!(wrong.len() < 4, "{wrong:?}");
}

#[test]
fn a_rate_is_of_all_workers_together() {
    let output = output(Some(RATE), [(0, 1, None), (1, 1, None)]);
    now_and_then(|| {
        let [low, high] = Router::new(&output, [&[0], &[0]]).measure();
        about(low + high, 1.0)
    });
}

/// The high class comes in by the worker that does not own the output.
#[test]
fn levels_are_of_all_workers_together() {
    let output = output(Some(RATE), [(0, 1, None), (1, 1, None)]);
    now_and_then(|| {
        let [_, high] = Router::new(&output, [&[0], &[1]]).measure();
        about(high, 1.0)
    });
}

#[test]
fn weights_are_of_all_workers_together() {
    let output = output(Some(RATE), [(0, 1, None), (0, 3, None)]);
    // a round of the round robin, of what leaves in this time
    let round = 8.0 * f64::from(4 * MIN_QUANTUM) / (TIME.as_secs_f64() * RATE as f64);
    now_and_then(|| {
        let [one, three] = Router::new(&output, [&[0], &[1]]).measure();
        within(0.01 + 4.0 * round, one, 0.25).and(within(0.01 + round, three, 0.75))
    });
}

/// A class that waits for its rate keeps no other one from the output.
#[test]
fn class_rates_are_of_all_workers_together() {
    let output = output(Some(RATE), [(0, 1, None), (1, 1, Some(RATE / 4))]);
    now_and_then(|| {
        let [low, high] = Router::new(&output, [&[0, 1], &[0, 1]]).measure();
        about(high, 0.25).and(about(low, 0.75))
    });
}
