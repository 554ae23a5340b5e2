//! Measures kernel, express and engine between two veth pairs, with the same load in turn.
//!
//! Throughput at saturating load: the generator offers several times what any subject forwards.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use bora_bench::{Results, full_table, publish};
use bora_lab::{Subject, Testbed, Traffic};
use clap::Parser;

const TIME: Duration = Duration::from_millis(700);

/// Measures kernel, express and engine on veth, with the same load in turn.
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
    /// Measure kernel, xdp-forward and express with one route, and with so many and random destinations
    #[arg(long)]
    routes: Option<usize>,
    /// The program xdp-forward of xdp-tools; left out where there is none
    #[arg(long, default_value = "/usr/sbin/xdp-forward")]
    xdp_forward: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut testbed = Testbed::new(&options.bora.canonicalize()?)?;
    let network = testbed.network();
    if let Some(routes) = options.routes {
        let xdp_forward = Some(options.xdp_forward).filter(|program| program.exists());
        let rows = full_table::measure(&mut testbed, routes, options.rounds, xdp_forward)?;
        return publish("table", &rows);
    }
    let mut results = Results::default();
    let mut subjects = vec![Subject::Kernel, Subject::Express, Subject::Engine];
    subjects.retain(|&subject| !options.no_express || subject != Subject::Express);
    let (name, ports) = if options.bulk {
        ("bulk", 1)
    } else {
        ("veth", 2)
    };
    for round in 1..=options.rounds {
        for &subject in &subjects {
            eprintln!("round {round} of {}: {}", options.rounds, subject.name());
            let daemon = match subject {
                Subject::Kernel => None,
                other => Some(network.start_on(ports, other.name(), &[])?),
            };
            for &size in &options.sizes {
                for &flows in &options.flows {
                    let measured = testbed.measure(Traffic::V4(size), flows, 0, TIME, || Ok(()))?;
                    let case =
                        format!("{size} B, {flows} flow{}", if flows > 1 { "s" } else { "" });
                    results.add(&case, subject.name(), measured.rate());
                }
            }
            if let Some(daemon) = daemon {
                network.stop(daemon)?;
            }
        }
    }
    publish(name, &results.rows("throughput", "packets/s", "kernel"))
}
