//! Measures kernel, express, engine and testpmd between two veth pairs, with the same load in turn.
//!
//! Throughput at saturating load: the generator offers several times what any subject forwards.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use bora_bench::veth::Forwarder;
use bora_bench::{Results, ends, full_table, publish};
use bora_network::{Napi, Offer, Subject, Testbed, Traffic};
use clap::Parser;

const TIME: Duration = Duration::from_millis(700);

/// Measures kernel, express, engine and testpmd on veth, with the same load in turn.
#[derive(clap::Parser)]
struct Options {
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// How often each subject is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Frame sizes, octets with FCS
    #[arg(long, value_delimiter = ',', default_value = "64,512,1500")]
    sizes: Vec<u16>,
    /// Numbers of flows
    #[arg(long, value_delimiter = ',', default_value = "1,10000")]
    flows: Vec<u32>,
    /// Leave express out
    #[arg(long)]
    no_express: bool,
    /// Make only the first interface a port, so that Linux forwards, and measure what Bora costs it
    #[arg(long)]
    bulk: bool,
    /// Measure kernel, xdp-forward and express with one route, and with this many and random destinations
    #[arg(long)]
    routes: Option<usize>,
    /// The program xdp-forward of xdp-tools; left out where there is none
    #[arg(long, default_value = "/usr/sbin/xdp-forward")]
    xdp_forward: PathBuf,
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
    if let Some(routes) = options.routes {
        let xdp_forward = Some(&*options.xdp_forward).filter(|program| program.exists());
        let rows = full_table::measure(&mut testbed, routes, options.rounds, xdp_forward)?;
        return publish("table", rows, None);
    }
    let mut results = Results::default();
    let mut subjects = Forwarder::all();
    subjects.retain(|subject| match subject {
        Forwarder::Lab(Subject::Express) => !options.no_express,
        Forwarder::Lab(_) => true,
        _ => !options.bulk, // they have no Linux behind them
    });
    let (name, ports) = match (options.bulk, options.softirq) {
        (true, _) => ("bulk", 1),
        (_, true) => ("veth-softirq", 2),
        _ => ("veth", 2),
    };
    for round in 1..=options.rounds {
        for &subject in &subjects {
            eprintln!("round {round} of {}: {}", options.rounds, subject.name());
            let running = subject.start(&network, ports, &[])?;
            for (case, offer) in offers(&options) {
                let measured = testbed.measure(offer, || Ok(()))?;
                results.add(&case, subject.name(), measured.rate());
            }
            running.stop(&network)?;
        }
        for (case, offer) in offers(&options) {
            results.add(&case, ends::ALONE, testbed.measure_ends(offer)?.rate());
        }
    }
    publish(
        name,
        results.rows("throughput", "packets/s", "kernel"),
        None,
    )
}

/// What is offered, as fast as it goes.
fn offers(options: &Options) -> Vec<(String, Offer)> {
    let of = |size: u16, flows: u32| {
        let case = format!("{size} B, {flows} flow{}", if flows > 1 { "s" } else { "" });
        let offer = Offer {
            traffic: Traffic::V4(size),
            flows,
            rate: 0,
            time: TIME,
        };
        (case, offer)
    };
    let sizes = options.sizes.iter();
    let all = sizes.flat_map(|&size| options.flows.iter().map(move |&flows| of(size, flows)));
    all.collect()
}
