//! Two priorities at a full output (HERO09, Fig. 10 and 11).

use std::time::Duration;

use bora_contract::Reason;
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_forward::schedule::{ClassConfig, OutputConfig, QueueLimits, Shaping};
use bora_worker::Mode;

use super::{Input, Plan, Section, Trial, middle};
use crate::chart::Panel;
use crate::machine::Loop;
use crate::packets::{EXPEDITED, FRAME};

const DELIVERED: (&str, &str) = ("delivered, of the output's rate", "%");
/// Rate of the output, packets/s: so low that neither the worker nor the ends are ever the bottleneck, so the
/// ends are not measured.
const RATE: f64 = 100_000.0;
/// Offered load of high priority, relative to the output's rate; low priority always offers 1.
const LOADS: [f64; 9] = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5];
/// Burst size of the output, octets; 1.4 ms.
const BURST: u32 = 8 << 10;
/// Queue length of each class, packets. It is short, because what is queued at the end is sent
/// afterwards.
const QUEUE: u32 = 200;
/// Aim: largest deviation from strict priority, relative to the output's rate.
const AIM: f64 = 0.02;

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut report = Report::default();
    let (mut losses, mut errors) = (vec![], vec![]);
    let time = plan.time.max(Duration::from_millis(500));
    for round in 1..=plan.rounds {
        eprintln!("priorities: round {round} of {}", plan.rounds);
        let (mut lost, mut error) = (0.0f64, 0.0f64);
        for load in LOADS {
            for (classes, name) in [(1, "one class"), (2, "two classes")] {
                let measured = trial(load, classes, time).run()?;
                let case = format!("high offers {:.0} %", 100.0 * load);
                let got = [0, 1]
                    .map(|input| measured.delivered[input] as f64 / (RATE * time.as_secs_f64()));
                for (input, priority) in ["high", "low"].into_iter().enumerate() {
                    let subject = format!("{name}: {priority}");
                    report.sample(DELIVERED, &case, &subject, 100.0 * got[input]);
                }
                if classes == 2 && load > 0.0 {
                    let high = load.min(1.0);
                    error = error.max((got[0] - high).abs());
                    error = error.max((got[1] - (1.0 - high)).abs());
                    if load < 1.0 {
                        // the scheduler does not cause losses of the receive ring
                        let ring = measured.outcome.losses[0].dropped[Reason::RxRingFull];
                        let received = (measured.arrived[0] - ring) as f64;
                        lost = lost.max(1.0 - measured.delivered[0] as f64 / received);
                    }
                }
            }
        }
        losses.push(lost);
        errors.push(error);
    }
    let mut section = Section::new("Priorities");
    section.notes.push(format!(
        "Two inputs to an output of {RATE:.0} packets/s; low priority offers 100 % of it."
    ));
    section.rows = report.rows("");
    section.panels.push(panel(&section));
    let (lost, error) = (middle(&losses), middle(&errors));
    section.aim(
        lost == 0.0,
        format!(
            "high priority loses nothing until it alone exceeds the output: {:.3} % lost",
            100.0 * lost
        ),
    );
    section.aim(
        error <= AIM,
        format!(
            "both within {:.0} % of the output's rate of what strict priority gives: {:.2} %",
            100.0 * AIM,
            100.0 * error
        ),
    );
    Ok(section)
}

fn trial(load: f64, classes: usize, time: Duration) -> Trial {
    let level = |level| ClassConfig {
        limits: QueueLimits {
            packets: QUEUE,
            ..QueueLimits::default()
        },
        ..ClassConfig::strict(level)
    };
    let levels = [level(0), level(1)];
    let high = Input {
        // a load of 0 is one packet at the start
        rate: (load * RATE).max(1e-3),
        dscp: EXPEDITED,
        ..Input::of_rate(0.0)
    };
    Trial {
        inputs: vec![high, Input::of_rate(RATE)],
        output: OutputConfig {
            classes: levels[..classes].to_vec(),
            shaping: Some(Shaping {
                rate: (RATE * 8.0 * FRAME as f64) as u64,
                burst: BURST,
            }),
        },
        jitter: true,
        ..Trial::single(0.0, Loop::Worker(Mode::Poll), time)
    }
}

fn panel(section: &Section) -> Panel {
    let mut panel = Panel {
        title: "Two priorities at a full output".into(),
        axes: ["offered high priority (%)", "delivered (%)"],
        ..Panel::default()
    };
    for subject in [
        "two classes: high",
        "two classes: low",
        "one class: high",
        "one class: low",
    ] {
        let all = section.rows.iter().filter(|row| row.subject == subject);
        let points = all.zip(LOADS).map(|(row, load)| (100.0 * load, row.median));
        panel.lines.push((subject.into(), points.collect()));
    }
    panel
}
