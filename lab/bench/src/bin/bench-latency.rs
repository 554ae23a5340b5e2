//! Latency through a router on two veth pairs: the kernel, express, and the engine in each mode.
//!
//! Each subject's own capacity is measured first; then it gets half and nine tenths of that, and a
//! rate that is the same for all: half of what the engine forwards ([`RATED`]). The sender stamps each packet with the time at which it is due to leave, and the receiver's XDP
//! program reads the stamp.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bora_bench::veth::{Forwarder, Running};
use bora_bench::{Results, ends, publish};
use bora_network::{Measured, Napi, Network, Offer, Subject, Testbed, Traffic};
use clap::Parser;

const CAPACITY_TIME: Duration = Duration::from_millis(500);
const TIME: Duration = Duration::from_secs(1);
const FRAME: u16 = 64;
const FLOWS: u32 = 64;
const LOADS: [f64; 2] = [0.5, 0.9];
/// The case with one rate for all, and the subject whose capacity it is half of.
const SAME: &str = "same rate";
const RATED: &str = "engine, adaptive";
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
const KERNEL: &str = "kernel";
/// More than any subject forwards.
const BEYOND: Offer = offer(0, CAPACITY_TIME);
/// Name, tier and options of `bora run`.
type Tier = (&'static str, Subject, &'static [&'static str]);
const SUBJECTS: [Tier; 5] = [
    (KERNEL, Subject::Kernel, &[]),
    ("express", Subject::Express, &[]),
    ("engine, poll", Subject::Engine, &["--mode", "poll"]),
    (RATED, Subject::Engine, &["--mode", "adaptive"]),
    (
        "engine, moderated",
        Subject::Engine,
        &["--mode", "moderated"],
    ),
];

/// Measures the latency of kernel, express and engine on veth, with the same load in turn.
#[derive(clap::Parser)]
struct Options {
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// How often each subject is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Let the router receive where Linux does by default, on the sender's CPU, and not in threads on its own
    #[arg(long)]
    softirq: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let napi = match options.softirq {
        true => Napi::Softirq,
        false => Napi::Threads,
    };
    let mut testbed = Testbed::receiving(&options.bora.canonicalize()?, napi)?;
    let network = testbed.network();
    let mut results = Measurements::default();
    let rated = SUBJECTS.into_iter().find(|subject| subject.0 == RATED);
    let running = start(rated.context("a subject")?, &network)?;
    let same = 0.5 * testbed.measure(BEYOND, || Ok(()))?.rate();
    running.stop(&network)?;
    for round in 1..=options.rounds {
        for subject in SUBJECTS {
            let name = subject.0;
            eprintln!("round {round} of {}: {name}", options.rounds);
            let running = start(subject, &network)?;
            let capacity = testbed.measure(BEYOND, || Ok(()))?.rate();
            results.rates.add("capacity", name, capacity);
            let loads = LOADS.map(|load| (format!("load {load}"), load * capacity));
            for (case, rate) in loads.into_iter().chain([(SAME.into(), same)]) {
                let rate = rate as u64;
                let offer = offer(rate, TIME);
                results.add(&case, name, &testbed.measure(offer, || Ok(()))?)?;
                if name == KERNEL {
                    results.add(&case, ends::ALONE, &testbed.measure_ends(offer)?)?;
                }
            }
            running.stop(&network)?;
        }
    }
    let mut rows = results.rates.rows("throughput", "packets/s", KERNEL);
    rows.extend(results.latency.rows("latency", "us", KERNEL));
    rows.extend(results.lost.rows("lost", "%", KERNEL));
    println!("same rate: {same:.0} packets/s, half of the capacity of `{RATED}`");
    publish("latency", rows, None)
}

/// What was measured, by metric.
#[derive(Default)]
struct Measurements {
    rates: Results,
    latency: Results,
    lost: Results,
}

impl Measurements {
    fn add(&mut self, case: &str, subject: &str, measured: &Measured) -> anyhow::Result<()> {
        let missing = measured.sent.saturating_sub(measured.arrived.received);
        let percent = 100.0 * missing as f64 / measured.sent.max(1) as f64;
        self.lost.add(case, subject, percent);
        for (quantile, share) in QUANTILES {
            let value = measured.latency(share).context("nothing arrived")?;
            let case = format!("{case}, {quantile}");
            self.latency.add(&case, subject, value.as_secs_f64() * 1e6);
        }
        Ok(())
    }
}

fn start((_, subject, options): Tier, network: &Network) -> anyhow::Result<Running<'static>> {
    Forwarder::Lab(subject).start(network, 2, options)
}

/// An offer of this many packets a second, for this long.
const fn offer(rate: u64, time: Duration) -> Offer {
    Offer {
        traffic: Traffic::V4(FRAME),
        flows: FLOWS,
        rate,
        time,
    }
}
