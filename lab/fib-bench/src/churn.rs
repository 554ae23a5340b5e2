//! How fast a FIB can be updated, and how updates slow look-ups down.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::measure::quantile;
use crate::random::Random;
use crate::{Fib, Prefix, Reader, Route, tables};

/// An update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update<P> {
    /// Deletes the prefix.
    Delete(P),
    /// Adds it.
    Add(P, u32),
    /// Changes its next hop.
    Modify(P, u32),
}

impl<P: Prefix> Update<P> {
    fn apply(self, fib: &mut dyn Fib<P>) -> anyhow::Result<()> {
        match self {
            Self::Delete(prefix) => fib.remove(prefix),
            Self::Add(prefix, next_hop) | Self::Modify(prefix, next_hop) => {
                fib.insert(prefix, next_hop)
            }
        }
    }
}

/// An endless stream of updates: a random prefix is deleted, added with another next hop, and gets
/// its own next hop back. So the table is unchanged after each [`Stream::CYCLE`] updates. The same
/// seed gives the same updates.
#[derive(Clone, Debug)]
pub struct Stream<'a, P> {
    routes: &'a [Route<P>],
    last_next_hop: u32,
    random: Random,
    route: Route<P>,
    step: u32,
}

impl<'a, P: Prefix> Stream<'a, P> {
    /// Number of updates after which the table is unchanged.
    pub const CYCLE: u32 = 3;

    /// Updates of a table that is not empty.
    pub fn new(routes: &'a [Route<P>], seed: u64) -> Self {
        Self {
            routes,
            last_next_hop: tables::last_next_hop(routes),
            random: Random::new(seed),
            route: routes[0],
            step: 0,
        }
    }
}

impl<P: Prefix> Iterator for Stream<'_, P> {
    type Item = Update<P>;

    fn next(&mut self) -> Option<Update<P>> {
        let Route { prefix, next_hop } = self.route;
        self.step = (self.step + 1) % Self::CYCLE;
        Some(match self.step {
            1 => {
                self.route = self.routes[self.random.below(self.routes.len())];
                Update::Delete(self.route.prefix)
            }
            2 => Update::Add(prefix, next_hop % self.last_next_hop + 1),
            _ => Update::Modify(prefix, next_hop),
        })
    }
}

/// Times of updates, microseconds.
#[derive(Clone, Debug, Default)]
pub struct UpdateTimes {
    /// Each delete.
    pub delete: Vec<f64>,
    /// Each add.
    pub add: Vec<f64>,
    /// Each change of a next hop.
    pub modify: Vec<f64>,
}

/// Applies `count` updates and times each.
///
/// # Errors
/// If the FIB refuses.
pub fn latencies<P: Prefix>(
    fib: &mut dyn Fib<P>,
    stream: &mut Stream<'_, P>,
    count: usize,
) -> anyhow::Result<UpdateTimes> {
    let mut times = UpdateTimes::default();
    for update in stream.take(count) {
        let start = Instant::now();
        update.apply(fib)?;
        let took = start.elapsed().as_nanos() as f64 / 1e3;
        match update {
            Update::Delete(_) => times.delete.push(took),
            Update::Add(..) => times.add.push(took),
            Update::Modify(..) => times.modify.push(took),
        }
    }
    Ok(times)
}

/// Updates per second of the writer's CPU time.
///
/// # Errors
/// If the FIB refuses.
pub fn rate<P: Prefix>(
    fib: &mut dyn Fib<P>,
    stream: &mut Stream<'_, P>,
    count: usize,
) -> anyhow::Result<f64> {
    let updates: Vec<_> = stream.take(count).collect();
    let took = processor_time(|| updates.iter().try_for_each(|update| update.apply(fib)))?;
    Ok(count as f64 / took.as_secs_f64())
}

/// CPU time of this thread that `work` takes.
///
/// # Errors
/// The work's.
pub fn processor_time(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let start = now();
    work()?;
    Ok(now() - start)
}

/// Look-up times while the writer works.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent {
    /// Median time of a vector, ns.
    pub p50: f64,
    /// 99.9 % quantile of the time of a vector, ns.
    pub p999: f64,
    /// Updates per second that the writer reached.
    pub updates: f64,
}

/// Looks vectors up in a second thread for a while; this thread updates at a rate, or not at all
/// (0).
///
/// # Errors
/// If the FIB refuses.
///
/// # Panics
/// If the reading thread panics.
pub fn concurrent<P: Prefix>(
    fib: &mut dyn Fib<P>,
    stream: &mut Stream<'_, P>,
    keys: &[P::Key],
    vector: usize,
    per_second: u32,
    time: Duration,
) -> anyhow::Result<Concurrent> {
    let mut reader = fib.reader(0)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(|| time_vectors(&mut *reader, keys, vector, &stop));
        let updates = paced(fib, stream, per_second, time);
        stop.store(true, Ordering::Relaxed);
        let mut times = reading.join().expect("the reader does not panic");
        Ok(Concurrent {
            p50: quantile(&mut times, 0.5),
            p999: quantile(&mut times, 0.999),
            updates: updates?,
        })
    })
}

/// Times of all vectors until `stop` is set, ns.
fn time_vectors<K>(
    reader: &mut dyn Reader<K>,
    keys: &[K],
    vector: usize,
    stop: &AtomicBool,
) -> Vec<f64> {
    let mut times = Vec::with_capacity(1 << 23);
    for keys in keys.chunks_exact(vector).cycle() {
        if stop.load(Ordering::Relaxed) || times.len() == times.capacity() {
            break;
        }
        let start = Instant::now();
        reader.look_up(keys);
        times.push(start.elapsed().as_nanos() as f64);
    }
    times
}

/// Updates at a rate for a time; returns the rate reached.
fn paced<P: Prefix>(
    fib: &mut dyn Fib<P>,
    stream: &mut Stream<'_, P>,
    per_second: u32,
    time: Duration,
) -> anyhow::Result<f64> {
    if per_second == 0 {
        thread::sleep(time);
        return Ok(0.0);
    }
    let start = Instant::now();
    let mut done = 0u32;
    for update in stream {
        let due = start + Duration::from_secs_f64(f64::from(done) / f64::from(per_second));
        while Instant::now() < due {
            hint::spin_loop();
        }
        if start.elapsed() >= time && done.is_multiple_of(Stream::<P>::CYCLE) {
            break;
        }
        update.apply(fib)?;
        done += 1;
    }
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}
