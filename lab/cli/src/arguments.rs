//! The command line: commands, options, help.

use std::path::PathBuf;

use bora_terminal::Pages;
use clap::{Args, Parser, Subcommand};

/// Show Bora in network namespaces, and repeat the experiments that it comes from
#[derive(Debug, Parser)]
#[command(name = "bora-lab", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Write more to the log
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments of the papers that Bora comes from
    List,
    /// Repeat experiments, and say of each whether it shows what the paper found
    ///
    /// The work is done by the benches, the tester and HERO's simulation, on network namespaces and
    /// in memory.
    Run(LabRunOptions),
    /// Show Bora in three network namespaces: first the kernel forwards, then Bora
    Demo {
        /// Packets a second while Bora is killed and restarted
        #[arg(long, default_value_t = 20_000)]
        rate: u64,
    },
    /// Measure the forwarding table alone, on a table of your choice: look-ups, updates, memory
    ///
    /// Without --table and --kernel, it makes a table with the prefix lengths of the Internet's.
    Fib(FibOptions),
    #[command(flatten)]
    Pages(Pages),
}

#[derive(Debug, Args)]
pub(crate) struct LabRunOptions {
    /// Experiments, such as bianco05/fig4, or papers, such as bianco05 (`bora-lab list`)
    #[arg(
        required_unless_present = "all",
        conflicts_with = "all",
        value_name = "NAME"
    )]
    pub(crate) names: Vec<String>,
    /// All experiments of all papers
    #[arg(long)]
    pub(crate) all: bool,
    /// As many rounds as published figures need: an hour rather than minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// A minute for each piece of work; so it is if nothing is said
    #[arg(long, conflicts_with = "full")]
    pub(crate) short: bool,
    /// A port of the tester, twice: the router between them is tested instead of those of the lab
    ///
    /// As for `bora-test run`. Only experiments that test a router from outside take them.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    /// Where to write papers.md, and a page for each experiment
    #[arg(short, long, value_name = "DIRECTORY")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct FibOptions {
    /// A file of lines `PREFIX/LENGTH NEXTHOP`, perhaps compressed (.xz); repeat it for IPv6
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub(crate) table: Vec<PathBuf>,
    /// Take Linux's routes
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Seed of the made-up table
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
