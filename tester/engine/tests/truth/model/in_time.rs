//! Tests of what the clock decides, on a machine that other work keeps busy.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Attempts on a machine that is late.
const ATTEMPTS: u32 = 30;
const NAP: Duration = Duration::from_millis(1);
/// A machine that wakes a thread later than this cannot be told from a router that is late.
const LATE: Duration = Duration::from_millis(2);

/// Runs a test until it passes, fails while the machine is in time, or has failed often. Router and tester share CPUs, so what
/// fails while the machine wakes threads late says nothing about the tester.
pub(crate) fn in_time(test: impl Fn()) {
    for attempt in 1..=ATTEMPTS {
        let (result, late) = watched(&test);
        let Err(panic) = result else {
            return;
        };
        if late <= LATE || attempt == ATTEMPTS {
            eprintln!("attempt {attempt} of {ATTEMPTS}, with the machine {late:?} late");
            resume_unwind(panic);
        }
    }
}

/// Runs a test, and measures how late the machine wakes a thread meanwhile.
fn watched(test: &impl Fn()) -> (thread::Result<()>, Duration) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut latest = Duration::ZERO;
            while !stop.load(Relaxed) {
                let began = Instant::now();
                thread::sleep(NAP);
                latest = latest.max(began.elapsed().saturating_sub(NAP));
            }
            latest
        });
        let result = catch_unwind(AssertUnwindSafe(test));
        stop.store(true, Relaxed);
        (result, watch.join().unwrap_or_default())
    })
}
