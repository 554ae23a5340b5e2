//! Measures UDP flows through masquerade and DNAT: nftables, Linux's flowtable, xdp-forward and Bora. `lab/bench/nat/bench.py`
//! runs it in a guest.
//!
//! Prints a table and writes `target/bench/nat.json`. `docs/bench-nat.md` describes the method.
#![forbid(unsafe_code)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bora_bench::nat::{self, FLOWS, Plan};
use bora_bench::publish;
use clap::Parser;

/// Measures nftables, Linux's flowtable, xdp-forward and Bora with the same flows.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// Rules for the interfaces lan0 and wan0, with a flowtable
    #[arg(long, default_value = "docs/examples/nftables/home.nft")]
    ruleset: PathBuf,
    /// xdp-forward of xdp-tools 1.6: the words of its command; left out if there is none
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    xdp_forward: Vec<String>,
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "5", value_name = "COUNT")]
    rounds: NonZeroUsize,
    /// Length of one measurement
    #[arg(long, default_value_t = 400, value_name = "MILLISECONDS")]
    time: u64,
    /// How far this machine's clock goes in an instruction
    #[arg(long, default_value_t = 8.0, value_name = "NANOSECONDS")]
    instruction: f64,
    /// Numbers of flows
    #[arg(long, value_delimiter = ',', default_value = "1,100,8192", value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS)))]
    flows: Vec<u32>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = Plan {
        rounds: options.rounds.get(),
        time: Duration::from_millis(options.time.max(1)),
        instruction: options.instruction,
        flows: options.flows,
    };
    let path = &options.ruleset;
    let ruleset = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let command: Vec<&str> = options.xdp_forward.iter().map(String::as_str).collect();
    let rows = nat::measure(&options.bora.canonicalize()?, &ruleset, &command, &plan)?;
    publish("nat", rows, None)
}
