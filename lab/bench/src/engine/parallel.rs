//! Two workers in one process against two processes with one each: what sharing costs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use bora_fib_bench::run::Observer;
use bora_worker::QUOTA;

use super::throughput::{ends, replay};
use super::{Plan, Section, middle};
use crate::ends;
use crate::machine::{self, Job, Memory, Port, Running, Settings, Tables};
use crate::packets;
use crate::trip::{self, CORES};
use bora_fib_bench::report::Report;

const RATE: (&str, &str) = ("packets per CPU-second", "1/s");
const CASE: &str = "1 route, 8192 flows each";
const FLOWS: u32 = 8192;
const SHARED: &str = "two workers, one process";
const APART: &str = "two processes";
const ALONE: &str = "one worker alone, twice";
/// Aim: lowest rate, relative to two processes.
const AIM: f64 = 0.97;
/// Measurements are shorter than elsewhere by this factor,
const SHORTER: u32 = 2;
/// and more by this one.
const MORE: usize = 4;
/// Expected packets per second, from which the number of packets of a measurement follows.
const EXPECTED: f64 = 30e6;

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a second process cannot be started.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("Two workers");
    if std::thread::available_parallelism()?.get() < CORES.len() {
        section.notes.push("Skipped: there is one CPU only.".into());
        return Ok(section);
    }
    // many short measurements, because the difference is small
    let (rounds, time) = (plan.rounds * MORE, plan.time / SHORTER);
    let count = (time.as_secs_f64() * EXPECTED) as u64;
    let mut report = Report::default();
    let mut ratios = vec![];
    for round in 1..=rounds {
        eprintln!("parallel: round {round} of {rounds}");
        let alone = CORES.iter().map(|&core| alone(core, count));
        let alone: f64 = alone.sum::<anyhow::Result<f64>>()?;
        // alternate the order, so that a long disturbance affects both
        let (together, apart) = if round % 2 == 0 {
            let together = shared(count)?;
            (together, processes(count)?)
        } else {
            let apart = processes(count)?;
            (shared(count)?, apart)
        };
        for (subject, rate) in [(SHARED, together), (APART, apart), (ALONE, alone)] {
            report.sample(RATE, CASE, subject, rate);
        }
        let cost = ends(QUOTA as usize, &packets::flows(FLOWS, 0, 0), count)?;
        report.sample(RATE, CASE, ends::ALONE, CORES.len() as f64 * 1e9 / cost);
        ratios.push(together / apart);
        report.sample(trip::METRIC, trip::CASE, trip::SUBJECT, trip::measure()?);
    }
    section.notes.push(format!(
        "Each worker moves {count} packets on a CPU of its own; sums of the rates of both."
    ));
    section.rows = report.rows(APART);
    let ratio = middle(&ratios);
    section.aim(
        ratio >= AIM,
        format!("two workers in one process at least {AIM} of two processes: {ratio:.3}"),
    );
    Ok(section)
}

fn job(tables: &Tables, memory: &Memory, core: usize, count: u64) -> anyhow::Result<Job> {
    let traffic = packets::flows(FLOWS, 0, 0);
    let (queue, _) = replay(memory, &traffic, count)?;
    let settings = Settings {
        core: Some(core),
        ..Settings::default()
    };
    machine::worker(tables, memory, &settings, vec![Port::from(queue)])
}

/// Packets per CPU-second of one worker.
///
/// # Errors
/// A packet was lost without being counted.
pub fn alone(core: usize, count: u64) -> anyhow::Result<f64> {
    let (tables, memory) = (Tables::default_route(0)?, Memory::new(1)?);
    let running = job(&tables, &memory, core, count)?.start(machine::soon())?;
    let outcome = running.stop()?;
    ensure!(outcome.sent == count, "{count} packets in: {outcome:?}");
    Ok(outcome.rate())
}

fn shared(count: u64) -> anyhow::Result<f64> {
    let (tables, memory) = (Tables::default_route(0)?, Memory::new(2)?);
    let jobs = CORES.iter().map(|&core| job(&tables, &memory, core, count));
    let jobs: Vec<Job> = jobs.collect::<Result<_, _>>()?;
    let start = machine::soon();
    let running = jobs.into_iter().map(|job| job.start(start));
    let running: Vec<_> = running.collect::<Result<_, _>>()?;
    // tell all at once, so that one that is done does not go on polling
    running.iter().try_for_each(Running::tell)?;
    let mut sum = 0.0;
    for running in running {
        let outcome = running.finish()?;
        ensure!(outcome.sent == count, "{count} packets in: {outcome:?}");
        sum += outcome.rate();
    }
    Ok(sum)
}

/// The sum of the rates of two processes.
fn processes(count: u64) -> anyhow::Result<f64> {
    let program = std::env::current_exe()?;
    let start = |core: &usize| -> anyhow::Result<Child> {
        Command::new(&program)
            .args(["alone", &core.to_string(), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a second process")
    };
    let mut children: Vec<Child> = CORES.iter().map(start).collect::<Result<_, _>>()?;
    let mut outputs: Vec<_> = children
        .iter_mut()
        .filter_map(|child| child.stdout.take().map(BufReader::new))
        .collect();
    let mut line = String::new();
    for output in &mut outputs {
        output.read_line(&mut line)?;
    }
    for child in &mut children {
        let mut input = child.stdin.take().context("a pipe")?;
        input.write_all(b"\n")?;
    }
    let mut sum = 0.0;
    for (output, child) in outputs.iter_mut().zip(&mut children) {
        line.clear();
        output.read_line(&mut line)?;
        ensure!(child.wait()?.success(), "the second process failed");
        sum += line.trim().parse::<f64>().with_context(|| line.clone())?;
    }
    Ok(sum)
}

/// The child's side of [`processes`]: prints that it is ready, waits for a line, runs, and prints
/// the rate.
///
/// # Errors
/// A packet was lost without being counted.
pub fn answer(core: usize, count: u64) -> anyhow::Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    println!("{}", alone(core, count)?);
    Ok(())
}
