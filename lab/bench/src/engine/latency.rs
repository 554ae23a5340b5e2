//! Latency from a packet's arrival to its departure, by mode and load.
//!
//! Arrivals follow the clock whether or not the worker keeps up, so a waiting packet makes those
//! behind it wait too (no coordinated omission).

use std::time::Duration;

use bora_fib_bench::report::{Report, number};
use bora_fib_bench::run::Observer;
use bora_worker::Mode;

use super::{Capacities, Plan, Section, Trial};
use crate::interrupt::Interrupts;
use crate::machine::Loop;

const LOADS: [f64; 2] = [0.5, 0.9];
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
const LOSS: (&str, &str) = ("lost", "%");
/// Disturbance by other work on the machine; it explains the highest quantiles and losses.
const WAITED: (&str, &str) = ("worker waited for a CPU", "% of the time");

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let moderated = Mode::Moderated {
        packets: 64,
        time: Duration::from_micros(50),
    };
    let loops = [
        ("poll", Loop::Worker(Mode::Poll)),
        ("adaptive", Loop::Worker(Mode::Adaptive)),
        ("moderated", Loop::Worker(moderated)),
        (
            "interrupt, moderated",
            Loop::Interrupt(Interrupts::Moderated),
        ),
    ];
    let mut report = Report::default();
    let mut capacities = Capacities::default();
    for round in 1..=plan.rounds {
        eprintln!("latency: round {round} of {}", plan.rounds);
        let capacity = capacities.measure(plan.time, true)?;
        for load in LOADS {
            for (name, run) in loops {
                let trial = Trial {
                    latency: true,
                    ..Trial::single(load * capacity, run, plan.time)
                };
                let measured = trial.run()?;
                let Some(latency) = &measured.latency else {
                    continue;
                };
                let case = format!("load {load}");
                for (quantile, part) in QUANTILES {
                    let time = latency.value_at_quantile(part) as f64 / 1e3;
                    report.sample((quantile, "us"), &case, name, time);
                }
                let arrived: u64 = measured.arrived.iter().sum();
                let lost = 1.0 - measured.outcome.sent as f64 / arrived as f64;
                report.sample(LOSS, &case, name, 100.0 * lost);
                let waited = measured.outcome.usage.waited.as_secs_f64();
                let waited = 100.0 * waited / plan.time.as_secs_f64();
                report.sample(WAITED, &case, name, waited);
            }
        }
    }
    let mut section = Section::new("Latency");
    section.notes.push(format!(
        "Load in units of the capacity with the clocks of this measurement, {} packets/s.",
        number(capacities.median())
    ));
    section.rows = report.rows("poll");
    section.rows.extend(capacities.rows());
    Ok(section)
}
