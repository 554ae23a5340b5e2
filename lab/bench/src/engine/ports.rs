//! One worker with more and more ports, one to one and uniform: Bianco05, Fig. 10 and 11.

use std::time::Instant;

use anyhow::ensure;
use bora_fib::{PortId, Prefix4};
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_worker::QUOTA;

use super::throughput::{ends, replay};
use super::{Plan, Section};
use crate::ends;
use crate::machine::{self, Memory, Port, Settings, Tables};
use crate::packets::{self, FRAME, Packet};

const RATE: (&str, &str) = ("packets per CPU-second", "1/s");
const PORTS: [u16; 4] = [2, 6, 10, 14];
/// Packets a second expected, to say how many a measurement takes.
const EXPECTED: f64 = 20e6;
/// Packets that an input presents in turn.
const TRAFFIC: u16 = 1024;

/// The output of an input's packet: number of ports, the input, the packet's number.
type Pattern = fn(u16, u16, u16) -> u16;

const PATTERNS: [(&str, Pattern); 2] = [
    // ports in pairs
    ("one to one", |_, input, _| input ^ 1),
    // to each of the others in turn
    ("uniform", |ports, input, number| {
        (input + 1 + number % (ports - 1)) % ports
    }),
];

/// Runs it.
///
/// # Errors
/// A packet was lost without a name.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let count = (plan.time.as_secs_f64() * EXPECTED) as u64;
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("ports: round {round} of {}", plan.rounds);
        for ports in PORTS {
            for (name, output) in PATTERNS {
                let case = format!("{ports} ports");
                report.sample(RATE, &case, name, rate(ports, output, count)?);
            }
        }
        // one queue, because the cost is that of a packet
        let traffic = packets::flows(TRAFFIC.into(), 0, 0);
        let cost = ends(QUOTA as usize, &traffic, count)?;
        for ports in PORTS {
            report.sample(RATE, &format!("{ports} ports"), ends::ALONE, 1e9 / cost);
        }
    }
    let mut section = Section::new("Ports");
    section.notes.push(format!(
        "64-byte IPv4, one worker, {count} packets a measurement, all ports receive and send."
    ));
    section.rows = report.rows(PATTERNS[0].0);
    Ok(section)
}

/// Packets per CPU-second.
fn rate(ports: u16, output: Pattern, count: u64) -> anyhow::Result<f64> {
    let prefix = |port: u16| Prefix4::masked(0x0a00_0000 | u32::from(port) << 16, 16);
    let routes: Vec<_> = (0..ports)
        .map(|port| (prefix(port), PortId(port)))
        .collect();
    let (tables, memory) = (Tables::new(&routes)?, Memory::new(u32::from(ports))?);
    let each = count / u64::from(ports);
    let queue = |input: u16| {
        let packet = |number: u16| Packet {
            destination: prefix(output(ports, input, number)).addr() | u32::from(number),
            input,
            dscp: 0,
        };
        let traffic: Vec<[u8; FRAME]> =
            (0..TRAFFIC).map(|number| packet(number).octets()).collect();
        let (queue, _) = replay(&memory, &traffic, each)?;
        Ok(Port::from(queue))
    };
    let queues = (0..ports).map(queue).collect::<anyhow::Result<Vec<_>>>()?;
    let job = machine::worker(&tables, &memory, &Settings::default(), queues)?;
    let outcome = job.start(Instant::now())?.stop()?;
    let all = each * u64::from(ports);
    ensure!(outcome.sent == all, "{all} packets in: {outcome:?}");
    Ok(outcome.rate())
}
