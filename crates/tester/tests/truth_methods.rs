//! What each method finds, against a router of known capacity, buffer, delay and outage. Beside each
//! expectation stands its error.
//!
//! No trial sees a loss that the buffer hides: in T seconds a router of C packets/s with a buffer of
//! B packets carries C + B / T without one. A throughput's error is that, and the search's width.

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bora_port::fault::{self, Capacity, Faults, Jitter, Loss};
use bora_tester::clock;
use bora_tester::method::{Context, Hook, Limit, Method, Options, Search};
use bora_tester::result::Test;
use bora_tester::traffic::Traffic;
use bora_tester::trial::{Action, Bench, Trial, TrialSpec};

use model::{Model, testbed::Testbed, traffic};

const RATE: f64 = 20_000.0;
const TIME: Duration = Duration::from_millis(100);
const WIDTH: f64 = 0.02;

/// Read by tests, written by those that measure time and want to be alone.
static MACHINE: RwLock<()> = RwLock::new(());

fn router(ports: usize, buffer: u64) -> Testbed {
    let faults = Faults {
        capacity: Some(Capacity { rate: RATE, buffer }),
        ..Faults::default()
    };
    faulty(ports, faults)
}

fn faulty(ports: usize, faults: Faults) -> Testbed {
    let by_clock = false;
    let model = Model {
        faults,
        by_clock,
        ..Model::default()
    };
    Testbed::new(ports, &model)
}

fn options() -> Options {
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
fn run(bench: &mut dyn Bench, method: Method, options: Options, traffic: Arc<Traffic>) -> Test {
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

fn value(test: &Test, metric: &str, goal: &str) -> f64 {
    let mut all = test.findings.iter();
    let found = all.find(|it| it.metric == metric && it.goal.starts_with(goal));
    let value = found.and_then(|it| it.value);
    value.unwrap_or_else(|| panic!("{metric} {goal}: {:?} {:?}", test.findings, test.notes))
}

#[track_caller]
fn near(found: f64, expected: f64, error: f64) {
    assert!((found - expected).abs() <= error, "{found}, not {expected}");
}

/// Takes a link down from 5 ms after the call on, so that none of its packets is through already.
fn outage(link: fault::Handle, time: Duration) -> Hook {
    Arc::new(move || {
        let start = clock::now() + 5_000_000;
        link.take_down(start..start + time.as_nanos() as u64);
        Ok(())
    })
}

#[test]
fn throughput_is_the_capacity() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for search in [Search::Mlr, Search::Binary] {
        let mut testbed = router(2, 10);
        let losses = vec![0.0, 0.1];
        let options = Options {
            search,
            losses,
            ..options()
        };
        let test = run(
            &mut testbed,
            Method::Throughput,
            options,
            traffic::one_way(),
        );
        // the buffer is 0.5 % of a trial, and the search ends at 2 %
        near(value(&test, "throughput", "loss 0 %"), RATE, 0.02 * RATE);
        // at a loss of a tenth it forwards all it can
        near(value(&test, "throughput", "loss 10 %"), RATE, 0.02 * RATE);
    }
}

#[test]
fn throughput_of_a_router_that_loses_a_little_at_any_load() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
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
        ..options()
    };
    let traffic = traffic::one_way();
    let test = run(&mut testbed, Method::Throughput, options, traffic);
    // 98 % of the load meet the capacity, so that 5 % are lost once it is 5 % above
    let bound = test.findings[0].low.unwrap() / RATE;
    assert!(bound > 1.02 && bound < 1.07, "{bound}");
    // what a trial at a low load can miss by chance
    let none = test.findings[1].low.unwrap_or(0.0);
    assert!(none < 0.3 * RATE, "{none}");
}

#[test]
fn frame_loss_is_what_the_capacity_leaves() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
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
}

#[test]
fn back_to_back_finds_the_buffer() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let mut testbed = router(2, 200);
    let options = Options {
        time: 4 * TIME,
        ..options()
    };
    let test = run(
        &mut testbed,
        Method::BackToBack,
        options,
        traffic::one_way(),
    );
    // half of the frames of a burst at twice the capacity wait
    near(value(&test, "longest burst", ""), 400.0, 8.0);
    // RFC 9004 counts the buffer's frames at the burst's rate; the throughput's error is in it
    let expected = 200.0 / (2.0 * RATE) * 1e3;
    near(value(&test, "buffer time", ""), expected, 0.1 * expected);
}

