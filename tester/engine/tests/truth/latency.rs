//! What the tester measures of latency, against a router that adds what it was told.
//!
//! Stated error: 5 % and 100 us, on a machine that other work keeps busy. A router and a tester on
//! shared CPUs can only be late, so the least of up to twenty trials counts for each quantile, and
//! none may be too low.

use std::time::Duration;

use bora_apparatus::fault::{Capacity, Faults, Jitter};
use bora_tester::trial::{Bench, TrialSpec};

use super::model::{Model, testbed::Testbed, traffic};

const TRIES: u32 = 20;
const MS: f64 = 1e6;

/// Measures the latencies of `spec` behind `faults`; the quantiles must be those expected, ns.
fn check(faults: &Faults, spec: &TrialSpec, expected: &[(f64, f64)]) {
    let model = Model {
        faults: faults.clone(),
        ..Model::default()
    };
    let mut testbed = Testbed::new(2, &model);
    let mut least = vec![f64::INFINITY; expected.len()];
    for _ in 0..TRIES {
        let trial = testbed.trial(spec).unwrap();
        assert_eq!(trial.counts().lost(), 0);
        let latency = trial.latency();
        for (least, &(quantile, expected)) in least.iter_mut().zip(expected) {
            let found = latency.value_at_quantile(quantile) as f64;
            assert!(found > expected - error(expected), "{quantile}: {found}");
            *least = least.min(found);
        }
        if is_near(&least, expected) {
            return;
        }
    }
    panic!("found {least:?} for {expected:?}");
}

fn is_near(least: &[f64], expected: &[(f64, f64)]) -> bool {
    let mut both = least.iter().zip(expected);
    both.all(|(found, &(_, expected))| *found < expected + error(expected))
}

fn error(expected: f64) -> f64 {
    0.05 * expected + 0.1 * MS
}

/// A tenth of a second of 20 000 packets/s.
fn steady() -> TrialSpec {
    TrialSpec::steady(traffic::one_way(), 20_000.0, Duration::from_millis(100))
}

#[test]
fn a_constant_delay() {
    let faults = Faults {
        delay: Duration::from_millis(2),
        ..Faults::default()
    };
    check(&faults, &steady(), &[(0.0, 2.0 * MS), (0.5, 2.0 * MS)]);
}

#[test]
fn jitter_of_known_distribution() {
    let uniform = Faults {
        delay: Duration::from_millis(4),
        jitter: Some(Jitter::Uniform(Duration::from_millis(16))),
        ..Faults::default()
    };
    let quantile = |q: f64| (q, (4.0 + 16.0 * q) * MS);
    check(&uniform, &steady(), &[0.1, 0.5, 0.9].map(quantile));
    let exponential = Faults {
        jitter: Some(Jitter::Exponential(Duration::from_millis(8))),
        ..uniform
    };
    let quantile = |q: f64| (q, (4.0 - 8.0 * (1.0 - q).ln()) * MS);
    check(&exponential, &steady(), &[0.1, 0.5, 0.9].map(quantile));
}

#[test]
fn the_wait_of_each_packet_of_a_burst() {
    let faults = Faults {
        capacity: Some(Capacity {
            rate: 2_500.0,
            buffer: 100,
        }),
        ..Faults::default()
    };
    // 100 at once every 50 ms, served one in 0.4 ms
    let spec = TrialSpec {
        burst: 100,
        ..TrialSpec::steady(traffic::one_way(), 2_000.0, Duration::from_millis(100))
    };
    let quantile = |q: f64| (q, 40.0 * q * MS);
    check(&faults, &spec, &[0.1, 0.5, 0.9].map(quantile));
}

#[test]
fn overload_counts_from_when_packets_were_due() {
    let faults = Faults {
        capacity: Some(Capacity {
            rate: 10_000.0,
            buffer: 10_000,
        }),
        ..Faults::default()
    };
    // twice what the router carries: packets wait for as long as they were sent
    let quantile = |q: f64| (q, 100.0 * q * MS);
    check(&faults, &steady(), &[0.1, 0.5, 0.9].map(quantile));
}
