//! Live frames on a veth pair between two namespaces: rate per core, and pacing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use bora_lab::Namespace;
use bora_tester::clock;
use bora_tester::live::{Receiver, Sender, Sent};
use bora_tester::schedule::Schedule;
use bora_tester::trial::TrialSpec;

use super::{link, traffic};
use crate::Results;
use crate::cpu::Usage;
use crate::engine::{Plan, Section};

const LEAD: u64 = 20_000_000;
const RATES: [f64; 4] = [1e3, 1e4, 1e5, 1e6];
const FLOWS: [u32; 2] = [1, 1024];

struct Run {
    sent: Sent,
    received: u64,
    elapsed: f64,
    used: Duration,
}

/// Runs it.
///
/// # Errors
/// No right to make namespaces, or the kernel refuses live frames.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let (left, right) = (Namespace::new("left")?, Namespace::new("right")?);
    let pair = ["ip", "link", "add", "e0", "type", "veth", "peer", "name"];
    left.run(&[&pair[..], &["e0", "netns", right.name()]].concat())?;
    for space in [&left, &right] {
        space.run(&["ethtool", "-K", "e0", "gro", "on"])?;
    }
    for space in [&left, &right] {
        space.run(&["ip", "link", "set", "e0", "up"])?;
    }
    let index = right.ifindex("e0")?;
    let mut receiver = inside(&right, || Receiver::new(index))?;
    let (mut rates, mut cores) = (Results::default(), Results::default());
    let (mut errors, mut lateness) = (Results::default(), Results::default());
    for round in 1..=plan.rounds {
        eprintln!("veth: round {round} of {}", plan.rounds);
        for flows in FLOWS {
            let run = once(&left, &mut receiver, flows, f64::INFINITY, plan.time)?;
            let case = format!("live frames, {flows} flows");
            rates.add(&case, "bora", run.received as f64 / run.elapsed);
            cores.add(&case, "bora", run.received as f64 / run.used.as_secs_f64());
        }
        for rate in RATES {
            let time = plan.time.max(Duration::from_secs(1));
            let run = once(&left, &mut receiver, 1, rate, time)?;
            let sent: u64 = run.sent.streams.iter().sum();
            let case = format!("live frames, {rate}/s");
            let error = (sent as f64 / time.as_secs_f64() / rate - 1.0).abs() * 100.0;
            errors.add(&case, "bora", error);
            let late = run.sent.lateness.value_at_quantile(0.99) as f64 / 1e3;
            lateness.add(&case, "bora", late);
        }
    }
    let mut section = Section::new("veth");
    section.rows = rates.rows("throughput", "packets/s", "bora");
    section
        .rows
        .extend(cores.rows("packets per CPU-second", "1/s", "bora"));
    let errors = errors.rows("pacing error", "%", "bora");
    for row in &errors {
        let text = format!("{}: {:.3} % off the rate, below 1 %", row.case, row.median);
        section.aim(row.median < 1.0, text);
    }
    section.rows.extend(errors);
    section
        .rows
        .extend(lateness.rows("lateness, 99th percentile", "us", "bora"));
    Ok(section)
}

fn once(
    left: &Namespace,
    receiver: &mut Receiver,
    flows: u32,
    rate: f64,
    time: Duration,
) -> anyhow::Result<Run> {
    let traffic = Arc::new(traffic(flows));
    let schedule = Schedule::new(&TrialSpec::steady(traffic.clone(), rate, time))?;
    let index = left.ifindex("e0")?;
    let (sent, elapsed, used) = inside(left, || {
        let mut sender = Sender::new(index)?;
        sender.prepare(&traffic, 0, &[link()])?;
        let start = clock::now() + LEAD;
        receiver.reset(&traffic, 1, start)?;
        let before = Usage::of_this_thread()?;
        let sent = sender.run(&schedule, start, &AtomicBool::new(false))?;
        let used = Usage::of_this_thread()?.since(before).ran;
        let elapsed = (clock::now() - start) as f64 / 1e9;
        Ok((sent, elapsed, used))
    })?;
    thread::sleep(Duration::from_millis(50));
    let received = receiver.findings()?.streams[0].received;
    Ok(Run {
        sent,
        received,
        elapsed,
        used,
    })
}

fn inside<T: Send>(
    space: &Namespace,
    run: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            space.enter()?;
            run()
        });
        worker.join().map_err(|_| anyhow!("a thread failed"))?
    })
}
