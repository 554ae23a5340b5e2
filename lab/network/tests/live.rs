//! The tester's ports in the kernel, on a veth pair between two namespaces (as root).

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_linux::netns::Namespace;
use bora_port::{Queue, af_packet};
use bora_tester::analyse::Analyser;
use bora_tester::clock;
use bora_tester::generate::Generator;
use bora_tester::link::Link;
use bora_tester::received::Received;
use bora_tester::schedule::Schedule;
use bora_tester::traffic::{FrameMix, Stream, Traffic};
use bora_tester::trial::TrialSpec;
use bora_tester::xdp::{Receiver, Sender, Sent};
use bora_wire::MacAddr;

/// From the order to send to the first frame, ns.
const LEAD: u64 = 20_000_000;

/// Two hosts and the cable between them.
struct Cable {
    left: Namespace,
    right: Namespace,
}

impl Cable {
    /// `None`, and why, without the right to make namespaces.
    fn new(test: &str) -> Option<Self> {
        let spaces = ["l", "r"].map(|side| Namespace::new(&format!("{test}{side}")));
        let [Ok(left), Ok(right)] = spaces else {
            bora_testing::skip("no network namespaces; run as root");
            return None;
        };
        left.run(&format!(
            "ip link add e0 type veth peer name e0 netns {right}"
        ))
        .unwrap();
        for space in [&left, &right] {
            let quiet = "sysctl -qw net.ipv6.conf.e0.disable_ipv6=1 && ethtool -K e0 gro on";
            space.run(quiet).unwrap();
        }
        // a veth looks at its peer's GRO when it comes up
        for space in [&left, &right] {
            space.run("ip link set e0 mtu 3100 up").unwrap();
        }
        Some(Self { left, right })
    }

    /// Sends; `begin` is told of the start.
    fn send(
        &self,
        traffic: &Traffic,
        rate: f64,
        time: Duration,
        begin: impl FnOnce(u64) + Send,
    ) -> Sent {
        self.try_send(traffic, rate, time, begin).unwrap()
    }

    fn try_send(
        &self,
        traffic: &Traffic,
        rate: f64,
        time: Duration,
        begin: impl FnOnce(u64) + Send,
    ) -> anyhow::Result<Sent> {
        let spec = TrialSpec::steady(Arc::new(traffic.clone()), rate, time);
        let schedule = Schedule::new(&spec).unwrap();
        let index = self.left.ifindex("e0").unwrap();
        let send = || {
            self.left.enter().unwrap();
            let mut sender = Sender::new().unwrap();
            sender.add(index).unwrap();
            let links = vec![link(); traffic.streams.len()];
            sender.prepare(traffic, &[0], &links).unwrap();
            let start = clock::now() + LEAD;
            begin(start);
            sender.run(&schedule, start, &AtomicBool::new(false))
        };
        thread::scope(|scope| scope.spawn(send).join().unwrap())
    }

    fn receiver(&self) -> Receiver {
        let index = self.right.ifindex("e0").unwrap();
        let open = || {
            self.right.enter().unwrap();
            Receiver::new(index).unwrap()
        };
        thread::scope(|scope| scope.spawn(open).join().unwrap())
    }
}

fn link() -> Link {
    Link {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        next_hop: MacAddr([2, 0, 0, 0, 0, 2]),
    }
}

fn stream(v4: bool, flows: u32) -> Stream {
    let addresses = match v4 {
        true => ["198.18.0.2", "198.19.0.2"],
        false => ["2001:2::2", "2001:2:0:1::2"],
    };
    let [source, destination] = addresses.map(|text| text.parse::<IpAddr>().unwrap());
    Stream::new((0, 1), source, destination).with_flows(flows)
}

/// Streams of all kinds in frames of several lengths.
fn mixed() -> Traffic {
    let tagged = Stream {
        vlan: Some((7, 3)),
        weight: 2,
        ..stream(true, 5)
    };
    let elsewhere = Stream {
        to: 0,
        ..stream(true, 1)
    };
    Traffic {
        streams: vec![stream(true, 1), stream(false, 300), tagged, elsewhere],
        frames: FrameMix {
            name: String::from("mixed"),
            lengths: vec![90, 1518, 84, 3000, 90],
        },
    }
}

fn small(flows: u32) -> Traffic {
    Traffic {
        streams: vec![stream(true, flows)],
        frames: FrameMix::of(64),
    }
}

/// Waits until nothing has come for a moment.
fn drained(receiver: &Receiver) -> Received {
    let mut before = receiver.arrived();
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(20));
        let now = receiver.arrived();
        if now == before {
            break;
        }
        before = now;
    }
    receiver.findings().unwrap()
}

