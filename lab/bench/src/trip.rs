//! How long a cache line takes from one CPU to the other and back: what every figure of two CPUs depends on,
//! and what differs most from machine to machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::cpu::pin;
use crate::{Results, Row};

/// CPUs of all benchmarks that need two.
pub const CORES: [usize; 2] = [0, 1];
/// The metric and its unit.
pub const METRIC: (&str, &str) = ("cache-line round trip", "ns");
/// The case.
pub const CASE: &str = "a word that two threads write in turn";
/// The subject.
pub const SUBJECT: &str = "CPU 0 and CPU 1";
/// Round trips of a measurement, and measurements.
const TRIPS: u64 = 20_000;
const ROUNDS: usize = 15;

/// Time of a round trip, ns.
///
/// # Errors
/// There are no such CPUs.
pub fn measure() -> anyhow::Result<f64> {
    let word = CachePadded::new(AtomicU64::new(0));
    let take_turns = |core: usize| -> anyhow::Result<f64> {
        let pinned = pin(core); // the other one waits, whether this succeeds or not
        let start = Instant::now();
        for turn in (core as u64..2 * TRIPS).step_by(CORES.len()) {
            while word.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            word.store(turn + 1, Ordering::Release);
        }
        let time = start.elapsed().as_nanos() as f64;
        pinned.map(|()| time / TRIPS as f64)
    };
    thread::scope(|scope| {
        let threads = CORES.map(|core| scope.spawn(move || take_turns(core)));
        let times = threads.map(|thread| thread.join().expect("a thread that only counts"));
        let [first, second] = times;
        Ok(first?.max(second?))
    })
}

/// The median of several measurements as a row; `None` with one CPU.
///
/// # Errors
/// This process may not use the first two CPUs.
pub fn row() -> anyhow::Result<Option<Row>> {
    if thread::available_parallelism()?.get() < CORES.len() {
        return Ok(None);
    }
    let mut results = Results::default();
    for _ in 0..ROUNDS {
        results.add(CASE, SUBJECT, measure()?);
    }
    Ok(results.rows(METRIC.0, METRIC.1, "").pop())
}

/// A row of [`row`] in words.
pub fn text(row: Option<&Row>) -> String {
    match row {
        Some(row) => format!(
            "Cache-line round trip between {}: {:.0} ns ({:.0} to {:.0})",
            row.subject, row.median, row.low, row.high
        ),
        None => "One CPU: no cache line moves".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_takes_some_time() {
        if thread::available_parallelism().unwrap().get() < CORES.len() {
            return;
        }
        let row = row().unwrap().unwrap();
        assert!(row.median > 5.0 && row.median < 1e6, "{row:?}");
        assert!(text(Some(&row)).contains("ns ("), "{}", text(Some(&row)));
    }
}
