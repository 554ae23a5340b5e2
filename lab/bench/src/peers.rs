//! Routers of others that Debian packages, beside Bora in one run: DPDK's l3fwd and testpmd by memif, and
//! xdp-forward on veth. They run in the folder of a Debian of their own (`scripts/bench-peers`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use bora_network::{Napi, Offer, Subject as Tier, Testbed, Traffic};
use bora_port::memif::Role;
use bora_worker::QUOTA;

use crate::engine::Plan;
use crate::engine::memif::{self, Folder, LOG2_RING, RATE, Setup, Subject};
use crate::engine::testpmd::Device;
use crate::veth::Forwarder;
use crate::{Results, Row, ends};

/// What Bora is compared with on memif, and what with on veth.
const MEMIF_BASE: &str = "bora";
const VETH_BASE: &str = "kernel";
/// CPU of the subjects.
const CORE: usize = 1;
/// Huge pages of l3fwd, MB: its tables have 2^24 entries for each protocol.
const HUGE: &str = "600";
/// A measurement on veth.
const TIME: Duration = Duration::from_millis(700);

/// The folder of the Debian that has them.
#[derive(Debug)]
pub struct Root(PathBuf);

impl Root {
    /// Writes l3fwd's routes there: all traffic leaves by the port it came in by.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize()?;
        for (name, route) in [
            ("routes4", "R10.0.0.0/8 0\n"),
            ("routes6", "R2001:db8::/32 0\n"),
        ] {
            fs::write(path.join("root").join(name), route).context("l3fwd's routes")?;
        }
        Ok(Self(path))
    }

    /// l3fwd with this look-up on one port.
    fn l3fwd(&self, lookup: &str, device: &Device<'_>) -> Command {
        let slots = (1 << LOG2_RING).to_string();
        let burst = QUOTA.to_string();
        let mut command = Command::new("chroot");
        command
            .arg(&self.0)
            .arg("/root/l3fwd/build/l3fwd")
            .args([
                "--no-pci",
                "--no-telemetry",
                "--in-memory",
                "--single-file-segments",
            ])
            .args(["-m", HUGE, "--file-prefix=bora-l3fwd"])
            .arg(format!("--lcores={CORE}@{CORE}"))
            .args(
                device
                    .arguments(LOG2_RING)
                    .iter()
                    .map(|port| format!("--vdev={port}")),
            )
            .args(["--", "-p", "1", "-P", "--parse-ptype", "--relax-rx-offload"])
            .arg(format!("--config=(0,0,{CORE})"))
            .args(["--rx-queue-size", &slots, "--tx-queue-size", &slots])
            .args(["--rx-burst", &burst, "--tx-burst", &burst])
            .args(["--lookup", lookup])
            .args([
                "--rule_ipv4",
                "/root/routes4",
                "--rule_ipv6",
                "/root/routes6",
            ]);
        command
    }
}

/// Throughput of a memif that shares its memory (client) and of one that copies (server).
///
/// # Errors
/// A subject does not forward.
pub fn memif(root: &Root, plan: Plan) -> anyhow::Result<Vec<Row>> {
    let folder = Folder::new()?;
    let mut results = Results::default();
    let (lpm, fib) = (
        |device: &Device<'_>| root.l3fwd("lpm", device),
        |device: &Device<'_>| root.l3fwd("fib", device),
    );
    for round in 1..=plan.rounds {
        for (role, source) in memif::cases() {
            let case = format!("memif, {}", source.case(role));
            let zero_copy = role == Role::Client;
            let subjects = [
                (MEMIF_BASE, Subject::Bora),
                ("l3fwd lpm", Subject::Program(&lpm)),
                ("l3fwd fib", Subject::Program(&fib)),
                (
                    "testpmd mac",
                    Subject::Testpmd {
                        mode: "mac",
                        zero_copy,
                    },
                ),
                (ends::ALONE, Subject::Ends),
            ];
            for (name, subject) in subjects {
                eprintln!("round {round} of {}: {case}: {name}", plan.rounds);
                let setup = Setup {
                    role,
                    socket: &folder.socket(),
                    source,
                    huge: true,
                    root: Some(&root.0),
                    time: plan.time,
                };
                let sample = memif::measure(subject, setup);
                let sample = sample.with_context(|| format!("{case}: {name}"))?;
                results.add(&case, name, sample.rate);
            }
        }
    }
    Ok(results.rows(RATE.0, RATE.1, MEMIF_BASE))
}

/// Throughput between two veth pairs; `bora` is the program.
///
/// # Errors
/// A namespace cannot be made, or a subject does not start.
pub fn veth(root: &Root, bora: &Path, plan: Plan) -> anyhow::Result<Vec<Row>> {
    let mut results = Results::default();
    let offer = Offer {
        traffic: Traffic::V4(64),
        flows: 1,
        rate: 0,
        time: TIME,
    };
    let root_folder = root.0.to_string_lossy();
    let xdp_forward = ["chroot", &*root_folder, "xdp-forward"];
    let subjects = [
        Forwarder::Lab(Tier::Kernel),
        Forwarder::XdpForward(&xdp_forward, &[]),
        Forwarder::Lab(Tier::Express),
        Forwarder::Lab(Tier::Engine),
        Forwarder::Testpmd(Some(&root.0)),
    ];
    for (case, napi) in [
        ("veth, router receives in threads", Napi::Threads),
        ("veth, router receives in softirqs", Napi::Softirq),
    ] {
        let mut testbed = Testbed::receiving(bora, napi)?;
        let network = testbed.network();
        for round in 1..=plan.rounds {
            for subject in subjects {
                eprintln!(
                    "round {round} of {}: {case}: {}",
                    plan.rounds,
                    subject.name()
                );
                let running = subject.start(&network, 2, &[])?;
                let measured = testbed.measure(offer, || Ok(()))?;
                results.add(case, subject.name(), measured.rate());
                running.stop(&network)?;
            }
            results.add(case, ends::ALONE, testbed.measure_ends(offer)?.rate());
        }
    }
    Ok(results.rows(RATE.0, RATE.1, VETH_BASE))
}