#[test]
fn frames_of_all_kinds_arrive_once_in_order_and_in_time() {
    let Some(cable) = Cable::new("mix") else {
        return;
    };
    let mut receiver = cable.receiver();
    // twice, to see that nothing is left of the first time
    for traffic in [mixed(), small(40), mixed()] {
        let reset = |start| receiver.reset(&traffic, 1, start).unwrap();
        let sent = cable.send(&traffic, 20_000.0, Duration::from_millis(200), reset);
        // a busy machine does not come to all of them in time
        let all = sent.streams.iter().sum::<u64>();
        assert!((2000..=4000).contains(&all), "{all}");
        assert_eq!((sent.refused[0], sent.lateness.len()), (0, all));
        let found = drained(&receiver);
        assert_eq!((found.unknown_damaged, found.foreign), (0, 0));
        for (id, findings) in found.streams.iter().enumerate() {
            let here = traffic.streams[id].to == 1;
            let counts = (findings.received, findings.misrouted);
            let count = sent.streams[id];
            assert_eq!(counts, if here { (count, 0) } else { (0, count) }, "{id}");
            let wrong = findings.duplicated + findings.reordered + findings.corrupted;
            assert_eq!((wrong, findings.last_hole), (0, None), "{id}");
            if here {
                assert_eq!((findings.next, findings.latency.len()), (count, count));
                assert!(findings.latency.max() < 1_000_000_000, "{id}");
                let spacing = traffic.streams.len() as u64 * 50_000 + 50_000;
                assert!(findings.longest_gap <= spacing, "{}", findings.longest_gap);
            }
        }
    }
}

#[test]
fn what_the_interface_refuses_is_not_sent() {
    let Some(cable) = Cable::new("full") else {
        return;
    };
    let mut receiver = cable.receiver();
    let mut traffic = small(3);
    // a veth refuses what is longer than its MTU
    traffic.frames.lengths = vec![64, 4 * 800, 64];
    let reset = |start| receiver.reset(&traffic, 1, start).unwrap();
    let sent = cable.send(&traffic, f64::INFINITY, Duration::from_millis(50), reset);
    let found = drained(&receiver);
    let findings = &found.streams[0];
    assert!(
        sent.refused[0] >= sent.streams[0] / 2 - 1,
        "{:?}",
        sent.refused
    );
    assert_eq!(findings.received, sent.streams[0]);
    assert!(findings.received > 1000);
    assert_eq!(
        findings.duplicated + findings.reordered + findings.corrupted,
        0
    );
    // stamped as they leave
    assert!(findings.latency.value_at_quantile(0.5) < 5_000_000);
}

/// Ports of the queues' kind, with their memory.
struct Side {
    region: Arc<Region>,
    pool: Pool,
    queue: Queue,
}

