//! The loop on memory ports with packets of VLAN devices, macvlans and tunnels, beside plain ones.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use bora_fib::{PortId, Prefix4};
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_forward::Devices;
use bora_worker::QUOTA;

use super::throughput::{ends, replay};
use super::{Plan, Section, middle};
use crate::devices::DEVICE;
use crate::ends;
use crate::machine::{self, Memory, Port, Settings, Tables};
use crate::packets::{self, FRAME};
use crate::{macvlans, tunnels, vlans};

const COST: (&str, &str) = ("time a packet", "ns");
const CASE: &str = "1 route, 8192 flows, quota 64";
const PLAIN: &str = "plain";
/// Expected packets a second, from which the number of packets of a measurement follows.
const EXPECTED: f64 = 25e6;
const FLOWS: u32 = 8192;
/// Devices, where they are many.
const MANY: u16 = 64;
/// Most that a subject may cost, in what another one costs.
const AIMS: [(&str, &str, f64); 4] = [
    ("vlan: 64 in turn", "vlan: one", 1.3),
    ("macvlan: 64 in turn", "macvlan: one", 1.3),
    ("vlan to vlan", PLAIN, 1.5),
    ("gre in and out", PLAIN, 2.0),
];

struct Subject {
    name: &'static str,
    tables: Tables,
    devices: Arc<Devices>,
    traffic: Vec<[u8; FRAME]>,
}

fn subjects() -> anyhow::Result<Vec<Subject>> {
    let subject = |name, output: u16, devices, traffic| {
        anyhow::Ok(Subject {
            name,
            tables: Tables::new(&[(Prefix4::masked(0, 0), PortId(output))])?,
            devices: Arc::new(devices),
            traffic,
        })
    };
    let (vlan, many) = (vlans::devices, vlans::devices(MANY));
    let tagged = |count| vlans::tagged(FLOWS, count);
    let macvlan = |name, count| {
        let traffic = macvlans::addressed(FLOWS, count);
        subject(name, 0, macvlans::devices(count), traffic)
    };
    Ok(vec![
        subject(PLAIN, 0, Devices::default(), packets::flows(FLOWS, 0, 0))?,
        subject("vlan: one", 0, vlan(1), tagged(1))?,
        subject("vlan: 64 in turn", 0, many, tagged(MANY))?,
        macvlan("macvlan: one", 1)?,
        macvlan("macvlan: 64 in turn", MANY)?,
        subject("vlan to vlan", DEVICE.0 + 1, vlan(2), tagged(1))?,
        Subject {
            name: "gre in and out",
            tables: Tables::between_tunnels()?,
            devices: Arc::new(tunnels::devices()),
            traffic: tunnels::wrapped(FLOWS),
        },
    ])
}

/// Runs the subjects with `only` in their names, and the plain one.
///
/// # Errors
/// A packet was lost without being counted.
pub fn run(plan: Plan, only: &str) -> anyhow::Result<Section> {
    let count = (plan.time.as_secs_f64() * EXPECTED) as u64;
    let subjects = subjects()?;
    let chosen = |subject: &&Subject| subject.name == PLAIN || subject.name.contains(only);
    let mut costs = vec![vec![]; subjects.len()];
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("inputs: round {round} of {}", plan.rounds);
        for (subject, costs) in subjects.iter().zip(&mut costs) {
            if chosen(&subject) {
                let cost = cost(subject, count)?;
                costs.push(cost);
                report.sample(COST, CASE, subject.name, cost);
            }
        }
        let cost = ends(QUOTA as usize, &subjects[0].traffic, count)?;
        report.sample(COST, CASE, ends::ALONE, cost);
    }
    let mut section = Section::new("Inputs of the loop");
    section.notes.push(format!(
        "64-byte IPv4 frames to one neighbour, one worker, {count} packets a measurement; VLAN devices and macvlans are on the port by which \
         all packets leave. GRE in and out: by one tunnel in, by another one out."
    ));
    let median = |name| {
        let at = subjects.iter().position(|subject| subject.name == name)?;
        (!costs[at].is_empty()).then(|| middle(&costs[at]))
    };
    for (name, other, most) in AIMS {
        if let (Some(cost), Some(base)) = (median(name), median(other)) {
            let ratio = cost / base;
            let text = format!("{name}: at most {most} x {other}: {ratio:.2}");
            section.aim(ratio <= most, text);
        }
    }
    section.rows = report.rows(PLAIN);
    Ok(section)
}

/// The worker's CPU time for each packet, ns.
fn cost(subject: &Subject, count: u64) -> anyhow::Result<f64> {
    let memory = Memory::new(1)?;
    let (queue, back) = replay(&memory, &subject.traffic, count)?;
    let settings = Settings {
        devices: subject.devices.clone(),
        ..Settings::default()
    };
    let job = machine::worker(&subject.tables, &memory, &settings, vec![Port::from(queue)])?;
    let outcome = job.start(Instant::now())?.stop()?;
    ensure!(
        (outcome.sent, back.packets()) == (count, count),
        "{}: {count} packets in, {} out: {outcome:?}",
        subject.name,
        back.packets()
    );
    Ok(outcome.usage.ran.as_nanos() as f64 / count as f64)
}
