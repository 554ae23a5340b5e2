//! How fast a service runs beside a worker, on a CPU without a worker and on the worker's own
//! (Bolla08: some cores do not forward).

use std::time::{Duration, Instant};

use bora_fib_bench::report::{Report, number};
use bora_fib_bench::run::Observer;
use bora_worker::Mode;

use super::service::{Busy, OCTETS, Work};
use super::{Capacities, Plan, Section, Trial, middle};
use crate::machine::Loop;

const RATE: (&str, &str) = ("rate of the service, of its rate alone", "%");
const GOODPUT: (&str, &str) = ("goodput of the worker, of its capacity alone", "%");
const FREE: &str = "service on the free CPU";
const SHARED: &str = "service on the worker's CPU";
const NONE: &str = "no service";
/// CPU of the worker, or of the thread that replaces it.
const FORWARDING: usize = 0;
/// The other one.
const OTHER: usize = 1;
/// Loads, relative to the capacity: certainly full, and half.
const LOADS: [(&str, f64); 2] = [("full load", 2.0), ("half load", 0.5)];
const MODES: [Mode; 2] = [Mode::Poll, Mode::Adaptive];
/// Aim: rate of the service beside a worker, relative to its rate beside another service.
const AIM: f64 = 0.95;
/// Measurements are shorter than elsewhere by this factor,
const SHORTER: u32 = 2;
/// and more by this one.
const MORE: usize = 4;
/// Time for setting everything up.
const LEAD: Duration = Duration::from_millis(30);

/// What runs beside the service.
#[derive(Clone, Copy)]
enum Neighbour {
    Nothing,
    Busy(Work),
    Worker { mode: Mode, rate: f64 },
}

/// The results.
struct Measured {
    /// Rounds of the service per second in which it or the neighbour had its CPU.
    rate: f64,
    /// Packets of the worker, per second likewise.
    goodput: Option<f64>,
}

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("Services");
    if std::thread::available_parallelism()?.get() < 2 {
        section.notes.push("Skipped: there is one CPU only.".into());
        return Ok(section);
    }
    let mut report = Report::default();
    let mut capacities = Capacities::default();
    let (mut rates, mut kept) = (vec![], vec![]);
    // many short measurements, so that a disturbance affects several cases
    let (rounds, time) = (plan.rounds * MORE, plan.time / SHORTER);
    for round in 1..=rounds {
        eprintln!("services: round {round} of {rounds}");
        let capacity = capacities.measure(time, false)?;
        let alone = beside(Neighbour::Nothing, OTHER, time)?.rate;
        rates.push(alone);
        let mut copy = f64::NAN;
        for (case, neighbour) in neighbours(capacity) {
            for (subject, core) in [(FREE, OTHER), (SHARED, FORWARDING)] {
                let measured = beside(neighbour, core, time)?;
                report.sample(RATE, &case, subject, 100.0 * measured.rate / alone);
                if let Some(goodput) = measured.goodput {
                    report.sample(GOODPUT, &case, subject, 100.0 * goodput / capacity);
                }
                match neighbour {
                    Neighbour::Busy(Work::Service) if core == OTHER => copy = measured.rate,
                    Neighbour::Worker { .. } if core == OTHER => kept.push(measured.rate / copy),
                    _ => {}
                }
            }
            if let Neighbour::Worker { mode, rate } = neighbour {
                let goodput = trial(rate, mode, time).run()?.goodput();
                report.sample(GOODPUT, &case, NONE, 100.0 * goodput / capacity);
            }
        }
    }
    section.notes.push(format!(
        "A service hashes {OCTETS} octets {} times a second alone, on CPU {OTHER}; the worker, or \
         what is in its place, is on CPU {FORWARDING}.",
        number(middle(&rates))
    ));
    section.rows = report.rows(FREE);
    section.rows.extend(capacities.rows());
    let kept = middle(&kept);
    section.aim(
        kept >= AIM,
        format!(
            "on the free CPU at least {AIM} of what the service keeps beside a copy of itself: {kept:.3}"
        ),
    );
    Ok(section)
}

/// The neighbours in the order of the table; the second service first.
fn neighbours(capacity: f64) -> Vec<(String, Neighbour)> {
    let mut all = vec![
        ("a second service".into(), Neighbour::Busy(Work::Service)),
        ("a spinning thread".into(), Neighbour::Busy(Work::Spinning)),
    ];
    for mode in MODES {
        for (name, load) in LOADS {
            let rate = load * capacity;
            all.push((
                format!("a worker, {mode}, {name}"),
                Neighbour::Worker { mode, rate },
            ));
        }
    }
    all
}

fn trial(rate: f64, mode: Mode, time: Duration) -> Trial {
    Trial {
        core: Some(FORWARDING),
        ..Trial::single(rate, Loop::Worker(mode), time)
    }
}

/// Runs a service on CPU `core` and its neighbour on [`FORWARDING`]. If both are on one CPU, time
/// is the sum of what both ran, so that other work on the machine does not count.
fn beside(neighbour: Neighbour, core: usize, time: Duration) -> anyhow::Result<Measured> {
    let start = Instant::now() + LEAD;
    let end = start + time;
    let service = Busy::start(Work::Service, core, start, end)?;
    let (mut theirs, mut measured) = (Duration::ZERO, None);
    match neighbour {
        Neighbour::Nothing => {}
        Neighbour::Busy(work) => {
            theirs = Busy::start(work, FORWARDING, start, end)?.finish()?.ran;
        }
        Neighbour::Worker { mode, rate } => {
            let trial = Trial {
                start: Some(start),
                ..trial(rate, mode, time)
            };
            let result = trial.run()?;
            theirs = result.outcome.usage.ran;
            measured = Some(result);
        }
    }
    let done = service.finish()?;
    let shared = core == FORWARDING;
    let had = done.ran + if shared { theirs } else { Duration::ZERO };
    let goodput = measured.map(|measured| match shared {
        true => measured.outcome.sent as f64 / had.as_secs_f64(),
        false => measured.goodput(),
    });
    Ok(Measured {
        rate: done.rounds as f64 / had.as_secs_f64(),
        goodput,
    })
}
