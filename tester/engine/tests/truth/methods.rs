//! What each method finds, against a router of known capacity, buffer, delay and outage. Beside each
//! expectation stands its error.
//!
//! No trial sees a loss that the buffer hides: in T seconds a router of C packets/s with a buffer of
//! B packets carries C + B / T without one. A throughput's error is that, and the search's width.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bora_apparatus::fault::{Capacity, Faults, Jitter, Loss};
use bora_tester::method::{Context, Limit, Method, Options, Search};
use bora_tester::result::Test;
use bora_tester::traffic::Traffic;
use bora_tester::trial::Bench;

use super::model::{Model, in_time, testbed::Testbed, traffic};

const RATE: f64 = 20_000.0;
const TIME: Duration = Duration::from_millis(100);
const WIDTH: f64 = 0.02;

pub(super) fn router(ports: usize, buffer: u64) -> Testbed {
    let faults = Faults {
        capacity: Some(Capacity { rate: RATE, buffer }),
        ..Faults::default()
    };
    faulty(ports, faults)
}

pub(super) fn faulty(ports: usize, faults: Faults) -> Testbed {
    let by_clock = false;
    let model = Model {
        faults,
        by_clock,
        ..Model::default()
    };
    Testbed::new(ports, &model)
}

pub(super) fn options() -> Options {
    Options {
        exceed: 0.0,
        width: WIDTH,
        time: TIME,
        initial_time: TIME / 2,
        sum_time: TIME,
        ..Options::default()
    }
}

/// Twice what the router carries at most.
pub(super) fn run(
    bench: &mut dyn Bench,
    method: Method,
    options: Options,
    traffic: Arc<Traffic>,
) -> Test {
    let names = ["a", "b", "c"].map(String::from);
    let mut context = Context {
        bench,
        traffic,
        ports: &names,
        limit: Limit {
            rate: 2.0 * RATE,
            by_tester: false,
        },
        options,
        progress: &mut |_| {},
        stop: &AtomicBool::new(false),
        test: Test::default(),
    };
    method.run(&mut context).unwrap();
    context.test
}

pub(super) fn value(test: &Test, metric: &str, goal: &str) -> f64 {
    let mut all = test.findings.iter();
    let found = all.find(|it| it.metric == metric && it.goal.starts_with(goal));
    let value = found.and_then(|it| it.value);
    value.unwrap_or_else(|| panic!("{metric} {goal}: {:?} {:?}", test.findings, test.notes))
}

#[track_caller]
pub(super) fn near(found: f64, expected: f64, error: f64) {
    assert!((found - expected).abs() <= error, "{found}, not {expected}");
}

fn throughput(search: Search, losses: Vec<f64>) -> Test {
    let options = Options {
        search,
        losses,
        ..options()
    };
    let mut bench = router(2, 10);
    run(&mut bench, Method::Throughput, options, traffic::one_way())
}

#[test]
fn mlrsearch_finds_the_capacity() {
    in_time(|| {
        let test = throughput(Search::Mlr, vec![0.0, 0.1]);
        // the buffer is 0.5 % of a trial, and the search ends at 2 %
        near(value(&test, "throughput", "loss 0 %"), RATE, 0.02 * RATE);
        // at a loss of a tenth it forwards all it can
        near(value(&test, "throughput", "loss 10 %"), RATE, 0.02 * RATE);
    });
}

#[test]
fn halving_finds_the_capacity() {
    in_time(|| {
        let test = throughput(Search::Binary, vec![0.0]);
        near(value(&test, "throughput", "loss 0 %"), RATE, 0.02 * RATE);
    });
}

#[test]
fn throughput_of_a_router_that_loses_a_little_at_any_load() {
    in_time(|| {
        let faults = Faults {
            seed: 11,
            capacity: Some(Capacity {
                rate: RATE,
                buffer: 10,
            }),
            loss: Some(Loss::random(0.02)),
            ..Faults::default()
        };
        let mut testbed = faulty(2, faults);
        let options = Options {
            losses: vec![0.05, 0.0],
            search: Search::Binary,
            // a frame in it is the least load that is tried: 5000 packets/s
            initial_time: Duration::from_micros(200),
            ..options()
        };
        let traffic = traffic::one_way();
        let test = run(&mut testbed, Method::Throughput, options, traffic);
        // 98 % of the load meet the capacity, so that 5 % are lost once it is 5 % above; the rest is the
        // capacity, and the buffer's frames
        let bound = test.findings[0].low.unwrap() / RATE;
        assert!(bound > 0.98 && bound < 1.02, "{bound}");
        // what a trial at a low load can miss by chance
        let none = test.findings[1].low.unwrap_or(0.0);
        assert!(none < 0.3 * RATE, "{none}");
    });
}