impl Side {
    fn open(space: &Namespace) -> Self {
        space.enter().unwrap();
        let region = Arc::new(Region::new(4096, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let mut queues = af_packet::Queue::open("e0", 1, &region).unwrap();
        let mut queue = Queue::AfPacket(queues.remove(0));
        let mut pool = Pool::new(frames, 4096);
        queue.refill(&mut pool);
        Self {
            region,
            pool,
            queue,
        }
    }

    fn send(&mut self, octets: &[u8]) {
        let frame = self.pool.take().unwrap();
        let mut packet = frame.into_packet(&self.region, octets.len()).unwrap();
        self.region.octets_mut(&mut packet).copy_from_slice(octets);
        let mut packets: Vec<Packet> = vec![packet];
        while self.queue.transmit(&mut packets) == 0 {}
        self.queue.kick();
        self.queue.reclaim(&mut self.pool);
    }
}

#[test]
fn an_interface_that_takes_nothing_is_an_error() {
    let Some(cable) = Cable::new("none") else {
        return;
    };
    cable.left.run("ip link set e0 down").unwrap();
    let traffic = small(1);
    let sent = cable.try_send(&traffic, 1000.0, Duration::from_millis(10), |_| {});
    let error = sent.unwrap_err().to_string();
    assert!(error.contains("XDP frames"), "{error}");
}

#[test]
fn the_analyser_takes_what_the_kernel_stamps() {
    let Some(cable) = Cable::new("stamp") else {
        return;
    };
    let mut traffic = mixed();
    traffic.frames.lengths = vec![90, 1518, 84, 300, 90];
    let (begin, begun) = mpsc::channel();
    let (sent, received) = thread::scope(|scope| {
        let (cable, traffic) = (&cable, &traffic);
        let receiver = scope.spawn(move || {
            let mut side = Side::open(&cable.right);
            let start = begun.recv().unwrap();
            let mut analyser = Analyser::new(traffic, 1, start);
            let (mut packets, mut count, mut last) = (Vec::new(), 0, clock::now());
            // a busy machine may begin late
            while clock::now() < last + if count == 0 { 100 * LEAD } else { 10 * LEAD } {
                side.queue.receive(&mut packets, 64);
                for packet in packets.drain(..) {
                    last = clock::now();
                    count += 1;
                    analyser.receive(side.region.octets(&packet), last);
                    side.pool.give(packet.into_frame(&side.region));
                }
                side.queue.refill(&mut side.pool);
            }
            (analyser.finish(), count)
        });
        let begin = |start| begin.send(start).unwrap();
        let sent = cable.send(traffic, f64::INFINITY, Duration::from_millis(50), begin);
        (sent, receiver.join().unwrap())
    });
    let (found, received) = received;
    // the socket may not keep up, but what it gets is right
    let all: u64 = found.streams.iter().map(|all| all.received).sum();
    let misrouted = found.streams[3].misrouted;
    assert!(
        all > 1000 && all + misrouted == received,
        "{all} {misrouted}"
    );
    assert!(all <= sent.streams.iter().sum());
    assert_eq!((found.unknown_damaged, found.foreign), (0, 0));
    for findings in &found.streams {
        assert_eq!(findings.corrupted + findings.reordered, 0);
    }
}

/// What a bad network makes of some frames.
fn spoiled(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(5);
    let mut out: Vec<Vec<u8>> = Vec::new();
    for frame in frames {
        match random.u32(..20) {
            0 => {}
            1 => out.extend([frame.clone(), frame.clone()]),
            2 => {
                let back = random.usize(..=out.len().min(9));
                out.insert(out.len() - back, frame.clone());
            }
            3 => {
                let mut frame = frame.clone();
                // in the headers behind the Ethernet type, or the signature
                let at = random.usize(16..60);
                frame[at] ^= 1 << random.u32(..8);
                out.push(frame);
            }
            _ => out.push(frame.clone()),
        }
    }
    out
}

#[test]
fn kernel_and_analyser_judge_alike() {
    let Some(cable) = Cable::new("alike") else {
        return;
    };
    let mut receiver = cable.receiver();
    for flows in [1, 7, 5000] {
        let mut traffic = mixed();
        traffic.frames.lengths = vec![90, 400, 84];
        traffic.streams[0].flows = flows;
        let start = clock::now();
        let links = vec![link(); traffic.streams.len()];
        let mut generator = Generator::new(&traffic, 0, &links).unwrap();
        let mut write = |n| {
            let mut frame = vec![0; generator.next_length()];
            generator.write(&mut frame, start + n);
            frame
        };
        let frames: Vec<_> = (0..20_000).map(&mut write).collect();
        let frames = spoiled(&frames);
        let mut analyser = Analyser::new(&traffic, 1, start);
        analyser.set_verify(false);
        receiver.reset(&traffic, 1, start).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut side = Side::open(&cable.left);
                for (n, frame) in frames.iter().enumerate() {
                    side.send(frame);
                    analyser.receive(frame, clock::now());
                    if n % 64 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        });
        let (kernel, analyser) = (drained(&receiver), analyser.finish());
        for (id, (kernel, analyser)) in kernel.streams.iter().zip(&analyser.streams).enumerate() {
            assert_eq!(
                counts(kernel),
                counts(analyser),
                "stream {id}, {flows} flows"
            );
            assert!(kernel.received == 0 || kernel.corrupted > 0);
        }
        assert_eq!(kernel.unknown_damaged, analyser.unknown_damaged);
    }
}

type Counts = ([u64; 8], Option<u64>);

fn counts(findings: &bora_tester::received::StreamReceived) -> Counts {
    let numbers = [
        findings.received,
        findings.duplicated,
        findings.reordered,
        findings.corrupted,
        findings.misrouted,
        findings.latest,
        findings.next,
        findings.longest_gap,
    ];
    (numbers, findings.last_hole)
}

#[test]
fn frames_leave_when_they_are_due() {
    let Some(cable) = Cable::new("pace") else {
        return;
    };
    let mut receiver = cable.receiver();
    let traffic = small(1);
    for rate in [1e3, 1e4, 1e5] {
        // others use the processor, too: one quiet moment is enough, and on a busy machine it is short
        let mut late = (0..600).map(|_| {
            let reset = |start| receiver.reset(&traffic, 1, start).unwrap();
            let sent = cable.send(&traffic, rate, Duration::from_millis(20), reset);
            sent.lateness.value_at_quantile(0.5)
        });
        assert!(late.any(|late| late < 10_000), "at {rate} frames/s");
    }
}
