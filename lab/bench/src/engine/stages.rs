//! Where a packet's time goes: the worker's own profile (KTH08, Fig. 9; Bianco05's cost a packet).

use std::time::Duration;

use anyhow::ensure;
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_forward::Stage;
use bora_worker::QUOTA;

use super::throughput::{ends, replay};
use super::{Plan, Section};
use crate::ends;
use crate::machine::{self, Memory, Port, Settings, Tables};
use crate::packets;

const COST: (&str, &str) = ("time a packet", "ns");
const CASE: &str = "stage";
const ALL: &str = "all stages";
const FLOWS: u32 = 8192;
/// Packets a second expected, to say how many a measurement takes.
const EXPECTED: f64 = 20e6;
/// Far longer than a measurement takes.
const LONG: Duration = Duration::from_secs(60);

/// Runs it.
///
/// # Errors
/// A packet was lost without a name.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let count = (plan.time.as_secs_f64() * EXPECTED) as u64;
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("stages: round {round} of {}", plan.rounds);
        let costs = measure(count)?;
        for (stage, cost) in Stage::ALL.iter().zip(&costs) {
            report.sample(COST, CASE, stage.name(), *cost);
        }
        report.sample(COST, ALL, "all", costs.iter().sum());
        let traffic = packets::flows(FLOWS, 0, 0);
        report.sample(
            COST,
            ALL,
            ends::ALONE,
            ends(QUOTA as usize, &traffic, count)?,
        );
    }
    let mut section = Section::new("Stages");
    section.notes.push(format!(
        "{count} packets a measurement, {FLOWS} flows, one route, no rules; as `bora profile` measures, less \
         what the clock itself takes."
    ));
    section.rows = report.rows("all");
    Ok(section)
}

/// Nanoseconds a packet of each stage.
fn measure(count: u64) -> anyhow::Result<Vec<f64>> {
    let (tables, memory) = (Tables::default_route(0)?, Memory::new(1)?);
    let (queue, _) = replay(&memory, &packets::flows(FLOWS, 0, 0), count)?;
    let ports = vec![Port::from(queue)];
    let job = machine::worker(&tables, &memory, &Settings::default(), ports)?;
    job.profile(LONG)?;
    let outcome = job.start(machine::soon())?.stop()?;
    ensure!(outcome.sent == count, "{count} packets in: {outcome:?}");
    let cost = |nanoseconds: &u64| *nanoseconds as f64 / count as f64;
    Ok(outcome.stages.iter().map(cost).collect())
}
