use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::simulated::Router;
use super::*;
use crate::result::{Finding, Test};
use crate::test_traffic::one_flow;
use crate::traffic::Traffic;
use crate::trial::Bench;

const LIMIT: Limit = Limit {
    rate: 1e6,
    by_tester: false,
};

fn traffic() -> Arc<Traffic> {
    let mut traffic = one_flow(64);
    let mut back = traffic.streams[0].clone();
    (back.from, back.to) = (1, 0);
    traffic.streams.push(back);
    Arc::new(traffic)
}

fn run_within(bench: &mut dyn Bench, method: Method, options: Options, limit: Limit) -> Test {
    let ports = ["a".to_string(), "b".to_string()];
    let mut shown = 0;
    let mut context = Context {
        bench,
        traffic: traffic(),
        ports: &ports,
        limit,
        options,
        progress: &mut |step| shown += u32::from(step.remaining.is_some()),
        stop: &AtomicBool::new(false),
        test: Test {
            line_rate: Some(1e6),
            ..Test::default()
        },
    };
    method.run(&mut context).unwrap();
    let test = context.test;
    assert!(test.trials.iter().all(|trial| trial.streams.len() == 2));
    assert!(shown as usize == test.trials.len() && shown > 0);
    test
}

fn run(router: Router, method: Method, options: Options) -> Test {
    let mut router = router;
    run_within(&mut router, method, options, LIMIT)
}

fn finding<'a>(test: &'a Test, metric: &str, goal: &str) -> &'a Finding {
    let mut all = test.findings.iter();
    let found = all.find(|finding| finding.metric == metric && finding.goal == goal);
    found.unwrap_or_else(|| panic!("no {metric}, {goal} in {:#?}", test.findings))
}

fn value(test: &Test, metric: &str, goal: &str) -> f64 {
    finding(test, metric, goal).value.expect("a value")
}

#[track_caller]
fn near(found: f64, truth: f64, error: f64) {
    assert!(
        (found - truth).abs() <= error,
        "{found} is not {truth} ± {error}"
    );
}

#[test]
fn throughput_is_the_capacity_of_both_ports() {
    for search in [Search::Mlr, Search::Binary] {
        let options = Options {
            search,
            losses: vec![0.0, 0.01],
            ..Options::default()
        };
        let test = run(Router::default(), Method::Throughput, options);
        let bare = finding(&test, "throughput", "loss 0 %");
        near(bare.value.unwrap(), 2e5, 2e5 * 0.006);
        assert!(bare.low <= bare.value && bare.high > bare.value);
        let lost = |&place: &usize| test.trials[place].lost;
        assert!(
            bare.valid && !bare.trials.is_empty() && bare.trials.iter().all(|it| lost(it) == 0)
        );
        // at 1 % loss the offered load is higher, what is forwarded is the capacity
        near(value(&test, "throughput", "loss 1 %"), 2e5, 2e5 * 0.006);
    }
}

#[test]
fn a_router_at_line_rate_says_so() {
    let router = Router {
        capacity: 2e6,
        ..Router::default()
    };
    let test = run(router, Method::Throughput, Options::default());
    near(value(&test, "throughput", "loss 0 %"), 2e6, 1.0);
    assert!(
        test.notes[0].contains("line rate came through"),
        "{:?}",
        test.notes
    );
}

#[test]
fn the_testers_limit_is_no_result() {
    let fast = || Router {
        capacity: 2e6,
        ..Router::default()
    };
    let limit = Limit {
        rate: 5e5,
        by_tester: true,
    };
    let test = run_within(&mut fast(), Method::Throughput, Options::default(), limit);
    let found = finding(&test, "throughput", "loss 0 %");
    assert_eq!((found.value, found.low), (None, Some(1e6)));
    assert!(!found.valid && found.reason == "the tester itself can do no more");
    assert!(
        test.notes[0].contains("at least 1000000"),
        "{:?}",
        test.notes
    );
    // a tester that proves slower than its calibration
    let slow = Router {
        fastest: 4e5,
        ..fast()
    };
    let test = run(slow, Method::Throughput, Options::default());
    let found = finding(&test, "throughput", "loss 0 %");
    assert_eq!((found.value, found.high, found.valid), (None, None, false));
    // what is 1 % short of the load still counts
    near(found.low.unwrap(), 8e5, 1.2e4);
    assert!(test.notes[0].contains("can do no more"), "{:?}", test.notes);
}

