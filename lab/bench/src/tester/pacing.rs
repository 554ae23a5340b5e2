//! How precisely the tester keeps a rate, by its ways to send.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bora_buffer::{Region, SharedFrames};
use bora_port::memif::Role;
use bora_port::{Queue, memory};
use bora_tester::calibrate::OwnLinks;
use bora_tester::port_bench::{Options, PortBench};
use bora_tester::ports::{self, Kind, PortSpec, Side};
use bora_tester::trial::{Bench, Trial, TrialSpec};

use super::{CORES, port, traffic};
use crate::engine::{Plan, Section};
use crate::{Results, Row};

/// Frames per second.
const RATES: [(f64, &str); 4] = [
    (1e3, "1 k/s"),
    (1e4, "10 k/s"),
    (1e5, "100 k/s"),
    (1e6, "1 M/s"),
];
/// Length of each trial.
const TIME: Duration = Duration::from_secs(1);
/// Aim: largest deviation from the rate, percent.
const AIM: f64 = 1.0;
const FRAMES: u32 = 16_384;
const RING: usize = 2048;

/// The ways to send; their interfaces are made for the test.
fn ways() -> [(&'static str, Kind); 5] {
    let made = String::from;
    let socket = super::socket(0);
    [
        ("memory", Kind::Memory(0)),
        ("memif", Kind::memif(socket, Role::Client)),
        ("live XDP frames", Kind::Xdp(made("made"))),
        ("AF_XDP", Kind::AfXdp(made("made"))),
        ("AF_PACKET", Kind::af_packet(made("made"))),
    ]
}

/// Runs the benchmark.
///
/// # Errors
/// The process may not make namespaces, or a trial fails.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let (mut errors, mut lost) = (Results::default(), Results::default());
    let (mut middle, mut tail) = (Results::default(), Results::default());
    for round in 1..=plan.rounds {
        eprintln!("pacing: round {round} of {}", plan.rounds);
        for (way, kind) in ways() {
            for (rate, case) in RATES {
                let trial = once(&kind, rate);
                let trial = trial.with_context(|| format!("{way}, {case}"))?;
                let error = (trial.sent_rate() / rate - 1.0).abs() * 100.0;
                errors.add(case, way, error);
                lost.add(case, way, trial.counts().loss_ratio() * 100.0);
                let late = |quantile| trial.lateness.value_at_quantile(quantile) as f64 / 1e3;
                middle.add(case, way, late(0.5));
                tail.add(case, way, late(0.99));
            }
        }
    }
    let mut section = Section::new("pacing");
    section.rows = errors.rows("off the rate", "%", "");
    for (way, _) in ways() {
        judge(&mut section, way);
    }
    let others = [
        middle.rows("lateness, median", "us", ""),
        tail.rows("lateness, 99th percentile", "us", ""),
        lost.rows("lost on the way to the other port", "%", ""),
    ];
    section.rows.extend(others.into_iter().flatten());
    Ok(section)
}

/// Adds an aim: the median deviation of one way to send is small enough at each rate.
fn judge(section: &mut Section, way: &str) {
    let rows = section.rows.iter().filter(|row| row.subject == way);
    let (good, bad): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| row.median < AIM);
    let worst = good.iter().map(|row| row.median).fold(0.0, f64::max);
    let cases: Vec<&str> = good.iter().map(|row| row.case.as_str()).collect();
    let mut parts: Vec<String> = Vec::new();
    if !good.is_empty() {
        parts.push(format!("at most {worst:.3} % off at {}", cases.join(", ")));
    }
    let far = |row: &&Row| format!("{:.1} % off at {}", row.median, row.case);
    parts.extend(bad.iter().map(far));
    let text = format!("{way}: {}", parts.join("; "));
    section.aim(bad.is_empty(), text);
}

/// One trial from port to port.
fn once(kind: &Kind, rate: f64) -> anyhow::Result<Trial> {
    let mut specs = CORES.map(|core| port(kind.clone(), None, core));
    let (mut links, mut sides) = (None, Vec::new());
    if matches!(kind, Kind::Memory(_)) {
        specs[1].kind = Kind::Memory(1);
        sides = memory_sides()?;
    } else {
        let made = OwnLinks::new(&specs, None)?;
        specs = own(specs, &made);
        links = Some(made);
    }
    let ports = ports::open(&specs, sides, ports::Options::default())?;
    let mut wire = PortBench::new(ports, Options::default());
    let trial = wire.trial(&TrialSpec::steady(Arc::new(traffic(1, 1)), rate, TIME));
    // the ports must be dropped before the links
    drop(wire);
    drop(links);
    trial
}

/// The ports on links made for the test, without addresses.
fn own(specs: [PortSpec; 2], links: &OwnLinks) -> [PortSpec; 2] {
    let mut made = links.ports.iter();
    specs.map(|spec| match made.next() {
        Some(port) => PortSpec {
            kind: port.kind.clone(),
            netns: port.netns.clone(),
            ..spec
        },
        None => spec,
    })
}

fn memory_sides() -> anyhow::Result<Vec<Side>> {
    let region = Arc::new(Region::new(FRAMES, 2048)?);
    let frames = SharedFrames::of_new_region(&region);
    let (left, right) = memory::pair(RING);
    let queues = [left, right].into_iter().map(Queue::Memory);
    let sides = queues.map(|queue| Side::new(vec![queue], region.clone(), frames.clone()));
    Ok(sides.collect::<Result<_, _>>()?)
}
