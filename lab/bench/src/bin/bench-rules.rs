//! Measures rules of nftables that need no connection: nftables itself, and Bora that follows them (`docs/firewall.md`).
//!
//! Throughput at saturating load between two veth pairs, as in `bench-veth`. The packets pass all rules, which is what costs most.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_bench::veth::Forwarder;
use bora_bench::{Results, ends, publish};
use bora_linux::netns;
use bora_network::{Napi, Network, Offer, Subject, Testbed, Traffic};
use clap::Parser;

const TIME: Duration = Duration::from_millis(700);
/// How long Bora may take to read the rules.
const PATIENCE: Duration = Duration::from_secs(60);
const FRAME: u16 = 64;
const FLOWS: u32 = 10_000;

/// Measures kernel, express and engine with the same rules of nftables, in turn.
#[derive(clap::Parser)]
struct Options {
    /// The program to measure
    #[arg(long, default_value = "target/release/bora")]
    bora: PathBuf,
    /// How often each subject is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut testbed = Testbed::receiving(&options.bora.canonicalize()?, Napi::Threads)?;
    let network = testbed.network();
    let offer = Offer {
        traffic: Traffic::V4(FRAME),
        flows: FLOWS,
        rate: 0,
        time: TIME,
    };
    let mut results = Results::default();
    for round in 1..=options.rounds {
        for (case, rules) in rulesets() {
            load(&network, &rules)?;
            for subject in [Subject::Kernel, Subject::Express, Subject::Engine] {
                eprintln!(
                    "round {round} of {}: {case}, {}",
                    options.rounds,
                    subject.name()
                );
                let running = Forwarder::Lab(subject).start(&network, 2, &[])?;
                if subject != Subject::Kernel {
                    wait_for_bora(&network)?;
                }
                let measured = testbed.measure(offer, || Ok(()))?;
                results.add(&case, subject.name(), measured.rate());
                running.stop(&network)?;
            }
            load(&network, "")?;
            results.add(&case, ends::ALONE, testbed.measure_ends(offer)?.rate());
        }
    }
    publish(
        "rules",
        results.rows("throughput", "packets/s", "kernel"),
        None,
    )
}

/// Replaces the router's rules.
fn load(network: &Network, rules: &str) -> anyhow::Result<()> {
    // longer than a command line may be
    let path = std::env::temp_dir().join(format!("bora-bench-rules-{}.nft", std::process::id()));
    fs::write(&path, format!("flush ruleset\n{rules}"))
        .with_context(|| path.display().to_string())?;
    let mut command = network.router().command("nft");
    let loaded = netns::output(command.arg("-f").arg(&path)).context("nft");
    fs::remove_file(&path).with_context(|| path.display().to_string())?;
    loaded.map(|_| ())
}

/// Until nothing is left to Linux.
fn wait_for_bora(network: &Network) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let sync = network.show("sync")?;
        if sync["guard"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "Bora does not follow the rules: {}",
            sync["guard"]
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Names and rules.
fn rulesets() -> Vec<(String, String)> {
    let mut all = vec![("no rules".to_owned(), String::new())];
    for networks in [16, 1000, 100_000] {
        let elements = (0..networks).map(|number| format!("{}/28", address(number)));
        let elements: Vec<String> = elements.collect();
        let rules = format!(
            "table ip t {{ set s {{ type ipv4_addr; flags interval; elements = {{ {} }}; }}; \
             chain f {{ type filter hook forward priority 0; ip saddr @s drop; ip daddr @s drop; }}; }}",
            elements.join(", ")
        );
        all.push((
            format!("two look-ups in a set of {networks} networks"),
            rules,
        ));
    }
    for count in [10, 100, 1000] {
        let mut rules =
            String::from("table ip t { chain f { type filter hook forward priority 0;\n");
        for number in 0..count {
            let (source, port) = (address(number), 10_000 + number);
            // writing to a string does not fail
            let _ = writeln!(rules, "ip saddr {source}/28 udp dport {port} drop");
        }
        all.push((format!("{count} rules"), rules + "}; }"));
    }
    all
}

/// Addresses that no packet of the test has.
fn address(number: u32) -> String {
    std::net::Ipv4Addr::from_bits((90 << 24) + 32 * number).to_string()
}
