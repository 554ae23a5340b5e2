//! Goodput under increasing load, by loop (Bianco05, Fig. 4).

use anyhow::Context;
use bora_fib_bench::report::{Report, number};
use bora_fib_bench::run::Observer;
use bora_worker::Mode;

use super::{Capacities, Plan, Section, Trial, middle};
use crate::chart::Panel;
use crate::interrupt::Interrupts;
use crate::machine::Loop;

const GOODPUT: (&str, &str) = ("goodput over capacity", "");
const LOADS: [f64; 15] = [
    0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0,
];
/// The highest of them.
const TEN_TIMES: f64 = 10.0;
const LOOPS: [(&str, Loop); 4] = [
    ("poll", Loop::Worker(Mode::Poll)),
    ("adaptive", Loop::Worker(Mode::Adaptive)),
    (
        "interrupt, moderated",
        Loop::Interrupt(Interrupts::Moderated),
    ),
    ("interrupt", Loop::Interrupt(Interrupts::Each)),
];
/// The curve's measurements are shorter than others by this factor.
const SHORTER: u32 = 4;
/// Pairs of measurements for each round, one at the peak's load and one at the highest.
const PAIRS: usize = 9;
/// Aim: goodput at the highest load over goodput at the peak's load.
const AIM: f64 = 0.99;

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut report = Report::default();
    let mut capacities = Capacities::default();
    // short measurements, so that a disturbance affects several loads and modes
    let (rounds, time) = (plan.rounds, plan.time / SHORTER);
    for round in 1..=rounds {
        eprintln!("overload: round {round} of {rounds}");
        let capacity = capacities.measure(time, false)?;
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
        number(capacities.median()),
        super::trial::RING
    ));
    section.rows = report.rows("poll");
    let mut panel = Panel {
        title: "Goodput under overload".into(),
        axes: ["offered / capacity", "forwarded / capacity"],
        ..Panel::default()
    };
    for (name, run) in LOOPS {
        let all = section.rows.iter().filter(|row| row.subject == name);
        let goodput = all.map(|row| row.median);
        let line: Vec<(f64, f64)> = LOADS.into_iter().zip(goodput).collect();
        let peak = line.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let (load, peak) = peak.context("no loads")?;
        match run {
            Loop::Worker(_) => {
                let rates = [load, TEN_TIMES].map(|load| load * capacities.median());
                eprintln!("overload: pairs of {name}");
                let kept = kept(run, rates, plan)?;
                section.aim(
                    kept >= AIM,
                    format!(
                        "goodput of `{name}` at ten times the capacity at least {AIM} of that at the peak, \
                         load {load}, in {} pairs: {kept:.3}",
                        plan.rounds * PAIRS
                    ),
                );
            }
            Loop::Interrupt(_) => {
                let kept = line.last().map_or(0.0, |last| last.1) / peak;
                section.notes.push(format!(
                    "`{name}` keeps {kept:.2} of its peak at ten times the capacity: the receive \
                     livelock of Bianco05, Fig. 4."
                ));
            }
        }
        panel.lines.push((name.into(), line));
    }
    section.panels.push(panel);
    section.rows.extend(capacities.rows());
    Ok(section)
}

/// Goodput at the second rate over goodput at the first, measured in turn: the median of pairs. The curve
/// alone does not tell, because the highest of many noisy medians is more than the peak.
fn kept(run: Loop, rates: [f64; 2], plan: Plan) -> anyhow::Result<f64> {
    let mut kept = vec![];
    for number in 0..plan.rounds * PAIRS {
        let mut goodput = [0.0; 2];
        for turn in 0..2 {
            // each is first in half of the pairs
            let which = (turn + number) % 2;
            goodput[which] = Trial::single(rates[which], run, plan.time).run()?.goodput();
        }
        kept.push(goodput[1] / goodput[0]);
    }
    Ok(middle(&kept))
}
