//! The generator on memif beside testpmd's `txonly` and `flowgen`, into the same receiver.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_port::Queue;
use bora_port::memif::{Config, Port, Role};
use bora_tester::clock;
use bora_tester::generate::Generator;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{link, traffic};
use crate::Results;
use crate::cpu::Usage;
use crate::engine::testpmd::{self, Options, Testpmd};
use crate::engine::{Plan, Section};

const LOG2_RING: u8 = 10;
const BATCH: usize = 64;
const SETTLE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);
/// CPU of the sender, and of the receiver.
const CORES: [usize; 2] = [0, 1];

/// A memif and the memory its packets are in.
struct Side {
    /// Only kept: the link goes down with it.
    _port: Port,
    queue: Queue,
    pool: Pool,
    region: Arc<Region>,
}

impl Side {
    fn open(role: Role, socket: &Path) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(8192, 2048)?);
        let frames = SharedFrames::of_new_region(&region);
        let config = Config {
            role,
            socket: socket.into(),
            id: 0,
            secret: String::new(),
            name: "bora".into(),
            queues: 1,
            log2_ring_size: LOG2_RING,
            unsealed_regions: true,
        };
        let (port, mut queues) = Port::open(config, region.clone())?;
        let queue = queues.pop().context("a queue")?;
        Ok(Self {
            _port: port,
            queue: Queue::Memif(queue),
            pool: Pool::new(frames, 4096),
            region,
        })
    }

    /// Takes what comes until told to stop, and counts it.
    fn drain(&mut self, count: &AtomicU64, stop: &AtomicBool) {
        let mut packets = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.queue.refill(&mut self.pool);
            let received = self.queue.receive(&mut packets, MAX_BATCH);
            count.fetch_add(received as u64, Ordering::Relaxed);
            for packet in packets.drain(..) {
                self.pool.give(packet.into_frame(&self.region));
            }
        }
    }

    /// Sends as fast as it goes until told to stop.
    fn generate(&mut self, generator: &mut Generator, stop: &AtomicBool) {
        let mut packets: Vec<Packet> = Vec::with_capacity(BATCH);
        while !stop.load(Ordering::Relaxed) {
            self.queue.refill(&mut self.pool);
            self.queue.reclaim(&mut self.pool);
            let now = clock::now();
            while packets.len() < BATCH {
                let Some(frame) = self.pool.take() else { break };
                match frame.into_packet(&self.region, generator.next_length()) {
                    Ok(mut packet) => {
                        generator.write(self.region.octets_mut(&mut packet), now);
                        packets.push(packet);
                    }
                    Err(frame) => self.pool.give(frame),
                }
            }
            self.queue.transmit(&mut packets);
            self.queue.kick();
        }
    }
}

/// Runs it.
///
/// # Errors
/// testpmd fails, or packets do not flow.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("memif");
    let subjects: &[(&str, Option<&str>, u32)] = &[
        ("bora, 1 flow", None, 1),
        ("bora, 1024 flows", None, 1024),
        ("txonly", Some("txonly"), 1),
        ("flowgen", Some("flowgen"), 1024),
    ];
    let (mut rates, mut cores) = (Results::default(), Results::default());
    let mut sockets = 0;
    for round in 1..=plan.rounds {
        eprintln!("memif: round {round} of {}", plan.rounds);
        for (name, mode, flows) in subjects {
            if mode.is_some() && !testpmd::is_there() {
                continue;
            }
            sockets += 1;
            let name_of_socket = format!("bora-bench-tester-{}-{sockets}", std::process::id());
            let socket = std::env::temp_dir().join(name_of_socket);
            let measured = once(*mode, *flows, &socket, plan.time);
            let _ = std::fs::remove_file(&socket);
            let (rate, core) = measured.with_context(|| (*name).to_owned())?;
            rates.add("64 B", name, rate);
            cores.add("64 B", name, core);
        }
    }
    section.rows = rates.rows("throughput", "packets/s", "txonly");
    section
        .rows
        .extend(cores.rows("packets per CPU-second of the sender", "1/s", "txonly"));
    Ok(section)
}

/// Packets a second received, and for each second that the sender's thread ran.
fn once(
    mode: Option<&str>,
    flows: u32,
    socket: &Path,
    time: Duration,
) -> anyhow::Result<(f64, f64)> {
    let mut receiver = Side::open(Role::Server, socket)?;
    let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(CORES[1]);
            receiver.drain(&count, &stop);
        });
        let measured = match mode {
            Some(mode) => with_testpmd(mode, socket, time, &count),
            None => with_bora(flows, socket, time, &count),
        };
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

fn with_testpmd(
    mode: &str,
    socket: &Path,
    time: Duration,
    count: &AtomicU64,
) -> anyhow::Result<(f64, f64)> {
    let testpmd = Testpmd::start(Options {
        name: "generator",
        core: CORES[0],
        role: "client",
        socket,
        log2_ring_size: LOG2_RING,
        zero_copy: false,
        mode,
        burst: BATCH as u32,
    })?;
    let (process, thread) = testpmd.thread()?;
    wait_for(count)?;
    measure(process, thread, time, count)
}

fn with_bora(
    flows: u32,
    socket: &Path,
    time: Duration,
    count: &AtomicU64,
) -> anyhow::Result<(f64, f64)> {
    let mut generator = Generator::new(&traffic(flows), 0, &[link()])?;
    let mut sender = Side::open(Role::Client, socket)?;
    let stop = &AtomicBool::new(false);
    let (thread_id, id) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            pin(CORES[0]);
            let _ = thread_id.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
            sender.generate(&mut generator, stop);
        });
        let thread = id.recv().context("the generator's thread")?;
        let measured =
            wait_for(count).and_then(|()| measure(std::process::id(), thread, time, count));
        stop.store(true, Ordering::Relaxed);
        worker.join().map_err(|_| anyhow!("the generator failed"))?;
        measured
    })
}

/// What a sending thread does in a time; its own time is as old as the scheduler's last tick.
fn measure(
    process: u32,
    thread: u32,
    time: Duration,
    count: &AtomicU64,
) -> anyhow::Result<(f64, f64)> {
    let (start, before) = (Instant::now(), count.load(Ordering::Relaxed));
    let used = Usage::of(process, thread)?;
    thread::sleep(time);
    let used = Usage::of(process, thread)?.since(used).ran;
    let packets = (count.load(Ordering::Relaxed) - before) as f64;
    let rate = packets / start.elapsed().as_secs_f64();
    Ok((rate, packets / used.as_secs_f64()))
}

fn wait_for(count: &AtomicU64) -> anyhow::Result<()> {
    let start = Instant::now();
    while count.load(Ordering::Relaxed) == 0 {
        ensure!(start.elapsed() < PATIENCE, "no packets came");
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(SETTLE);
    Ok(())
}

fn pin(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    // best effort: without it the measurement is only noisier
    let _ = sched_setaffinity(None, &cpus);
}
