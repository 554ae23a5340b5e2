//! Latency through a router on two veth pairs: the kernel, express, and the engine in each mode.
//!
//! Each subject's own capacity is measured first; then it gets half and nine tenths of that. The
//! sender stamps each packet with the time at which it is due to leave, and the receiver's XDP
//! program reads the stamp.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bora_bench::veth::Forwarder;
use bora_bench::{Results, ends, publish};
use bora_lab::{Measured, Napi, Offer, Subject, Testbed, Traffic};
use clap::Parser;

const CAPACITY_TIME: Duration = Duration::from_millis(500);
const TIME: Duration = Duration::from_secs(1);
const FRAME: u16 = 64;
const FLOWS: u32 = 64;
const LOADS: [f64; 2] = [0.5, 0.9];
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Name, tier and options of `bora run`.
const SUBJECTS: [(&str, Subject, &[&str]); 5] = [
    ("kernel", Subject::Kernel, &[]),
    ("express", Subject::Express, &[]),
    ("engine, poll", Subject::Engine, &["--mode", "poll"]),
    ("engine, adaptive", Subject::Engine, &["--mode", "adaptive"]),
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
    let (mut latency, mut rates, mut lost) =
        (Results::default(), Results::default(), Results::default());
    for round in 1..=options.rounds {
        for (name, subject, arguments) in SUBJECTS {
            eprintln!("round {round} of {}: {name}", options.rounds);
            let running = Forwarder::Lab(subject).start(&network, 2, arguments)?;
            let offer = |rate, time| Offer {
                traffic: Traffic::V4(FRAME),
                flows: FLOWS,
                rate,
                time,
            };
            let beyond = offer(0, CAPACITY_TIME);
            let capacity = testbed.measure(beyond, || Ok(()))?.rate();
            rates.add("capacity", name, capacity);
            for load in LOADS {
                let rate = (capacity * load) as u64;
                let offer = offer(rate, TIME);
                let measured = testbed.measure(offer, || Ok(()))?;
                let missing = measured.sent.saturating_sub(measured.arrived.received);
                let percent = 100.0 * missing as f64 / measured.sent.max(1) as f64;
                lost.add(&format!("load {load}"), name, percent);
                add(&mut latency, load, name, &measured)?;
                if subject == Subject::Kernel {
                    add(
                        &mut latency,
                        load,
                        ends::ALONE,
                        &testbed.measure_ends(offer)?,
                    )?;
                }
            }
            running.stop(&network)?;
        }
    }
    let mut rows = rates.rows("throughput", "packets/s", "kernel");
    rows.extend(latency.rows("latency", "us", "kernel"));
    rows.extend(lost.rows("lost", "%", "kernel"));
    publish("latency", rows)
}

fn add(latency: &mut Results, load: f64, subject: &str, measured: &Measured) -> anyhow::Result<()> {
    for (quantile, share) in QUANTILES {
        let value = measured.latency(share).context("nothing arrived")?;
        let case = format!("load {load}, {quantile}");
        latency.add(&case, subject, value.as_secs_f64() * 1e6);
    }
    Ok(())
}