/// A router of 20 us behind a tester that is late itself.
#[test]
fn what_the_tester_was_late_is_no_latency_of_the_router() {
    let latency = |late| {
        let router = Router {
            late: Duration::from_micros(late),
            ..Router::default()
        };
        let options = Options {
            rates: vec![5e4],
            trials: 2,
            ..Options::default()
        };
        let test = run(router, Method::Latency, options);
        assert!(test.trials.iter().all(|trial| trial.valid));
        finding(&test, "latency, 50 %", "50000 frames/s a port").clone()
    };
    let found = latency(5);
    assert!(found.valid && found.trials == [0, 1], "{found:?}");
    near(found.value.unwrap(), 25.0, 0.1);
    let found = latency(60);
    assert_eq!(
        (found.value, found.valid, found.samples.len()),
        (None, false, 0)
    );
    near(found.high.unwrap(), 80.0, 0.2);
    assert!(
        found.reason.contains("left late: 60.0 us"),
        "{}",
        found.reason
    );
}

/// Frames that leave a second late are another load than the trial asks for.
#[test]
fn a_starved_tester_finds_nothing() {
    for method in [
        Method::Throughput,
        Method::Latency,
        Method::FrameLoss,
        Method::Saturation,
    ] {
        let router = Router {
            late: Duration::from_secs(1),
            ..Router::default()
        };
        let options = Options {
            rates: vec![5e4],
            ..Options::default()
        };
        let test = run(router, method, options);
        assert!(!test.findings.is_empty(), "{}", method.name());
        for found in &test.findings {
            assert_eq!((found.value, found.valid), (None, false), "{found:?}");
            assert!(
                !found.reason.is_empty() && found.samples.is_empty(),
                "{found:?}"
            );
        }
        for trial in &test.trials {
            let reason = &trial.reason;
            assert!(
                !trial.valid && reason.contains("left the tester 1000 ms late"),
                "{reason}"
            );
        }
    }
}

#[test]
fn the_router_may_settle_between_trials() {
    let options = Options {
        settle: Duration::from_millis(30),
        step: 0.5,
        ..Options::default()
    };
    let start = std::time::Instant::now();
    let test = run(Router::default(), Method::FrameLoss, options);
    let pauses = test.trials.len() as u32 - 1;
    assert!(pauses > 0 && start.elapsed() >= Duration::from_millis(30) * pauses);
}

#[test]
fn trials_that_the_tester_spoils_are_done_again() {
    let router = Router {
        hiccup: Some(3),
        ..Router::default()
    };
    let test = run(router, Method::Throughput, Options::default());
    near(value(&test, "throughput", "loss 0 %"), 2e5, 2e5 * 0.006);
    assert!(
        test.trials
            .iter()
            .all(|trial| trial.valid == (trial.missed == 0))
    );
    assert!(test.trials.iter().any(|trial| !trial.valid));
}

#[test]
fn a_dead_router_ends_every_method() {
    for method in [
        Method::Throughput,
        Method::Latency,
        Method::FrameLoss,
        Method::BackToBack,
        Method::Recovery,
        Method::Reset,
        Method::Saturation,
        Method::Forwarding,
        Method::Outage,
        Method::Churn,
    ] {
        let router = Router {
            loss: 1.0,
            ..Router::default()
        };
        let options = Options {
            hook: Some(Arc::new(|| Ok(()))),
            ..Options::default()
        };
        let test = run(router, method, options);
        assert!(test.trials.len() < 200, "{}", method.name());
    }
}

#[test]
fn latency_at_shares_of_the_throughput() {
    let options = Options {
        trials: 3,
        ..Options::default()
    };
    let test = run(Router::default(), Method::Latency, options);
    assert_eq!(test.latencies.len(), 3);
    for (latency, share) in test.latencies.iter().zip([0.1, 0.5, 0.9]) {
        near(latency.rate, share * 1e5, share * 600.0);
        assert!(latency.quantiles.is_sorted());
    }
    let found = finding(&test, "latency, 50 %", "load 50 % of throughput");
    near(found.value.unwrap(), 20.0, 0.1);
    assert_eq!(found.samples.len(), 3);
    near(
        value(&test, "delay variation", "load 90 % of throughput"),
        0.0,
        0.1,
    );
}

