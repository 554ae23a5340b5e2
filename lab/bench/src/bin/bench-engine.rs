//! Measures the engine: its loop, two workers, memif beside DPDK, overload, fairness, priorities,
//! latency, and how much CPU time it leaves to services.
//!
//! Prints tables, writes `target/bench/engine.json` and, on request, a plot and the generated part
//! of a document. `docs/bench-engine.md` describes the method.
#![forbid(unsafe_code)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bora_bench::chart::Panel;
use bora_bench::engine::{
    Plan, Section, fairness, inputs, latency, memif, memif_alone, overload, parallel, ports,
    priority, publish, services, shared, stages, throughput,
};
use bora_tester::report::svg::sheet;
use clap::{Parser, Subcommand, ValueEnum};

/// Measures the engine.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// What to measure; everything if nothing is named
    #[arg(value_enum)]
    what: Vec<Benchmark>,
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "7", value_name = "COUNT")]
    rounds: NonZeroUsize,
    /// Length of one measurement
    #[arg(long, default_value_t = 200, value_name = "MILLISECONDS")]
    time: u64,
    /// Run only the cases of the loop on memory ports that have this in their names; for profiles
    #[arg(long, default_value = "", value_name = "TEXT")]
    case: String,
    /// Plot overload and priorities to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Replace the generated part of this Markdown document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run one worker for a measuring parent process
    #[command(hide = true)]
    Alone { core: usize, count: u64 },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Benchmark {
    /// The loop on memory ports
    Throughput,
    /// VLAN devices, macvlans and tunnels beside a plain port
    Inputs,
    /// Where a packet's time goes
    Stages,
    /// More and more ports of one worker
    Ports,
    /// Two workers against two processes
    Parallel,
    /// Queues of their own against queues that workers share
    Shared,
    /// memif beside DPDK's testpmd
    Memif,
    /// Both ends of a memif in one thread
    MemifAlone,
    /// Goodput under overload
    Overload,
    /// Shares of two inputs
    Fairness,
    /// Two priorities at a full output
    Priority,
    /// Latency by mode and load
    Latency,
    /// What services get beside a worker
    Services,
}

impl Benchmark {
    fn run(self, plan: Plan, case: &str) -> anyhow::Result<Section> {
        match self {
            Self::Throughput => throughput::run(plan, case),
            Self::Inputs => inputs::run(plan, case),
            Self::Stages => stages::run(plan),
            Self::Ports => ports::run(plan),
            Self::Parallel => parallel::run(plan),
            Self::Shared => shared::run(plan),
            Self::Memif => memif::run(plan),
            Self::MemifAlone => memif_alone::run(plan),
            Self::Overload => overload::run(plan),
            Self::Fairness => fairness::run(plan),
            Self::Priority => priority::run(plan),
            Self::Latency => latency::run(plan),
            Self::Services => services::run(plan),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(Command::Alone { core, count }) = options.command {
        return parallel::answer(core, count);
    }
    let plan = Plan {
        rounds: options.rounds.get(),
        time: Duration::from_millis(options.time.max(1)),
    };
    let chosen =
        |benchmark: &&Benchmark| options.what.is_empty() || options.what.contains(benchmark);
    let mut sections = vec![];
    for benchmark in Benchmark::value_variants().iter().filter(chosen) {
        sections.push(benchmark.run(plan, &options.case)?);
    }
    let panels = sections.iter().flat_map(|section| &section.panels);
    let plots: Vec<_> = panels.map(Panel::plot).collect();
    publish("engine", plan, sections, options.document.as_deref())?;
    if let Some(path) = &options.plot {
        fs::write(path, sheet("The engine under load", &plots))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}
