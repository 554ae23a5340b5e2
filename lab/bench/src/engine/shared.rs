//! Two workers with a queue each, and the same behind one lock: KTH08, Fig. 12; Bolla08, Fig. 4.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bora_apparatus::{SinkCounter, locked};
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_port::Queue;
use bora_worker::QUOTA;

use super::throughput::{ends, replay};
use super::{Plan, Section};
use crate::ends;
use crate::machine::{self, Memory, Port, Running, Settings, Tables};
use crate::packets::{self, FRAME};

const RATE: (&str, &str) = ("packets per second", "1/s");
/// CPUs of the two.
const CORES: [usize; 2] = [0, 1];
/// Packets a second expected, to say how many a measurement takes.
const EXPECTED: f64 = 20e6;
/// Workers of each case.
const CASES: [(&str, u32); 2] = [("one worker", 1), ("two workers", 2)];
/// Flows of each worker.
const FLOWS: u32 = 8192;
/// How often it is looked whether all packets are through.
const LOOK: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, PartialEq)]
enum Queues {
    /// Each worker has its own.
    Own,
    /// A receive ring each; what they send goes out by one queue.
    OneOutput,
    /// Both receive from one ring and send by it.
    OneRing,
}

const SUBJECTS: [(&str, Queues); 3] = [
    ("a queue each", Queues::Own),
    ("one locked queue", Queues::OneOutput),
    ("one locked ring", Queues::OneRing),
];

/// Runs it.
///
/// # Errors
/// A packet was lost without a name.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("Shared queues");
    if thread::available_parallelism()?.get() < CORES.len() {
        section.notes.push("Skipped: there is one CPU only.".into());
        return Ok(section);
    }
    let count = (plan.time.as_secs_f64() * EXPECTED) as u64;
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("shared: round {round} of {}", plan.rounds);
        for (name, queues) in SUBJECTS {
            for (case, workers) in CASES {
                report.sample(RATE, case, name, rate(queues, workers as usize, count)?);
            }
        }
        let cost = ends(QUOTA as usize, &packets::flows(FLOWS, 0, 0), count)?;
        for (case, workers) in CASES {
            report.sample(RATE, case, ends::ALONE, f64::from(workers) * 1e9 / cost);
        }
    }
    section.notes.push(format!(
        "{count} packets for each worker, in the time until the last one is through. The locks are \
         taken for each packet, as Linux 2.6 did."
    ));
    section.rows = report.rows(SUBJECTS[0].0);
    Ok(section)
}

/// Packets a second of all workers together.
fn rate(queues: Queues, workers: usize, count: u64) -> anyhow::Result<f64> {
    let output = u16::from(queues == Queues::OneOutput);
    let (tables, memory) = (Tables::default_route(output)?, Memory::new(workers as u32)?);
    let (ports, counters) = ports(queues, &memory, workers, count)?;
    let jobs = ports.into_iter().zip(CORES).map(|(ports, core)| {
        let settings = Settings {
            core: Some(core),
            ..Settings::default()
        };
        machine::worker(&tables, &memory, &settings, ports)
    });
    let jobs = jobs.collect::<anyhow::Result<Vec<_>>>()?;
    let start = machine::soon();
    let running = jobs.into_iter().map(|job| job.start(start));
    let running: Vec<_> = running.collect::<Result<_, _>>()?;
    let all = workers as u64 * count;
    let done = |counters: &[SinkCounter]| counters.iter().map(SinkCounter::packets).sum::<u64>();
    // far longer than any subject takes
    let end = start + Duration::from_secs(20 + count / 100_000);
    while done(&counters) < all && Instant::now() < end {
        thread::sleep(LOOK);
    }
    let time = start.elapsed();
    running.iter().try_for_each(Running::tell)?;
    for running in running {
        running.finish()?;
    }
    ensure!(
        done(&counters) == all,
        "{} of {all} packets are through",
        done(&counters)
    );
    Ok(all as f64 / time.as_secs_f64())
}

/// The ports of each worker, and what counts what they send.
fn ports(
    queues: Queues,
    memory: &Memory,
    workers: usize,
    count: u64,
) -> anyhow::Result<(Vec<Vec<Port>>, Vec<SinkCounter>)> {
    let traffic: Vec<[u8; FRAME]> = packets::flows(FLOWS, 0, 0);
    let mut counters = Vec::new();
    let mut replay = |count| {
        let (queue, counter) = replay(memory, &traffic, count)?;
        counters.push(counter);
        anyhow::Ok(queue)
    };
    let ports: Vec<Vec<Queue>> = match queues {
        Queues::Own => {
            let own = (0..workers).map(|_| Ok(vec![replay(count)?]));
            own.collect::<anyhow::Result<_>>()?
        }
        Queues::OneOutput => {
            let outputs = locked(replay(0)?, workers);
            let both = outputs
                .into_iter()
                .map(|output| Ok(vec![replay(count)?, output]));
            both.collect::<anyhow::Result<_>>()?
        }
        Queues::OneRing => {
            let ring = locked(replay(workers as u64 * count)?, workers);
            ring.into_iter().map(|queue| vec![queue]).collect()
        }
    };
    let ports = ports.into_iter();
    let ports = ports.map(|queues| queues.into_iter().map(Port::from).collect());
    Ok((ports.collect(), counters))
}
