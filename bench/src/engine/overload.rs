//! Goodput under increasing load, by loop (Bianco05, Fig. 4).

use bora_fib_bench::report::{Report, number};
use bora_fib_bench::run::Observer;
use bora_worker::Mode;

use super::{Plan, Section, Trial, capacity, middle};
use crate::Results;
use crate::chart::Panel;
use crate::ends;
use crate::interrupt::Interrupts;
use crate::machine::Loop;

/// The case of the capacity.
const BEYOND: &str = "a load beyond any";
const GOODPUT: (&str, &str) = ("goodput over capacity", "");
const LOADS: [f64; 15] = [
    0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0,
];
const LOOPS: [(&str, Loop); 4] = [
    ("poll", Loop::Worker(Mode::Poll)),
    ("adaptive", Loop::Worker(Mode::Adaptive)),
    (
        "interrupt, moderated",
        Loop::Interrupt(Interrupts::Moderated),
    ),
    ("interrupt", Loop::Interrupt(Interrupts::Each)),
];
/// Measurements are shorter than elsewhere by this factor,
const SHORTER: u32 = 4;
/// and more by this one.
const MORE: usize = 2;
/// Aim: goodput at the highest load over the highest goodput.
const AIM: f64 = 0.99;

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut report = Report::default();
    let (mut capacities, mut limits) = (vec![], Results::default());
    // many short measurements, so that a disturbance affects several loads and modes
    let (rounds, time) = (plan.rounds * MORE, plan.time / SHORTER);
    for round in 1..=rounds {
        eprintln!("overload: round {round} of {rounds}");
        let capacity = capacity(time, false)?;
        capacities.push(capacity);
        limits.add(BEYOND, "poll", capacity);
        limits.add(BEYOND, ends::ALONE, super::ends(time, false)?);
        for load in LOADS {
            for (name, run) in LOOPS {
                let measured = Trial::single(load * capacity, run, time).run()?;
                let case = format!("load {load}");
                report.sample(GOODPUT, &case, name, measured.goodput() / capacity);
            }
        }
    }
    let mut section = Section::new("Overload");
    section.notes.push(format!(
        "Capacity: {} packets/s, measured anew in each round with a load beyond any; the median. \
         Receive ring of {} packets.",
        number(middle(&capacities)),
        super::trial::RING
    ));
    section.rows = report.rows("poll");
    let mut panel = Panel {
        title: "Goodput under overload".into(),
        axes: ["offered / capacity", "forwarded / capacity"],
        ..Panel::default()
    };
    for (name, _) in LOOPS {
        let all = section.rows.iter().filter(|row| row.subject == name);
        let goodput: Vec<f64> = all.map(|row| row.median).collect();
        panel.lines.push((
            name.into(),
            LOADS.into_iter().zip(goodput.iter().copied()).collect(),
        ));
        let peak = goodput.iter().copied().fold(0.0, f64::max);
        let kept = goodput.last().copied().unwrap_or(0.0) / peak;
        if name.starts_with("interrupt") {
            section.notes.push(format!(
                "`{name}` keeps {kept:.2} of its peak at ten times the capacity: the receive \
                 livelock of Bianco05, Fig. 4."
            ));
        } else {
            section.aim(
                kept >= AIM,
                format!(
                    "goodput of `{name}` at ten times the capacity at least {AIM} of the peak: {kept:.3}"
                ),
            );
        }
    }
    section.panels.push(panel);
    section
        .rows
        .extend(limits.rows("capacity", "packets/s", "poll"));
    Ok(section)
}
