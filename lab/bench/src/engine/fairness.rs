//! Shares of output that two inputs get under overload (Bianco05, Fig. 8 and 9).

use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_worker::Mode;

use super::{Capacities, Input, Measured, Plan, Section, Trial, middle};
use crate::machine::Loop;

const SHARE: (&str, &str) = ("share of what leaves", "%");
const LOADS: [f64; 5] = [0.8, 1.5, 3.0, 10.0, 30.0];
const QUOTAS: [[u32; 2]; 2] = [[64, 64], [270, 27]];
/// Offered load of the first input, as a multiple of the second's.
const RATIO: f64 = 10.0;
/// Aim: largest relative deviation of a share from the ideal one.
const AIM: f64 = 0.05;

/// Runs the benchmark.
///
/// # Errors
/// A packet was lost without being counted, or a flow was out of order.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut report = Report::default();
    let mut capacities = Capacities::default();
    let mut worst = vec![];
    for round in 1..=plan.rounds {
        eprintln!("fairness: round {round} of {}", plan.rounds);
        let capacity = capacities.measure(plan.time, false)?;
        let mut largest = 0.0f64;
        for quotas in QUOTAS {
            for load in LOADS {
                let offered = [RATIO, 1.0].map(|part| load * capacity * part / (RATIO + 1.0));
                let measured = measure(plan, quotas, offered)?;
                let total = measured.outcome.sent as f64;
                // ignore what arrived while the worker had no CPU
                let present = measured.time.as_secs_f64() / plan.time.as_secs_f64();
                let demands = [0, 1].map(|input| measured.arrived[input] as f64 * present);
                let ideal = max_min(demands, quotas.map(f64::from), total);
                let [first, second] = quotas;
                for input in 0..2 {
                    let port = ["first", "second"][input];
                    let case = format!("quotas {first}/{second}, load {load}, {port} input");
                    let got = measured.delivered[input] as f64;
                    let percent = 100.0 / total;
                    report.sample(SHARE, &case, "measured", got * percent);
                    report.sample(SHARE, &case, "ideal", ideal[input] * percent);
                    largest = largest.max((got / ideal[input] - 1.0).abs());
                }
            }
        }
        worst.push(largest);
    }
    let mut section = Section::new("Fairness");
    section.notes.push(
        "Two inputs, offered 10:1, one output; load in units of the capacity. Ideal is max-min \
         fair in proportion to the quotas, of what was forwarded."
            .into(),
    );
    section.rows = report.rows("ideal");
    section.rows.extend(capacities.rows());
    let largest = middle(&worst);
    section.aim(
        largest <= AIM,
        format!(
            "shares within {:.0} % of the ideal at every load: {:.1} % (the round's worst, median)",
            100.0 * AIM,
            100.0 * largest
        ),
    );
    Ok(section)
}

fn measure(plan: Plan, quotas: [u32; 2], offered: [f64; 2]) -> anyhow::Result<Measured> {
    let input = |(quota, rate)| Input {
        quota,
        ..Input::of_rate(rate)
    };
    let trial = Trial {
        inputs: quotas.into_iter().zip(offered).map(input).collect(),
        ..Trial::single(0.0, Loop::Worker(Mode::Poll), plan.time)
    };
    trial.run()
}

/// Max-min fair shares of `total`, in proportion to the weights: no one gets more than its demand, and what
/// one does not need goes to the other.
fn max_min(demands: [f64; 2], weights: [f64; 2], total: f64) -> [f64; 2] {
    let fair = weights.map(|weight| total * weight / (weights[0] + weights[1]));
    for (one, other) in [(0, 1), (1, 0)] {
        if demands[one] < fair[one] {
            let mut shares = demands;
            shares[other] = demands[other].min(total - demands[one]);
            return shares;
        }
    }
    fair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_share_goes_to_the_other() {
        assert_eq!(max_min([10.0, 1.0], [1.0, 1.0], 8.0), [7.0, 1.0]);
        assert_eq!(max_min([10.0, 9.0], [1.0, 1.0], 8.0), [4.0, 4.0]);
        assert_eq!(max_min([10.0, 9.0], [3.0, 1.0], 8.0), [6.0, 2.0]);
        assert_eq!(max_min([1.0, 9.0], [10.0, 1.0], 8.0), [1.0, 7.0]);
        assert_eq!(max_min([3.0, 2.0], [1.0, 1.0], 5.0), [3.0, 2.0]);
    }
}
