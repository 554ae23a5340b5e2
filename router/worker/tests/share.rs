//! Several workers on ports with one queue: every packet arrives, flows stay in order, and all
//! workers take part.

mod common;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{FibHandle, FibWriter};
use bora_forward::Reason;
use bora_forward::schedule::{OutputConfig, Shaping};
use bora_port::{PortQueue, Queue, memory};
use bora_wire::udp;
use bora_worker::{
    Bell, Command, Commands, Handover, Mode, Published, Reception, Share, Tables, Worker,
    WorkerConfig, WorkerCounters, WorkerPort, merge_parts, share, spread,
};

use common::{MAC, ingress, tables, worker_config};

const FRAMES: u32 = 32_768;
const FLOWS: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

struct Net {
    region: Arc<Region>,
    frames: SharedFrames,
    pool: Pool,
    /// The far ends of the two ports.
    far: [memory::Queue; 2],
    commands: Vec<Commands>,
    bells: Vec<Arc<Bell>>,
    counters: Vec<Arc<WorkerCounters>>,
    /// What replaced workers have counted.
    past: WorkerCounters,
    handle: FibHandle,
    threads: Vec<JoinHandle<Vec<WorkerPort>>>,
    _writer: FibWriter,
    sent: HashMap<u32, u32>,
    seen: HashMap<u32, u32>,
    received: u64,
}

