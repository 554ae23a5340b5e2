//! Renews the XDP program's lease while Bora is well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bora_kernel::SlowPathCounters;
use bora_port::xdp::Lease;
use bora_worker::WorkerCounters;
use rustix::time::{ClockId, clock_gettime};

/// How long the program may act without hearing from Bora.
const TERM: Duration = Duration::from_millis(500);
const RENEWAL: Duration = Duration::from_millis(50);
/// A worker that stands still this long is stuck.
const WORKER_PATIENCE: Duration = Duration::from_millis(300);
/// The slow path waits for Linux, which may be busy with what it is given.
const SLOW_PATH_PATIENCE: Duration = Duration::from_secs(3);
/// The control side may be busy with a full table this long.
const CONTROL_PATIENCE: Duration = Duration::from_secs(15);
/// What is stuck this long does not come back: the process ends, so that a new one can be started.
const LAST_PATIENCE: Duration = Duration::from_secs(60);

/// The thread that renews the lease, and what it watches.
pub(crate) struct Keeper {
    lease: Lease,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    watched: Arc<Mutex<Vec<Watched>>>,
    /// Moved on by the control loop each time round.
    pub(crate) control: Arc<AtomicU64>,
}

/// A thread that must go on: its pulse is a number that changes.
pub(crate) struct Watched {
    name: String,
    read: Box<dyn Fn() -> u64 + Send>,
    patience: Duration,
    last: u64,
    since: Instant,
}

impl Watched {
    fn new(
        name: impl Into<String>,
        patience: Duration,
        read: impl Fn() -> u64 + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            read: Box::new(read),
            patience,
            last: 0,
            since: Instant::now(),
        }
    }

    /// A worker, by its number.
    pub(crate) fn worker(number: usize, counters: Arc<WorkerCounters>) -> Self {
        let name = format!("worker {number}");
        Self::new(name, WORKER_PATIENCE, move || counters.loops.get())
    }

    /// The thread that hands packets to Linux.
    pub(crate) fn slow_path(counters: Arc<SlowPathCounters>) -> Self {
        Self::new("the slow path", SLOW_PATH_PATIENCE, move || {
            counters.loops.load(Relaxed)
        })
    }

    fn control(beats: Arc<AtomicU64>) -> Self {
        let read = move || beats.load(Relaxed);
        Self::new("the control loop", CONTROL_PATIENCE, read)
    }

    fn is_stuck(&mut self) -> bool {
        let now = (self.read)();
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
        self.since.elapsed() >= self.patience
    }
}

impl Keeper {
    /// Begins to renew.
    pub(crate) fn start(lease: Lease, threads: Vec<Watched>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let control = Arc::new(AtomicU64::new(0));
        let watched = Arc::new(Mutex::new(threads));
        let round = Round {
            lease,
            control: Watched::control(control.clone()),
            others: watched.clone(),
            stuck: Vec::new(),
            since: Instant::now(),
        };
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("bora-lease".into())
            .spawn(move || round.run(&stopping))?;
        Ok(Self {
            lease,
            stop,
            thread: Some(thread),
            watched,
            control,
        })
    }

    /// These threads must go on from now on, and the control loop, and no others.
    pub(crate) fn watch(&self, threads: Vec<Watched>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = threads;
    }

    /// Ends the lease: from now on everything passes to Linux.
    pub(crate) fn end(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.lease.set(0);
    }
}

/// What the thread works with.
struct Round {
    lease: Lease,
    control: Watched,
    others: Arc<Mutex<Vec<Watched>>>,
    /// The names of those that are stuck, and since when somebody is.
    stuck: Vec<String>,
    since: Instant,
}

impl Round {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            self.look();
            if self.stuck.is_empty() {
                self.lease.set(now() + TERM.as_nanos() as u64);
            } else if self.since.elapsed() >= LAST_PATIENCE {
                log::error!(
                    "{} does not come back; Bora ends, so that it can be started anew",
                    self.stuck.join(", ")
                );
                std::process::abort();
            }
            std::thread::sleep(RENEWAL);
        }
        self.lease.set(0);
    }

    fn look(&mut self) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::iter::once(&mut self.control).chain(&mut *others);
        let stuck = all.filter_map(|thread| thread.is_stuck().then(|| thread.name.clone()));
        let stuck: Vec<String> = stuck.collect();
        match (self.stuck.is_empty(), stuck.is_empty()) {
            (true, false) => {
                self.since = Instant::now();
                log::warn!("{} is stuck: Linux forwards", stuck.join(", "));
            }
            (false, true) => log::warn!("running again"),
            _ => {}
        }
        self.stuck = stuck;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// CLOCK_MONOTONIC in ns, as the program's clock.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
