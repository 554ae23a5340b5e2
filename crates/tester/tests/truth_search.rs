//! What the searches find, against a router of known capacity, buffer and loss.
//!
//! A trial cannot see a loss that the buffer hides: in T seconds a router of C packets/s with a
//! buffer of B packets carries C + B / T without one. Stated error of a search: that, and the width
//! of its goal.

mod model;

use std::time::Duration;

use bora_port::fault::{Capacity, Faults, Loss};
use bora_tester::search::{Bounds, Found, Request, Sample, binary, mlr};
use bora_tester::trial::{Bench, TrialSpec};

use model::{Model, testbed::Testbed, traffic};

const TIME: Duration = Duration::from_millis(50);
const RATE: f64 = 20_000.0;
const BUFFER: u64 = 10;
const WIDTH: f64 = 0.02;
const BOUNDS: Bounds = Bounds {
    least: 1_000.0,
    most: 40_000.0,
};

fn router(loss: f64) -> Testbed {
    let faults = Faults {
        seed: 11,
        capacity: Some(Capacity {
            rate: RATE,
            buffer: BUFFER,
        }),
        loss: Some(Loss::random(loss)),
        ..Faults::default()
    };
    Testbed::new(
        2,
        &Model {
            faults,
            ..Model::default()
        },
    )
}

/// A trial whose every frame was sent; a machine that is busy elsewhere gets a second chance.
fn measure(testbed: &mut Testbed, request: Request) -> anyhow::Result<Sample> {
    let spec = TrialSpec::steady(traffic::one_way(), request.load, request.time);
    let offered = request.load * request.time.as_secs_f64();
    for _ in 0..5 {
        let trial = testbed.trial(&spec)?;
        if trial.counts().sent as f64 > offered - 2.0 {
            return Ok(Sample {
                loss_ratio: trial.counts().loss_ratio(),
                beyond_tester: false,
            });
        }
    }
    anyhow::bail!("the tester could not send {offered} frames in time")
}

/// Loads with this loss, 0 to 1, at the capacity.
fn check(found: &Found, loss: f64) {
    let carried = RATE + BUFFER as f64 / TIME.as_secs_f64();
    let (least, most) = (RATE, carried / (1.0 - loss));
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    assert!(lower > least * (1.0 - WIDTH) && lower < most, "{found:?}");
    assert!(upper > least && upper < most * (1.0 + WIDTH), "{found:?}");
    assert!(
        (upper - lower) / upper <= WIDTH && found.complete,
        "{found:?}"
    );
}

#[test]
fn a_binary_search_finds_the_capacity() {
    let mut testbed = router(0.0);
    let goal = binary::Goal {
        loss_ratio: 0.0,
        time: TIME,
        width: WIDTH,
    };
    let mut trial = |request| measure(&mut testbed, request);
    let found = binary::search(&goal, BOUNDS, &mut trial).unwrap();
    check(&found, 0.0);
}

#[test]
fn mlrsearch_finds_the_capacity_for_two_goals() {
    let mut testbed = router(0.0);
    let goal = |loss_ratio| mlr::Goal {
        loss_ratio,
        exceed_ratio: 0.0,
        initial_time: TIME / 2,
        final_time: TIME,
        sum_time: TIME,
        width: WIDTH,
    };
    let budget = mlr::Budget {
        trials: 60,
        time: Duration::from_secs(3),
    };
    let mut trial = |request| measure(&mut testbed, request);
    let found = mlr::search(&[goal(0.0), goal(0.1)], BOUNDS, budget, &mut trial).unwrap();
    check(&found[0], 0.0);
    check(&found[1], 0.1);
    // a tenth may be lost, so that the load may be a ninth higher
    assert!(found[1].upper.unwrap() > RATE / 0.9, "{found:?}");
}

#[test]
fn a_router_that_loses_a_little_at_any_load() {
    let mut testbed = router(0.02);
    let goal = |loss_ratio| binary::Goal {
        loss_ratio,
        time: TIME,
        width: WIDTH,
    };
    let mut trial = |request| measure(&mut testbed, request);
    let found = binary::search(&goal(0.0), BOUNDS, &mut trial).unwrap();
    // what a short trial at a low load can miss by chance
    assert!(
        found.lower.is_none_or(|lower| lower < 11_000.0),
        "{found:?}"
    );
    let found = binary::search(&goal(0.05), BOUNDS, &mut trial).unwrap();
    // 98 % of the load meet the capacity, so that 5 % are lost once it is 5 % above
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    assert!(upper > 1.04 * RATE && lower < 1.07 * RATE, "{found:?}");
}