#[test]
fn latency_is_delay_and_jitter() {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
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
    for _ in 0..10 {
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
}

#[test]
fn outage_and_reset_find_how_long_the_link_was_down() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for method in [Method::Outage, Method::Reset] {
        let mut testbed = faulty(2, Faults::default());
        let link = testbed.router.handles[0].clone();
        let options = Options {
            rate: Some(10_000.0),
            hook: Some(outage(link, Duration::from_millis(30))),
            ..options()
        };
        let test = run(&mut testbed, method, options, traffic::one_way());
        // two intervals
        near(value(&test, "outage", "longest gap"), 30.0, 0.2);
        // of the sending time, which a busy machine makes longer
        near(value(&test, "outage", "frames lost"), 32.0, 2.5);
        let truth = testbed.router.counters().outage as f64;
        near(value(&test, "lost", ""), truth, 0.0);
    }
}

/// A router that forwards nothing for a time after an overload.
struct Overloaded {
    testbed: Testbed,
    /// How late the machine began the outage, ns.
    late: Arc<AtomicU64>,
}

const RECOVERY: Duration = Duration::from_millis(25);

impl Bench for Overloaded {
    fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
        let mut spec = spec.clone();
        if spec.steps.len() > 1 {
            let link = self.testbed.router.handles[0].clone();
            let (after, late) = (spec.steps[0].time, self.late.clone());
            let called = clock::now();
            spec.action = Some(Action {
                after,
                run: Arc::new(move || {
                    let now = clock::now();
                    late.store(now - called - after.as_nanos() as u64, Relaxed);
                    link.take_down(now..now + RECOVERY.as_nanos() as u64);
                    Ok(())
                }),
            });
        }
        self.testbed.trial(&spec)
    }
}

#[test]
fn recovery_finds_when_the_losses_end() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let late = Arc::new(AtomicU64::new(0));
    let testbed = router(2, 10);
    let mut bench = Overloaded {
        testbed,
        late: late.clone(),
    };
    let test = run(&mut bench, Method::Recovery, options(), traffic::one_way());
    let found = value(&test, "recovery time", "");
    let expected = RECOVERY.as_secs_f64() * 1e3;
    let late = late.load(Relaxed) as f64 / 1e6;
    // two intervals, and how late the outage was made
    assert!(found > expected - 0.3, "{found}");
    assert!(found < expected + 0.3 + late, "{found}, {late} ms late");
}

/// Rates are of the time that sending took, which a busy machine makes longer, so the best of up to
/// five counts, to a tenth; none may be above what the router carries, with its buffer.
fn forwards(mut run: impl FnMut() -> Vec<f64>, expected: f64) {
    let mut all = Vec::new();
    for _ in 0..5 {
        let found = run();
        assert!(
            found.iter().all(|rate| *rate < 1.015 * expected),
            "{found:?}"
        );
        if found.iter().all(|rate| *rate > 0.9 * expected) {
            return;
        }
        all.push(found);
    }
    panic!("{all:?}, not {expected}");
}

#[test]
fn saturation_is_the_capacity() {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    let mut testbed = router(2, 10);
    let options = Options {
        trials: 2,
        ..options()
    };
    let saturation = || {
        let traffic = traffic::one_way();
        let test = run(&mut testbed, Method::Saturation, options.clone(), traffic);
        vec![value(&test, "saturation throughput", "")]
    };
    forwards(saturation, RATE);
}

#[test]
fn a_mesh_forwards_the_capacity_of_all_ports() {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    // each of three ports to the two others
    let ports = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
    let streams = ports.map(|(from, to)| traffic::ipv4(from, to, 3)).into();
    let mesh = traffic::of(streams, 64);
    let mut testbed = router(3, 10);
    let forwarding = || {
        let test = run(&mut testbed, Method::Forwarding, options(), mesh.clone());
        let metrics = [
            "forwarding rate at maximum offered load",
            "maximum forwarding rate",
        ];
        metrics.map(|metric| value(&test, metric, "")).into()
    };
    forwards(forwarding, 3.0 * RATE);
}

#[test]
fn churn_is_seen_beside_rest() {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let mut testbed = faulty(2, Faults::default());
    let link = testbed.router.handles[0].clone();
    let options = Options {
        rate: Some(10_000.0),
        hook: Some(outage(link, Duration::from_millis(10))),
        ..options()
    };
    let test = run(&mut testbed, Method::Churn, options, traffic::one_way());
    near(value(&test, "lost", "routes at rest"), 0.0, 0.0);
    near(value(&test, "lost", "routes changing"), 100.0, 1.0);
}
