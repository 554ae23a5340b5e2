//! Measures Bora beside the routers that Debian packages; `scripts/bench-peers` sets them up.
//!
//! Prints a table and writes `target/bench/peers.json`. `docs/bench-peers.md` describes the method.
#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bora_bench::engine::Plan;
use bora_bench::peers::{self, Root};
use bora_bench::publish;
use clap::{Parser, ValueEnum};

/// Measures Bora beside l3fwd, testpmd and xdp-forward.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// What to measure; both if nothing is named
    #[arg(value_enum)]
    what: Vec<Part>,
    /// Folder of the Debian that has them
    #[arg(long, value_name = "DIRECTORY")]
    root: PathBuf,
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "5", value_name = "COUNT")]
    rounds: NonZeroUsize,
    /// Length of one measurement by memif
    #[arg(long, default_value_t = 500, value_name = "MILLISECONDS")]
    time: u64,
    /// Replace the generated part of this Markdown document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// l3fwd and testpmd by memif
    Memif,
    /// xdp-forward and testpmd on veth
    Veth,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = Plan {
        rounds: options.rounds.get(),
        time: Duration::from_millis(options.time.max(1)),
    };
    let root = Root::new(&options.root)?;
    let chosen = |part| options.what.is_empty() || options.what.contains(&part);
    let mut rows = vec![];
    if chosen(Part::Memif) {
        rows.extend(peers::memif(&root, plan)?);
    }
    if chosen(Part::Veth) {
        rows.extend(peers::veth(&root, &options.bora.canonicalize()?, plan)?);
    }
    publish("peers", rows, options.document.as_deref())
}
