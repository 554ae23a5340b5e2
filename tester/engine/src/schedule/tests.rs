use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::test_traffic::one_flow;
use crate::trial::StreamOutcome;

fn spec(steps: &[(f64, Duration)], burst: u32, limit: Option<u64>) -> TrialSpec {
    let steps = steps.iter().map(|&(rate, time)| Step { rate, time });
    TrialSpec {
        steps: steps.collect(),
        burst,
        limit,
        ..TrialSpec::steady(Arc::new(one_flow(64)), 0.0, Duration::ZERO)
    }
}

fn schedule(steps: &[(f64, Duration)], burst: u32, limit: Option<u64>) -> Schedule {
    Schedule::new(&spec(steps, burst, limit)).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn evenly_and_in_bursts() {
    let even = schedule(&[(1e6, SECOND)], 1, None);
    assert_eq!(
        [0, 1, 999_999].map(|k| even.due(k).unwrap()),
        [0, 1000, 999_999_000]
    );
    assert_eq!(even.due(1_000_000), None);
    assert_eq!(
        (even.frames(), even.end()),
        (Some(1_000_000), 1_000_000_000)
    );
    assert_eq!(
        [0, 999, 1000, 2_000_000_000].map(|at| even.due_by(at)),
        [1, 1, 2, 1_000_000]
    );

    let bursts = schedule(&[(1000.0, SECOND)], 64, None);
    assert_eq!(
        [0, 63, 64, 999].map(|k| bursts.due(k).unwrap()),
        [0, 0, 64_000_000, 960_000_000]
    );
    assert_eq!(
        [0, 63_999_999, 64_000_000].map(|at| bursts.due_by(at)),
        [64, 64, 128]
    );
    assert_eq!(
        bursts.frames(),
        Some(1000),
        "the last burst is a shorter one"
    );
}

#[test]
fn steps_pauses_and_limits() {
    let steps = [(1000.0, SECOND), (0.0, SECOND), (10.0, SECOND)];
    let both = schedule(&steps, 1, None);
    assert_eq!(both.frames(), Some(1010));
    assert_eq!(
        [999, 1000, 1001].map(|k| both.due(k).unwrap()),
        [999_000_000, 2_000_000_000, 2_100_000_000]
    );
    assert_eq!(both.due_by(1_900_000_000), 1000);
    assert_eq!(both.end(), 3_000_000_000);
    let limited = schedule(&steps, 1, Some(7));
    assert_eq!(
        (
            limited.frames(),
            limited.due_by(u64::MAX / 2),
            limited.due(7)
        ),
        (Some(7), 7, None)
    );
    let nothing = schedule(&[], 1, None);
    assert_eq!(
        (nothing.frames(), nothing.due_by(5), nothing.due(0)),
        (Some(0), 0, None)
    );
}

#[test]
fn as_fast_as_it_goes() {
    let fast = schedule(&[(10.0, SECOND), (f64::INFINITY, SECOND)], 1, None);
    assert_eq!((fast.frames(), fast.due(10)), (None, Some(1_000_000_000)));
    assert_eq!(fast.due_by(999_999_999), 10);
    assert_eq!(fast.due_by(1_000_000_000), u64::MAX);
    assert!(fast.unpaced(1_000_000_000) && !fast.unpaced(999_999_999));
    let limited = schedule(&[(f64::INFINITY, SECOND)], 1, Some(100));
    assert_eq!((limited.frames(), limited.due_by(0)), (Some(100), 100));
    let slow = schedule(&[(10.0, SECOND)], 1, None);
    assert!(!slow.unpaced(0));
}

#[test]
fn nonsense_is_refused() {
    let refused = |steps: &[(f64, Duration)], burst| {
        let error = Schedule::new(&spec(steps, burst, None)).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refused(&[(-1.0, SECOND)], 1),
        "step 0 has a rate of -1 frames/s; a rate is 0 or more"
    );
    assert!(refused(&[(f64::NAN, SECOND)], 1).contains("NaN"));
    assert!(refused(&[(f64::INFINITY, SECOND), (1.0, SECOND)], 1).starts_with("step 0 is as fast"));
    assert!(refused(&[(1.0, SECOND)], 0).starts_with("bursts of no frames"));
}

/// Frame k of a step of `numerator / denominator` frames a second is due k / rate seconds after its
/// start: exactly, in whole numbers.
fn exact(k: u64, numerator: u64, denominator: u64) -> u64 {
    let due = u128::from(k) * u128::from(denominator) * 1_000_000_000 / u128::from(numerator);
    due as u64
}

proptest! {
    #[test]
    fn no_drift_in_an_hour(rate in 1u64..20_000_000_000, at in 0.0..1.0f64, burst in 1u32..100) {
        // rates of a thousandth of a frame and above
        let hour = Duration::from_secs(3600);
        let schedule = schedule(&[(rate as f64 / 1000.0, hour)], burst, None);
        let frames = schedule.frames().unwrap();
        let expected = u128::from(rate) * 3600;
        prop_assert!(u128::from(frames).abs_diff(expected.div_ceil(1000)) <= 1);
        let k = (frames as f64 * at) as u64;
        let due = schedule.due(k.min(frames - 1)).unwrap();
        let first = k.min(frames - 1);
        let first = first - first % u64::from(burst);
        prop_assert!(due.abs_diff(exact(first, rate, 1000)) <= 1);
    }

    #[test]
    fn due_by_counts_what_is_due(
        rates in proptest::collection::vec((0u32..100_000, 0u64..3_000_000), 1..4),
        burst in 1u32..10,
        limit in prop_oneof![Just(None), (0u64..500).prop_map(Some)],
        elapsed in 0u64..10_000_000,
    ) {
        let steps: Vec<_> = rates.iter().map(|&(rate, time)| (rate.into(), Duration::from_nanos(time))).collect();
        let schedule = schedule(&steps, burst, limit);
        let frames = schedule.frames().unwrap();
        let dues: Vec<u64> = (0..frames).map(|k| schedule.due(k).unwrap()).collect();
        prop_assert!(dues.is_sorted());
        prop_assert!(dues.iter().all(|&due| due < schedule.end()));
        prop_assert_eq!(schedule.due(frames), None);
        let due = dues.iter().filter(|&&due| due <= elapsed).count() as u64;
        prop_assert_eq!(schedule.due_by(elapsed), due);
        for &due in dues.iter().take(20) {
            let count = dues.iter().filter(|&&other| other <= due).count() as u64;
            prop_assert_eq!(schedule.due_by(due), count);
        }
    }
}

#[test]
fn rates_are_of_the_schedule_if_all_of_it_was_sent() {
    let traffic = Arc::new(one_flow(64));
    let senders = traffic.senders().len() as u64;
    let second = Duration::from_secs(1);
    let rate = |spec: &TrialSpec, sent: u64| {
        let outcome = StreamOutcome::of(sent * senders, sent * senders / 2);
        // the last frames left late
        let trial = Trial::of(vec![outcome], second.mul_f64(1.25));
        trial.on_schedule(spec).received_rate() / senders as f64
    };
    let mut spec = TrialSpec::steady(traffic.clone(), 1000.0, second);
    assert_eq!(rate(&spec, 1000), 500.0);
    assert_eq!(rate(&spec, 998), 499.0 / 1.25);
    spec.limit = Some(1000);
    assert_eq!(rate(&spec, 1000), 400.0);
    let spec = TrialSpec::steady(traffic.clone(), f64::INFINITY, second);
    assert_eq!(rate(&spec, 1000), 400.0);
}