#[test]
fn frame_loss_is_what_the_capacity_leaves() {
    in_time(|| {
        let mut testbed = router(2, 10);
        let test = run(
            &mut testbed,
            Method::FrameLoss,
            options(),
            traffic::one_way(),
        );
        // down to two loads without a loss: 100 % and a half of it, and 40 %
        assert_eq!(test.findings.len(), 7, "{:?}", test.findings);
        for (finding, tenths) in test.findings.iter().zip((4..=10).rev()) {
            let offered = f64::from(tenths) / 10.0 * 2.0 * RATE * TIME.as_secs_f64();
            let carried = RATE * TIME.as_secs_f64() + 10.0;
            let expected = (1.0 - carried / offered).max(0.0) * 100.0;
            near(finding.value.unwrap(), expected, 0.1);
        }
    });
}

#[test]
fn back_to_back_finds_the_buffer() {
    in_time(|| {
        let mut testbed = router(2, 100);
        let options = Options {
            time: 2 * TIME,
            width: 2.0 * WIDTH,
            ..options()
        };
        let test = run(
            &mut testbed,
            Method::BackToBack,
            options,
            traffic::one_way(),
        );
        // half of the frames of a burst at twice the capacity wait
        near(value(&test, "longest burst", ""), 200.0, 4.0);
        // RFC 9004 counts the buffer's frames at the burst's rate; the throughput's error is in it
        let expected = 100.0 / (2.0 * RATE) * 1e3;
        near(value(&test, "buffer time", ""), expected, 0.1 * expected);
    });
}

#[test]
fn latency_is_delay_and_jitter() {
    in_time(|| {
        let faults = Faults {
            delay: Duration::from_millis(2),
            jitter: Some(Jitter::Uniform(Duration::from_millis(20))),
            ..Faults::default()
        };
        let mut testbed = faulty(2, faults);
        let options = Options {
            rates: vec![20_000.0],
            ..options()
        };
        // the machine can only be late, so the best of some counts; in us
        let expected = [("latency, 50 %", 12_000.0), ("latency, 99 %", 21_800.0)];
        let error = |expected: f64| 0.05 * expected + 100.0;
        let mut least = [f64::INFINITY; 2];
        for _ in 0..20 {
            let traffic = traffic::one_way();
            let test = run(&mut testbed, Method::Latency, options.clone(), traffic);
            for (least, (metric, expected)) in least.iter_mut().zip(expected) {
                *least = least.min(value(&test, metric, ""));
                assert!(*least > expected - error(expected), "{metric} {least}");
            }
            let mut both = least.iter().zip(expected);
            if both.all(|(least, (_, expected))| *least < expected + error(expected)) {
                return;
            }
        }
        panic!("{least:?} for {expected:?}");
    });
}

/// A trial counts what the buffer keeps until its end, too: 0.5 %.
fn forwards(rate: f64, expected: f64) {
    near(rate, 1.005 * expected, 0.005 * expected);
}

#[test]
fn saturation_is_the_capacity() {
    in_time(|| {
        let mut testbed = router(2, 10);
        let options = Options {
            trials: 2,
            ..options()
        };
        let traffic = traffic::one_way();
        let test = run(&mut testbed, Method::Saturation, options, traffic);
        forwards(value(&test, "saturation throughput", ""), RATE);
    });
}

#[test]
fn a_mesh_forwards_the_capacity_of_all_ports() {
    in_time(|| {
        // each of three ports to the two others
        let ports = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
        let streams = ports.map(|(from, to)| traffic::ipv4(from, to, 3)).into();
        let mesh = traffic::of(streams, 64);
        let mut testbed = router(3, 10);
        let test = run(&mut testbed, Method::Forwarding, options(), mesh);
        for metric in [
            "forwarding rate at maximum offered load",
            "maximum forwarding rate",
        ] {
            forwards(value(&test, metric, ""), 3.0 * RATE);
        }
    });
}