impl Net {
    fn new(workers: usize, mode: Mode, output: &OutputConfig) -> Self {
        let region = Arc::new(Region::new(FRAMES, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let (writer, handle) = tables(&[("10.1.0.0/16", 1), ("10.0.0.0/16", 0)]);
        let (near, far): (Vec<_>, Vec<_>) = (0..2)
            .map(|number| {
                let (near, far) = memory::pair(1024);
                let port = WorkerPort {
                    output: output.clone(),
                    ..WorkerPort::new(ingress(number), Queue::Memory(near))
                };
                (port, far)
            })
            .unzip();
        let mut net = Self {
            threads: Vec::new(),
            pool: Pool::new(frames.clone(), 1024),
            region,
            frames,
            far: far.try_into().unwrap(),
            commands: Vec::new(),
            bells: Vec::new(),
            counters: Vec::new(),
            past: WorkerCounters::new(2),
            handle,
            _writer: writer,
            sent: HashMap::new(),
            seen: HashMap::new(),
            received: 0,
        };
        net.start(workers, mode, near);
        net
    }

    /// Workers that share these ports.
    fn start(&mut self, workers: usize, mode: Mode, near: Vec<WorkerPort>) {
        let bells: Vec<_> = (0..workers)
            .map(|_| Arc::new(Bell::new().unwrap()))
            .collect();
        let counters: Vec<_> = (0..workers)
            .map(|_| Arc::new(WorkerCounters::new(2)))
            .collect();
        let mut ports: Vec<Vec<WorkerPort>> = (0..workers).map(|_| Vec::new()).collect();
        for mut port in near {
            let (owner, members) = share(&port.output, &bells[0], &bells[1..]).unwrap();
            let (spreader, rings) = spread(&bells[1..]);
            let others = members.into_iter().zip(rings);
            for (ports, (member, ring)) in ports[1..].iter_mut().zip(others) {
                ports.push(WorkerPort {
                    output: port.output.clone(),
                    reception: Reception::Ring,
                    share: Share::Member(Box::new(member)),
                    ..WorkerPort::new(port.ingress.clone(), Queue::Memory(ring))
                });
            }
            if workers > 1 {
                port.reception = Reception::Spread(Box::new(spreader));
                port.share = Share::Owner(Box::new(owner));
            }
            ports[0].push(port);
        }
        self.commands.clear();
        for (number, ports) in ports.into_iter().enumerate() {
            let config = WorkerConfig {
                number,
                tables: Published::new(Tables {
                    mode,
                    ..Tables::default()
                }),
                bell: bells[number].clone(),
                peers: counters.clone(),
                counters: counters[number].clone(),
                ..worker_config(&self.region, &self.frames, &self.handle, ports)
            };
            self.commands.push(config.commands.clone());
            let run = move || Worker::new(config).unwrap().run();
            self.threads.push(thread::spawn(run));
        }
        (self.bells, self.counters) = (bells, counters);
    }

    /// Ends the workers and lets others take over.
    fn replace(&mut self, workers: usize, mode: Mode) {
        let handover = Arc::new(Handover::new(self.threads.len()));
        for (commands, bell) in self.commands.iter().zip(&self.bells) {
            commands.push(Command::HandOver(handover.clone())).unwrap();
            bell.ring();
        }
        let threads = self.threads.drain(..);
        let mut hands: Vec<_> = threads.map(|t| t.join().unwrap().into_iter()).collect();
        assert!(handover.is_committed());
        for counters in self.counters.drain(..) {
            self.past.absorb(&counters);
        }
        let ports = (0..2).map(|_| merge_parts(hands.iter_mut().map(|hand| hand.next().unwrap())));
        let ports: Vec<_> = ports.map(Option::unwrap).collect();
        self.start(workers, mode, ports);
    }

    /// Numbered packets of all flows into both ports; those that go by the other one.
    fn offer(&mut self, count: u32) {
        for port in 0..2u32 {
            let mut packets: Vec<Packet> = Vec::new();
            for number in 0..count {
                let flow = number % FLOWS + port * FLOWS;
                let Some(frame) = self.pool.take() else { break };
                let mut packet = frame
                    .into_packet(&self.region, 60 + number as usize % 64)
                    .unwrap();
                let sequence = self.sent.entry(flow).or_default();
                *sequence += 1;
                let octets = self.region.octets_mut(&mut packet);
                write(octets, flow, *sequence, 1 - port);
                packets.push(packet);
            }
            let far = &mut self.far[port as usize];
            let deadline = Instant::now() + PATIENCE;
            while far.transmit(&mut packets) == 0 || !packets.is_empty() {
                assert!(Instant::now() < deadline, "nobody takes packets");
                thread::yield_now();
            }
        }
    }

    fn collect(&mut self) -> usize {
        let mut count = 0;
        for far in &mut self.far {
            let mut packets = Vec::new();
            count += far.receive(&mut packets, 256);
            for packet in packets {
                let octets = self.region.octets(&packet);
                let number = |at: usize| u32::from_be_bytes(octets[at..at + 4].try_into().unwrap());
                let (flow, sequence) = (number(42), number(46));
                let last = self.seen.entry(flow).or_default();
                assert!(sequence > *last, "flow {flow}: {sequence} after {last}");
                *last = sequence;
                self.pool.give(packet.into_frame(&self.region));
            }
        }
        self.received += count as u64;
        count
    }

    fn offered(&self) -> u64 {
        self.sent.values().map(|&count| u64::from(count)).sum()
    }

    fn dropped(&self, reason: Reason) -> u64 {
        let workers = self.counters.iter().map(|worker| &**worker);
        let ports = workers.chain([&self.past]).flat_map(|worker| &worker.ports);
        ports.map(|port| port.dropped[reason].get()).sum()
    }

    /// Ends the workers; every frame must be back.
    fn stop(mut self) {
        for commands in &self.commands {
            commands.push(Command::Stop).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            assert!(Instant::now() < deadline, "workers do not end");
            self.collect();
        }
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        while self.collect() > 0 {}
        let lost = self.dropped(Reason::QueueFull) + self.dropped(Reason::WorkerRingFull);
        assert_eq!(self.received + lost, self.offered());
        let (frames, pool) = (self.frames.clone(), self.pool);
        drop((self.far, pool));
        assert_eq!(frames.len(), FRAMES as usize, "frames are missing");
    }
}

/// A UDP packet of a flow; the flow is in the source address and port.
fn write(octets: &mut [u8], flow: u32, sequence: u32, to: u32) {
    octets.fill(0);
    let frame = udp::Frame {
        dst_mac: MAC,
        src_port: flow as u16,
        ..udp::Frame::new(
            Ipv4Addr::from(0xc612_0000 | flow),
            Ipv4Addr::from(0x0a00_0001 | to << 16),
        )
    };
    frame.emit(octets).unwrap();
    octets[42..46].copy_from_slice(&flow.to_be_bytes());
    octets[46..50].copy_from_slice(&sequence.to_be_bytes());
}

fn all_arrives(mode: Mode) {
    let mut net = Net::new(3, mode, &OutputConfig::default());
    for round in 0..1000 {
        net.offer(64);
        while net.offered() - net.received > 512 {
            net.collect();
        }
        // time to fall asleep
        if round % 100 == 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while net.received < net.offered() {
        assert!(
            Instant::now() < deadline,
            "{} of {}",
            net.received,
            net.offered()
        );
        net.collect();
    }
    // numbers of classes are published every now and then
    thread::sleep(Duration::from_millis(50));
    for worker in &net.counters {
        let classes = worker.ports.iter().flat_map(|port| &port.classes);
        let forwarded: u64 = classes.map(|class| class.enqueued.get()).sum();
        assert!(
            forwarded > 1000,
            "a worker forwarded {forwarded} packets only"
        );
    }
    assert_eq!(net.seen.len(), 2 * FLOWS as usize);
    net.stop();
}

#[test]
fn all_arrives_in_order_from_workers_that_poll() {
    all_arrives(Mode::Poll);
}

#[test]
fn all_arrives_in_order_from_workers_that_sleep() {
    all_arrives(Mode::Adaptive);
}

/// An output that is too slow: what is lost is lost in queues and counted, what arrives is in
/// order, and no frame is missing afterwards.
#[test]
fn overload_is_dropped_by_name_and_the_rest_in_order() {
    let output = OutputConfig {
        shaping: Some(Shaping {
            rate: 200_000_000,
            burst: 10_000,
        }),
        ..OutputConfig::default()
    };
    let mut net = Net::new(3, Mode::Adaptive, &output);
    for _ in 0..1000 {
        net.offer(64);
        net.collect();
    }
    assert!(net.dropped(Reason::QueueFull) > 0, "that was no overload");
    net.stop();
}

/// Whatever the mode and however many follow: nothing is lost, no flow is reordered, and no frame is
/// missing.
#[test]
fn workers_replace_each_other_under_load() {
    let mut net = Net::new(3, Mode::Adaptive, &OutputConfig::default());
    let moderated = "moderated".parse().unwrap();
    let others = [(1, Mode::Poll), (2, moderated), (3, Mode::Adaptive)];
    for (round, &(workers, mode)) in others.iter().cycle().take(300).enumerate() {
        net.offer(64);
        if round % 3 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        net.replace(workers, mode);
        while net.offered() - net.received > 128 {
            net.collect();
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while net.received < net.offered() {
        assert!(Instant::now() < deadline, "packets are missing");
        net.collect();
    }
    let ports = net.past.ports.iter();
    let counted: u64 = ports.map(|port| port.rx_packets.get()).sum();
    assert!(
        counted > net.offered() / 2,
        "{counted} counted by those gone"
    );
    assert_eq!(
        net.dropped(Reason::QueueFull) + net.dropped(Reason::WorkerRingFull),
        0
    );
    net.stop();
}

/// What waits for its rate goes over too.
#[test]
fn held_packets_go_over_in_order() {
    let output = OutputConfig {
        shaping: Some(Shaping {
            rate: 100_000, // so that some wait even where replacing takes long
            burst: 10_000,
        }),
        ..OutputConfig::default()
    };
    let mut net = Net::new(3, Mode::Adaptive, &output);
    net.offer(900); // more than wait with an owner
    for workers in [2, 1, 3, 2] {
        thread::sleep(Duration::from_millis(2));
        net.replace(workers, Mode::Adaptive);
    }
    while net.collect() > 0 {}
    assert!(net.received < net.offered(), "nothing had to wait");
    let deadline = Instant::now() + PATIENCE;
    while net.received < net.offered() {
        assert!(Instant::now() < deadline, "packets are missing");
        net.collect();
    }
    net.stop();
}

/// One worker that does not answer keeps all others.
#[test]
fn no_worker_ends_before_all_can() {
    let mut net = Net::new(3, Mode::Adaptive, &OutputConfig::default());
    let handover = Arc::new(Handover::new(4)); // one more than there are
    for commands in &net.commands {
        commands.push(Command::HandOver(handover.clone())).unwrap();
    }
    thread::sleep(Duration::from_millis(50));
    net.offer(64);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(net.collect(), 0, "somebody still receives");
    assert!(handover.cancel());
    let deadline = Instant::now() + PATIENCE;
    while net.received < net.offered() {
        assert!(Instant::now() < deadline, "nobody goes on");
        net.collect();
    }
    net.stop();
}
