use std::cell::Cell;

use proptest::prelude::*;

use super::super::{Sample, binary};
use super::*;

const MOST: f64 = 1e7;
const BOUNDS: Bounds = Bounds {
    least: 1.0,
    most: MOST,
};
const BUDGET: Budget = Budget {
    trials: 2000,
    time: Duration::from_secs(100_000),
};

/// RFC 9971's goal that answers to RFC 2544.
fn rfc2544(seconds: u64) -> Goal {
    Goal {
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        initial_time: Duration::from_secs(1),
        final_time: Duration::from_secs(seconds),
        sum_time: Duration::from_secs(seconds),
        width: 0.005,
    }
}

/// Many short trials.
fn repeated(loss_ratio: f64) -> Goal {
    Goal {
        loss_ratio,
        exceed_ratio: 0.5,
        initial_time: Duration::from_secs(1),
        final_time: Duration::from_secs(1),
        sum_time: Duration::from_secs(21),
        width: 0.005,
    }
}

/// Loss of a router that forwards so much and drops the rest.
fn overload(capacity: f64, load: f64) -> f64 {
    ((load - capacity) / load).max(0.0)
}

fn sample(loss_ratio: f64) -> Sample {
    Sample {
        loss_ratio,
        beyond_tester: false,
    }
}

/// What was found, trials, and seconds of them.
fn run(goals: &[Goal], mut loss: impl FnMut(Request) -> Sample) -> (Vec<Found>, u32, f64) {
    let (mut trials, mut time) = (0, 0.0);
    let found = search(goals, BOUNDS, BUDGET, &mut |request| {
        trials += 1;
        time += request.time.as_secs_f64();
        assert!((BOUNDS.least..=BOUNDS.most).contains(&request.load));
        Ok(loss(request))
    });
    (found.unwrap(), trials, time)
}

proptest! {
    #[test]
    fn any_capacity_is_found_within_the_width(exponent in 0.0..7.5f64, tolerated in 0.0..0.1f64) {
        let capacity = 10f64.powf(exponent);
        let goals = [rfc2544(60), repeated(0.0), repeated(tolerated)];
        let (found, trials, _) = run(&goals, |request| sample(overload(capacity, request.load)));
        for (found, goal) in found.iter().zip(&goals) {
            // the highest load at which no more than the tolerated part is lost
            let truth = (capacity / (1.0 - goal.loss_ratio)).min(MOST);
            prop_assert!(found.complete, "{found:?}");
            let lower = found.lower.unwrap();
            prop_assert!(lower <= truth + GRAIN && lower >= truth * (1.0 - 2.0 * goal.width) - 0.1,
                "{lower} is not near {truth}");
            prop_assert!(found.upper.is_none_or(|upper| upper >= truth - GRAIN));
            prop_assert!(found.throughput.unwrap() <= capacity * 1.0001 + GRAIN);
        }
        prop_assert!(trials < 400, "{trials} trials");
    }

    #[test]
    fn any_monotone_loss_is_found(power in 0.2..8.0f64, knee in 10.0..MOST) {
        // loss that begins softly at the knee
        let loss = |load: f64| (1.0 - (knee / load).min(1.0)).powf(power);
        let goal = rfc2544(10);
        let (found, trials, _) = run(&[goal], |request| sample(loss(request.load)));
        let lower = found[0].lower.unwrap();
        prop_assert!(lower <= knee + GRAIN && lower >= knee * 0.99 - 0.1, "{lower} {knee}");
        prop_assert!(trials < 150);
    }

    #[test]
    fn noise_does_not_lead_far_away(capacity in 1e3..8e6f64, seed: u64) {
        // a fifth of the trials meets a router with up to a tenth less
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noisy = |request: Request| {
            let disturbed = if random.f64() < 0.2 { 1.0 - 0.1 * random.f64() } else { 1.0 };
            sample(overload(capacity * disturbed, request.load))
        };
        let (found, trials, _) = run(&[repeated(0.0)], &mut noisy);
        let lower = found[0].lower.unwrap();
        prop_assert!(lower <= capacity + GRAIN && lower >= capacity * 0.88, "{lower} {capacity}");
        prop_assert!(trials < 1500);
    }

    #[test]
    fn anything_at_all_ends(losses in prop::collection::vec(0.0..1.0f64, 1..50), good in 0.0..1.0f64) {
        // not a function of the load at all
        let turn = Cell::new(0);
        let (found, trials, _) = run(&[rfc2544(60), repeated(0.01)], |_| {
            turn.set(turn.get() + 1);
            let loss = losses[turn.get() % losses.len()];
            sample(if loss < good { 0.0 } else { loss })
        });
        prop_assert!(trials <= BUDGET.trials);
        for found in found {
            if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
                prop_assert!(lower < upper);
            }
        }
    }

    #[test]
    fn halving_finds_the_same(exponent in 1.0..7.5f64) {
        let capacity = 10f64.powf(exponent);
        let goal = binary::Goal {
            loss_ratio: 0.0,
            time: Duration::from_secs(60),
            width: 0.005,
        };
        let mut trials = 0;
        let found = binary::search(&goal, BOUNDS, &mut |request| {
            trials += 1;
            Ok(sample(overload(capacity, request.load)))
        }).unwrap();
        let truth = capacity.min(MOST);
        let lower = found.lower.unwrap();
        prop_assert!(found.complete && lower <= truth && lower >= truth * 0.994 - 0.1, "{lower} {truth}");
        prop_assert!(trials <= 40);
    }
}

