//! What the methods find that interrupt the router, or overload it for a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bora_apparatus::fault::{self, Faults};
use bora_tester::clock;
use bora_tester::method::{Method, Options};
use bora_tester::trial::{Action, Bench, Hook, Trial, TrialSpec};

use super::methods::{faulty, near, options, router, run, value};
use super::model::{in_time, testbed::Testbed, traffic};

/// Takes a link down from 5 ms after the call on, so that none of its packets is through already.
fn outage(link: fault::Handle, time: Duration) -> Hook {
    Arc::new(move || {
        let start = clock::now() + 5_000_000;
        link.take_down(start..start + time.as_nanos() as u64);
        Ok(())
    })
}

#[test]
fn outage_and_reset_find_how_long_the_link_was_down() {
    in_time(|| {
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
            // an interval
            near(value(&test, "outage", "frames lost"), 30.0, 0.1);
            near(value(&test, "lost", ""), 300.0, 1.0);
        }
    });
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
    in_time(|| {
        let late = Arc::new(AtomicU64::new(0));
        let testbed = router(2, 10);
        let mut bench = Overloaded {
            testbed,
            late: late.clone(),
        };
        let options = Options {
            // any overload will do
            width: 0.05,
            ..options()
        };
        let test = run(&mut bench, Method::Recovery, options, traffic::one_way());
        let found = value(&test, "recovery time", "");
        let expected = RECOVERY.as_secs_f64() * 1e3;
        let late = late.load(Relaxed) as f64 / 1e6;
        // two intervals, and how late the outage was made
        assert!(found > expected - 0.3, "{found}");
        assert!(found < expected + 0.3 + late, "{found}, {late} ms late");
    });
}

#[test]
fn churn_is_seen_beside_rest() {
    in_time(|| {
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
    });
}