#[test]
fn loss_from_the_top_until_two_loads_lose_nothing() {
    let router = Router {
        capacity: 7.5e5,
        ..Router::default()
    };
    let test = run(router, Method::FrameLoss, Options::default());
    near(
        value(&test, "frame loss", "load 100 % of line rate"),
        25.0,
        0.01,
    );
    near(
        value(&test, "frame loss", "load 80 % of line rate"),
        6.25,
        0.01,
    );
    assert_eq!(value(&test, "frame loss", "load 70 % of line rate"), 0.0);
    assert_eq!(test.findings.len(), 5);
}

#[test]
fn bursts_show_the_buffer() {
    let router = Router {
        buffer: 900.0,
        // as every tester is; each burst is shorter than the time that its trial allows
        late: Duration::from_micros(1),
        ..Router::default()
    };
    let options = Options {
        trials: 5,
        ..Options::default()
    };
    let test = run(router, Method::BackToBack, options);
    // 100 of 1000 frames that come in a millisecond leave meanwhile
    near(value(&test, "longest burst", "of each port"), 1000.0, 10.0);
    // 900 frames at the link's rate
    near(value(&test, "buffer time", "corrected"), 0.9, 0.01);
    let fast = Router {
        capacity: 2e6,
        ..Router::default()
    };
    let test = run(fast, Method::BackToBack, Options::default());
    assert!(test.findings.is_empty() && test.notes[0].contains("do not show"));
}

#[test]
fn recovery_from_overload() {
    let router = Router {
        dizzy: Duration::from_millis(30),
        ..Router::default()
    };
    let options = Options {
        trials: 2,
        ..Options::default()
    };
    let test = run(router, Method::Recovery, options);
    near(value(&test, "recovery time", ""), 30.0, 0.1);
}

#[test]
fn outage_and_reset_do_what_they_are_told() {
    for method in [Method::Outage, Method::Reset] {
        let done = Arc::new(AtomicU32::new(0));
        let count = done.clone();
        let router = Router {
            outage: Duration::from_millis(120),
            ..Router::default()
        };
        let options = Options {
            rate: Some(5e4),
            trials: 3,
            time: Duration::from_secs(2),
            hook: Some(Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })),
            ..Options::default()
        };
        let test = run(router, method, options);
        assert_eq!(done.load(Ordering::Relaxed), 3);
        near(value(&test, "outage", "longest gap"), 120.0, 0.01);
        near(value(&test, "outage", "frames lost"), 120.0, 0.1);
    }
}

#[test]
fn saturation_is_a_mean_of_runs() {
    let options = Options {
        trials: 5,
        loads: vec![1.0, 0.05],
        ..Options::default()
    };
    let test = run(Router::default(), Method::Saturation, options);
    let metric = "saturation throughput";
    near(value(&test, metric, "load 100 % of line rate"), 2e5, 10.0);
    near(value(&test, metric, "load 5 % of line rate"), 1e5, 10.0);
    assert_eq!(
        finding(&test, metric, "load 5 % of line rate")
            .samples
            .len(),
        5
    );
}

#[test]
fn forwarding_rates_of_meshes() {
    let test = run(Router::default(), Method::Forwarding, Options::default());
    let metric = "forwarding rate at maximum offered load";
    near(value(&test, metric, "line rate"), 2e5, 10.0);
    near(value(&test, "maximum forwarding rate", ""), 2e5, 10.0);
}

#[test]
fn churn_compares_with_rest() {
    let router = Router {
        outage: Duration::from_millis(10),
        ..Router::default()
    };
    let options = Options {
        rate: Some(5e4),
        trials: 2,
        hook: Some(Arc::new(|| Ok(()))),
        ..Options::default()
    };
    let test = run(router, Method::Churn, options);
    assert_eq!(value(&test, "lost", "routes at rest"), 0.0);
    near(value(&test, "lost", "routes changing"), 1000.0, 4.0);
    near(
        value(&test, "latency, 99.9 %, changing to rest", ""),
        100.0,
        1.0,
    );
    assert_eq!(test.latencies.len(), 2);
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let ports = ["a".to_string(), "b".to_string()];
    let stop = AtomicBool::new(false);
    let mut context = Context {
        bench: &mut Router::default(),
        traffic: traffic(),
        ports: &ports,
        limit: LIMIT,
        options: Options::default(),
        progress: &mut |step| stop.store(step.trial == 2, Ordering::Relaxed),
        stop: &stop,
        test: Test::default(),
    };
    let error = Method::FrameLoss.run(&mut context).unwrap_err();
    assert!(error.is::<Interrupted>());
    assert_eq!(
        (context.test.trials.len(), context.test.findings.len()),
        (2, 2)
    );
}
