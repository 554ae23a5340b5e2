//! The loop on memory ports: the cost of a packet without devices.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use bora_apparatus::{self as apparatus, Replay, SinkCounter};
use bora_buffer::{Pool, Region, SharedFrames};
use bora_fib::{PortId, Prefix4, TableId};
use bora_fib_bench::keys::{self, Pattern};
use bora_fib_bench::run::Observer;
use bora_fib_bench::{Route, tables};
use bora_forward::classify::{Addresses, Rule, RuleSet, Ternary};
use bora_forward::policy::{Action, Known, List, Lists, Policies, Selector, Step};
use bora_port::Queue;
use bora_worker::{BUDGET, QUOTA};

use super::{Plan, Section};
use crate::devices::DEVICE;
use crate::ends;
use crate::machine::{self, Memory, Port, Settings, Tables};
use crate::packets::{self, FRAME, Packet};
use crate::{tunnels, vlans};
use bora_fib_bench::report::Report;

const COST: (&str, &str) = ("time a packet", "ns");
const RATE: (&str, &str) = ("packets per CPU-second", "1/s");
const WORKER: &str = "worker";
/// Expected packets per second, from which the number of packets of a measurement follows.
const EXPECTED: f64 = 25e6;

/// Flows where there are many.
const FLOWS: u32 = 8192;
/// Next hops of the full table: with one alone, a compressed table would be smaller than any real one.
const NEXT_HOPS: usize = 256;

struct Case {
    name: String,
    quota: u32,
    rules: usize,
    recycling: bool,
    traffic: Traffic,
}

/// What comes in.
#[derive(Clone, Copy)]
enum Traffic {
    One,
    Flows,
    Flows6,
    /// Packets to random destinations in the full table.
    Random,
    /// As `Flows`, from a VLAN device to the same one.
    Tagged,
    /// As `Flows`, after this many rules of policy routing (`ip rule`) that are for others.
    Policy(u8),
    /// As `Flows`, into a tunnel.
    Wrap,
    /// As `Flows`, out of a tunnel.
    Unwrap,
}

/// Runs the cases with `only` in their names.
///
/// # Errors
/// A packet was lost without being counted.
pub fn run(plan: Plan, only: &str) -> anyhow::Result<Section> {
    let count = (plan.time.as_secs_f64() * EXPECTED) as u64;
    let routes = tables::synthetic::<Prefix4>(1, 1_000_000);
    let full = Tables::mixed(routes.iter().map(|route| route.prefix), NEXT_HOPS)?;
    let (one, six) = (Tables::default_route(0)?, Tables::default_route6(1)?);
    let (wrap, unwrap) = (Tables::into_tunnel()?, Tables::out_of_tunnel()?);
    let vlan = Tables::default_route(DEVICE.0)?;
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("throughput: round {round} of {}", plan.rounds);
        for case in cases().iter().filter(|case| case.name.contains(only)) {
            let (tables, traffic) = match case.traffic {
                Traffic::Flows | Traffic::Policy(_) => (&one, packets::flows(FLOWS, 0, 0)),
                Traffic::Tagged => (&vlan, vlans::tagged(FLOWS, 1)),
                Traffic::One => (&one, packets::flows(1, 0, 0)),
                Traffic::Flows6 => (&six, packets::flows6(FLOWS)),
                Traffic::Random => (&full, random(&routes, 65_536)),
                Traffic::Wrap => (&wrap, packets::flows(FLOWS, 0, 0)),
                Traffic::Unwrap => (&unwrap, tunnels::wrapped(FLOWS)),
            };
            let cost = worker(case, tables, &traffic, count)?;
            report.sample(COST, &case.name, WORKER, cost);
            report.sample(RATE, &case.name, WORKER, 1e9 / cost);
            let cost = ends(case.quota as usize, &traffic, count)?;
            report.sample(COST, &case.name, ends::ALONE, cost);
            report.sample(RATE, &case.name, ends::ALONE, 1e9 / cost);
        }
    }
    let mut section = Section::new("The loop on memory ports");
    section.notes.push(format!(
        "64-byte frames, IPv4 unless it says otherwise, one worker, {count} packets a measurement; the frames stay in the cache. The 1 M routes lead \
         to {NEXT_HOPS} next hops."
    ));
    section.rows = report.rows(WORKER);
    Ok(section)
}

fn cases() -> Vec<Case> {
    let tables = [
        ("1 route, 1 flow", Traffic::One),
        ("1 route, 8192 flows", Traffic::Flows),
        ("IPv6, 1 route, 8192 flows", Traffic::Flows6),
        ("1 M routes, 65536 random destinations", Traffic::Random),
    ];
    let mut cases = vec![];
    for (name, traffic) in tables {
        for quota in [32, QUOTA, 256] {
            let name = format!("{name}, quota {quota}");
            cases.push(Case {
                name,
                quota,
                rules: 0,
                recycling: true,
                traffic,
            });
        }
    }
    for rules in [1, 64, 1000] {
        cases.push(Case {
            name: format!("1 route, 8192 flows, quota 64, {rules} rules"),
            quota: QUOTA,
            rules,
            recycling: true,
            traffic: Traffic::Flows,
        });
    }
    let others = [
        ("VLAN to VLAN", Traffic::Tagged),
        ("1 IP rule", Traffic::Policy(1)),
        ("16 IP rules", Traffic::Policy(16)),
        ("into GRE", Traffic::Wrap),
        ("out of GRE", Traffic::Unwrap),
    ];
    for (name, traffic) in others {
        cases.push(Case {
            name: format!("1 route, 8192 flows, quota 64, {name}"),
            quota: QUOTA,
            rules: 0,
            recycling: true,
            traffic,
        });
    }
    cases.push(Case {
        name: "1 route, 8192 flows, quota 64, no recycling".into(),
        quota: QUOTA,
        rules: 0,
        recycling: false,
        traffic: Traffic::Flows,
    });
    cases
}

