//! Counts the instructions that kernel, xdp-forward and express take for a packet. `lab/bench/instructions/bench.py` runs it
//! in a guest.
//!
//! Prints a table and writes `target/bench/instructions.json`. `docs/bench-instructions.md` describes the method.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bora_bench::instructions::{self, Plan};
use bora_bench::publish;
use clap::Parser;

/// Counts the instructions of kernel, xdp-forward and express for a packet.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// Rules for the interfaces lan0 and wan0, with a flowtable
    #[arg(long, default_value = "docs/examples/nftables/home.nft")]
    ruleset: PathBuf,
    /// xdp-forward of xdp-tools: the words of its command; left out if there is none
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    xdp_forward: Vec<String>,
    /// Length of one measurement
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS")]
    time: u64,
    /// How far this machine's clock goes in an instruction
    #[arg(long, default_value_t = 1.0, value_name = "NANOSECONDS")]
    instruction: f64,
    /// Measure express alone
    #[arg(long)]
    only_express: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = Plan {
        time: Duration::from_millis(options.time.max(1)),
        instruction: options.instruction,
        only_express: options.only_express,
    };
    let command: Vec<&str> = options.xdp_forward.iter().map(String::as_str).collect();
    let path = &options.ruleset;
    let ruleset = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let rows = instructions::measure(&options.bora.canonicalize()?, &ruleset, &command, plan)?;
    publish("instructions", rows, None)
}
