//! Kernel, express and engine between two veth pairs, the same work in turn.
//!
//! Throughput at saturating load: the generator offers several times what any subject forwards.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use bora_bench::{Results, publish};
use bora_lab::{Subject, Testbed, Traffic};

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(700);
const SIZES: [usize; 3] = [64, 512, 1500];
const FLOWS: [u32; 2] = [1, 10_000];

fn main() -> anyhow::Result<()> {
    let bora = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "target/release/bora".into());
    let mut testbed = Testbed::new(&Path::new(&bora).canonicalize()?)?;
    let network = testbed.network();
    let mut results = Results::default();
    for round in 0..ROUNDS {
        for subject in [Subject::Kernel, Subject::Express, Subject::Engine] {
            eprintln!("round {} of {ROUNDS}: {}", round + 1, subject.name());
            let daemon = match subject {
                Subject::Kernel => None,
                other => Some(network.start(other.name())?),
            };
            for size in SIZES {
                for flows in FLOWS {
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
    publish("veth", &results.rows("throughput", "packets/s", "kernel"))
}