#[test]
fn a_router_that_forwards_nothing() {
    let (found, trials, _) = run(&[rfc2544(60)], |_| sample(1.0));
    assert_eq!((found[0].lower, found[0].complete), (None, false));
    assert!(trials < 100, "{trials}");
}

#[test]
fn a_router_faster_than_the_link() {
    let (found, trials, time) = run(&[rfc2544(60)], |_| sample(0.0));
    assert_eq!((found[0].lower, found[0].upper), (Some(MOST), None));
    assert!(found[0].complete && trials == 3 && time < 80.0);
}

#[test]
fn the_testers_limit_is_not_the_routers() {
    let (found, _, _) = run(&[rfc2544(10)], |request| Sample {
        loss_ratio: 0.0,
        beyond_tester: request.load > 1e6,
    });
    assert!(found[0].tester_bound && found[0].lower.unwrap() > 0.99e6);
}

#[test]
fn a_budget_ends_the_search() {
    let budget = Budget {
        trials: 5,
        ..BUDGET
    };
    let found = search(&[rfc2544(60)], BOUNDS, budget, &mut |request| {
        Ok(sample(overload(1e5, request.load)))
    });
    assert!(!found.unwrap()[0].complete);
    let nonsense = Bounds {
        least: 0.0,
        most: 1.0,
    };
    assert!(search(&[], nonsense, BUDGET, &mut |_| unreachable!()).is_err());
}

/// Why it is the default.
#[test]
fn it_is_quicker_than_halving() {
    let mut halving = 0.0;
    let mut mlr = 0.0;
    for seed in 0..200 {
        let capacity = 10f64.powf(4.0 + 3.0 * fastrand::Rng::with_seed(seed).f64());
        let goal = binary::Goal {
            loss_ratio: 0.0,
            time: Duration::from_secs(60),
            width: 0.005,
        };
        binary::search(&goal, BOUNDS, &mut |request| {
            halving += request.time.as_secs_f64();
            Ok(sample(overload(capacity, request.load)))
        })
        .unwrap();
        mlr += run(&[rfc2544(60)], |request| {
            sample(overload(capacity, request.load))
        })
        .2;
    }
    println!(
        "trial time of MLRsearch, to that of halving: {:.2}",
        mlr / halving
    );
    assert!(mlr < 0.5 * halving, "{mlr} {halving}");
}
