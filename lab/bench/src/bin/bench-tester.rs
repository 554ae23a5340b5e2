//! Measures how the tester sends: rate per core beside DPDK's testpmd, and pacing.
#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bora_bench::engine::{Plan, Section, publish};
use bora_bench::tester::{memif, pacing, veth};
use clap::{Parser, ValueEnum};

/// Measures how the tester sends.
#[derive(Parser)]
struct Options {
    /// What to measure; everything if nothing is named
    #[arg(value_enum)]
    what: Vec<Benchmark>,
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "5", value_name = "COUNT")]
    rounds: NonZeroUsize,
    /// Length of one measurement
    #[arg(long, default_value_t = 500, value_name = "MILLISECONDS")]
    time: u64,
    /// Replace the generated part of this Markdown document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Benchmark {
    /// Rate on memif beside DPDK's testpmd
    Memif,
    /// Rate on veth beside testpmd and what the kernel offers
    Veth,
    /// How precisely each way to send keeps its rate
    Pacing,
}

impl Benchmark {
    fn run(self, plan: Plan) -> anyhow::Result<Section> {
        match self {
            Self::Memif => memif::run(plan),
            Self::Veth => veth::run(plan),
            Self::Pacing => pacing::run(plan),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = Plan {
        rounds: options.rounds.get(),
        time: Duration::from_millis(options.time.max(1)),
    };
    let chosen = |it: &&Benchmark| options.what.is_empty() || options.what.contains(it);
    let mut sections = vec![];
    for benchmark in Benchmark::value_variants().iter().filter(chosen) {
        sections.push(benchmark.run(plan)?);
    }
    publish("tester", plan, sections, options.document.as_deref())
}
