//! The tester on memif beside testpmd's `txonly` and `flowgen`, into the same receiver.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bora_buffer::{MAX_BATCH, Pool, Region, SharedFrames};
use bora_port::Queue;
use bora_port::memif::{Port, Role};
use bora_tester::ports::Kind;

use super::{
    BATCH, CORES, FRAME, MANY, MANY_FLOWS, ONE_FLOW, Sample, Samples, Socket, patiently, pin, port,
    send, socket, watch,
};
use crate::cpu::Usage;
use crate::ends;
use crate::engine::light::{Light, Task};
use crate::engine::memif::{HUGE, LOG2_RING, config, free_huge_pages};
use crate::engine::testpmd::{self, Device, Options, Testpmd};
use crate::engine::{Plan, Section};

/// The sender.
#[derive(Clone, Copy)]
enum Subject {
    Bora {
        flows: u32,
    },
    Testpmd {
        mode: &'static str,
        zero_copy: bool,
    },
    /// Descriptors alone: what the receiver takes at most.
    Light,
}

/// The receiver's memif and the memory its packets are in.
struct Drain {
    /// Kept, because the link goes down when it is dropped.
    _port: Port,
    queue: Queue,
    pool: Pool,
    region: Arc<Region>,
}

/// Packets received so far.
#[derive(Default)]
struct Received {
    packets: AtomicU64,
    octets: AtomicU64,
    stop: AtomicBool,
}

impl Drain {
    fn open(socket: &Path) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(8192, 2048)?);
        let frames = SharedFrames::of_new_region(&region);
        let (port, mut queues) = Port::open(config(Role::Server, socket), region.clone())?;
        let queue = queues.pop().context("a queue")?;
        Ok(Self {
            _port: port,
            queue: Queue::Memif(queue),
            pool: Pool::new(frames, 4096),
            region,
        })
    }

    /// Receives and counts packets until it is told to stop.
    fn run(mut self, received: &Received) {
        let mut packets = Vec::with_capacity(MAX_BATCH);
        while !received.stop.load(Ordering::Relaxed) {
            self.queue.refill(&mut self.pool);
            let count = self.queue.receive(&mut packets, MAX_BATCH);
            let octets: usize = packets.iter().map(|it| self.region.octets(it).len()).sum();
            for packet in packets.drain(..) {
                self.pool.give(packet.into_frame(&self.region));
            }
            received.packets.fetch_add(count as u64, Ordering::Relaxed);
            received.octets.fetch_add(octets as u64, Ordering::Relaxed);
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
/// testpmd fails, or packets do not flow.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("memif");
    let mut subjects = subjects();
    if !testpmd::is_there() {
        let note = "testpmd is left out: it is not installed (`scripts/deps-bench`).";
        section.notes.push(note.into());
        subjects.retain(|(.., subject)| !matches!(subject, Subject::Testpmd { .. }));
    } else if free_huge_pages()? < HUGE {
        let note = "testpmd with zero-copy is left out: no huge pages.";
        section.notes.push(note.into());
        let takes_huge =
            |subject: &_| matches!(subject, Subject::Testpmd { zero_copy, .. } if *zero_copy);
        subjects.retain(|(.., subject)| !takes_huge(subject));
    }
    let mut samples = Samples::default();
    let mut sockets = 0;
    for round in 1..=plan.rounds {
        eprintln!("memif: round {round} of {}", plan.rounds);
        for &(case, name, subject) in &subjects {
            let sample = patiently(name, || {
                sockets += 1;
                measure(subject, &socket(sockets), plan.time)
            });
            samples.add(case, name, sample?);
        }
        let limit = patiently(ends::ALONE, || {
            sockets += 1;
            measure(Subject::Light, &socket(sockets), plan.time)
        })?;
        for case in [ONE_FLOW, MANY_FLOWS] {
            samples.rates.add(case, ends::ALONE, limit.rate);
        }
    }
    samples.publish(&mut section, "bora");
    Ok(section)
}

fn subjects() -> Vec<(&'static str, &'static str, Subject)> {
    let testpmd = |mode, zero_copy| Subject::Testpmd { mode, zero_copy };
    vec![
        (ONE_FLOW, "bora", Subject::Bora { flows: 1 }),
        (ONE_FLOW, "testpmd", testpmd("txonly", false)),
        (ONE_FLOW, "testpmd, zero-copy", testpmd("txonly", true)),
        (MANY_FLOWS, "bora", Subject::Bora { flows: MANY }),
        (MANY_FLOWS, "testpmd", testpmd("flowgen", false)),
        (MANY_FLOWS, "testpmd, zero-copy", testpmd("flowgen", true)),
    ]
}

fn measure(subject: Subject, socket: &Path, time: Duration) -> anyhow::Result<Sample> {
    let _socket = Socket(socket);
    let drain = Drain::open(socket)?;
    let received = &Received::default();
    let (sender, id) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(None, CORES[1]);
            let _ = sender.send(super::thread_id());
            drain.run(received);
        });
        let receiver = id.recv().context("the receiver")?;
        let count = || Ok(received.packets.load(Ordering::Relaxed));
        let sample = receiver.and_then(|receiver| match subject {
            Subject::Bora { flows } => {
                let kind = Kind::memif(socket.into(), Role::Client);
                let others = || Ok(Usage::of(std::process::id(), receiver)?.ran);
                send(port(kind, None, CORES[0]), flows, time, &count, &others)
            }
            Subject::Light => {
                let _light = Light::start(Task::Generate, Role::Client, socket, CORES[0])?;
                // only the rate says something here
                watch(time, &count, &Usage::of_this_thread)
            }
            Subject::Testpmd { mode, zero_copy } => {
                let device = Device::Memif {
                    role: "client",
                    socket,
                    zero_copy,
                };
                with_testpmd(mode, device, time, &count)
            }
        });
        received.stop.store(true, Ordering::Relaxed);
        let octets = received.octets.load(Ordering::Relaxed) as f64;
        let length = octets / count()?.max(1) as f64;
        super::same_length(length)?;
        sample
    })
}

/// Measures testpmd on one port at full speed.
pub(super) fn with_testpmd(
    mode: &str,
    device: Device<'_>,
    time: Duration,
    count: &dyn Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<Sample> {
    // only flowgen's length includes the FCS
    let length = match mode {
        "flowgen" => format!("--txpkts={FRAME}"),
        _ => format!("--txpkts={}", FRAME - 4),
    };
    let flows = format!("--flowgen-flows={MANY}");
    let testpmd = Testpmd::start(Options {
        name: "sender",
        root: None,
        core: CORES[0],
        device,
        log2_ring_size: LOG2_RING,
        mode,
        burst: BATCH,
        huge: matches!(
            device,
            Device::Memif {
                zero_copy: true,
                ..
            }
        ),
        more: &[&length, &flows],
    })?;
    let (process, thread) = testpmd.thread()?;
    watch(time, count, &|| Usage::of(process, thread))
}