/// One packet to each of `count` addresses inside prefixes.
fn random(routes: &[Route<Prefix4>], count: u32) -> Vec<[u8; FRAME]> {
    let unicast = |address: &u32| (1..224).contains(&(address >> 24)) && address >> 24 != 127;
    let all = keys::generate(Pattern::Inside, routes, 2 * count as usize, 1);
    let packet = |destination| Packet {
        destination,
        input: 0,
        dscp: 0,
    };
    all.into_iter()
        .filter(unicast)
        .take(count as usize)
        .map(|destination| packet(destination).octets())
        .collect()
}

/// Rules that must all be tried: each matches one of 64 adjacent destinations of the flows, but
/// asks for another protocol. A tenth has a port range.
fn rules(count: usize) -> RuleSet {
    let rule = |number: usize| Rule {
        addresses: Addresses::V4 {
            source: Ternary::default(),
            destination: Ternary {
                value: 0x0a00_0000 + number as u32 % 64,
                mask: 0xffff_e03f,
            },
        },
        protocol: Ternary::exact(6),
        destination_ports: number.is_multiple_of(10).then_some(1000..=2000),
        ..Rule::default()
    };
    RuleSet {
        rules: (0..count).map(rule).collect(),
        ..RuleSet::default()
    }
}

/// Rules of policy routing for sources that no packet has, and then the main table.
fn policies(count: u8) -> Policies {
    let step = |number: Option<u8>| Step {
        selector: number.map(|number| Selector {
            src: (0xffff_ff00, 0xc000_0200 + (u128::from(number) << 8)),
            ..Selector::default()
        }),
        action: Action::Table {
            table: TableId::MAIN,
            no_default: false,
        },
    };
    let steps = (0..count).map(Some).chain([None]).map(step);
    let mut policies = Policies::default();
    let lists = Lists {
        v4: Some(List::new(steps.collect(), Known::default())),
        ..Lists::default()
    };
    policies.set(PortId(0), lists);
    policies
}

/// The worker's CPU time for each packet, ns.
fn worker(
    case: &Case,
    tables: &Tables,
    traffic: &[[u8; FRAME]],
    count: u64,
) -> anyhow::Result<f64> {
    let memory = Memory::new(1)?;
    let (queue, back) = replay(&memory, traffic, count)?;
    let (exit, forth) = replay(&memory, traffic, 0)?;
    let ports = [queue, exit].map(|queue| Port {
        quota: case.quota,
        ..Port::from(queue)
    });
    // IPv6 leaves by another port: by the one it came in, Linux would answer with a redirect
    let ports: Vec<_> = match case.traffic {
        Traffic::Flows6 => ports.into(),
        _ => ports.into_iter().take(1).collect(),
    };
    let settings = Settings {
        rules: rules(case.rules),
        // one round holds a whole turn, whatever the quota
        budget: BUDGET.max(case.quota),
        recycling: case.recycling,
        devices: match case.traffic {
            Traffic::Unwrap => Arc::new(tunnels::devices()),
            Traffic::Tagged => Arc::new(vlans::devices(1)),
            _ => Arc::default(),
        },
        policies: match case.traffic {
            Traffic::Policy(count) => Arc::new(policies(count)),
            _ => Arc::default(),
        },
        ..Settings::default()
    };
    let job = machine::worker(tables, &memory, &settings, ports)?;
    let outcome = job.start(Instant::now())?.stop()?;
    ensure!(
        (outcome.sent, back.packets() + forth.packets()) == (count, count),
        "{count} packets in, {} out: {outcome:?}",
        back.packets() + forth.packets()
    );
    Ok(outcome.usage.ran.as_nanos() as f64 / count as f64)
}

/// A queue that delivers `count` packets and drops what is sent.
pub(super) fn replay(
    memory: &Memory,
    traffic: &[[u8; FRAME]],
    count: u64,
) -> anyhow::Result<(Queue, SinkCounter)> {
    let all: Vec<&[u8]> = traffic.iter().map(<[u8; _]>::as_slice).collect();
    let replay = Replay::new(memory.region.clone(), &all).context("packets that fit")?;
    Ok(apparatus::replay(
        memory.region.clone(),
        replay.limited(count),
    ))
}

/// Time for each packet to deliver, move and drop it, without a worker, ns.
pub(super) fn ends(batch: usize, traffic: &[[u8; FRAME]], count: u64) -> anyhow::Result<f64> {
    let region = Arc::new(Region::new(4096, 2048)?);
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), 1024);
    let all: Vec<&[u8]> = traffic.iter().map(<[u8; _]>::as_slice).collect();
    let source = Replay::new(region.clone(), &all).context("packets that fit")?;
    let (mut queue, counter) = apparatus::replay(region, source.limited(count));
    let mut packets = Vec::with_capacity(batch);
    let before = crate::cpu::Usage::of_this_thread()?;
    queue.refill(&mut pool);
    while queue.receive(&mut packets, batch) > 0 {
        queue.refill(&mut pool);
        queue.reclaim(&mut pool);
        queue.transmit(&mut packets);
    }
    let used = crate::cpu::Usage::of_this_thread()?.since(before);
    ensure!(counter.packets() == count, "packets lost");
    Ok(used.ran.as_nanos() as f64 / count as f64)
}
