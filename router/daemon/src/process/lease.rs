//! Renews the XDP program's lease while all threads make progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bora_linux::lock;
use bora_xdp::Lease;
use rustix::time::{ClockId, clock_gettime};

use crate::process::threads::join;

/// How long the program may act after the lease was renewed last.
const TERM: Duration = Duration::from_millis(500);
const RENEWAL: Duration = Duration::from_millis(50);
/// The control loop may need this long for a full table.
const CONTROL_PATIENCE: Duration = Duration::from_secs(15);
/// If a thread is stuck this long, the process ends, so that a new one can be started.
const LAST_PATIENCE: Duration = Duration::from_secs(60);

/// The threads that must make progress for the lease to be renewed. Clones share one list.
#[derive(Clone)]
pub(crate) struct Vitals {
    control: Arc<AtomicU64>,
    /// How often some of them were stuck.
    stuck: Arc<AtomicU64>,
    /// The control loop, and those that the engine names.
    threads: Arc<Mutex<Vec<Watched>>>,
}

/// When a thread made progress last.
pub(crate) struct Sign {
    /// The thread.
    pub(crate) name: String,
    /// How long ago.
    pub(crate) silent: Duration,
    /// How long ago it may be.
    pub(crate) patience: Duration,
}

impl Sign {
    /// Whether it has been silent for too long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.silent >= self.patience
    }
}

impl Vitals {
    /// The control loop alone.
    pub(crate) fn new() -> Self {
        let control = Arc::new(AtomicU64::new(0));
        let beats = control.clone();
        let beats = move || beats.load(Relaxed);
        let control_loop = Watched::new("the control loop", CONTROL_PATIENCE, beats);
        Self {
            control,
            stuck: Arc::default(),
            threads: Arc::new(Mutex::new(vec![control_loop])),
        }
    }

    /// Tells that the control loop makes progress; to be called in each round, and while something
    /// takes seconds.
    pub(crate) fn beat(&self) {
        self.control.fetch_add(1, Relaxed);
    }

    /// From now on these threads must make progress, and the control loop, and no others.
    pub(crate) fn watch(&self, threads: Vec<Watched>) {
        let mut watched = self.threads();
        watched.truncate(1);
        watched.extend(threads);
    }

    /// When each thread made progress last, as the thread that renews the lease has seen it.
    pub(crate) fn signs(&self) -> Vec<Sign> {
        let sign = |thread: &Watched| Sign {
            name: thread.name.clone(),
            silent: thread.since.elapsed(),
            patience: thread.patience,
        };
        self.threads().iter().map(sign).collect()
    }

    /// How often since the start the lease was not renewed because of them.
    pub(crate) fn times_stuck(&self) -> u64 {
        self.stuck.load(Relaxed)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Watched>> {
        lock(&self.threads)
    }
}

/// The thread that renews the lease.
pub(crate) struct Keeper {
    lease: Lease,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A thread that must make progress, which shows in a number that changes.
pub(crate) struct Watched {
    name: String,
    read: Box<dyn Fn() -> u64 + Send>,
    patience: Duration,
    last: u64,
    since: Instant,
}

impl Watched {
    /// A thread that is stuck if what `read` returns has not changed for as long as `patience`.
    pub(crate) fn new(
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

    fn is_stuck(&mut self) -> bool {
        let now = (self.read)();
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
        self.since.elapsed() >= self.patience
    }
}

impl Keeper {
    /// Begins to renew, while all of `vitals` make progress.
    pub(crate) fn start(lease: Lease, vitals: Vitals) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let round = Round {
            lease,
            vitals,
            stuck: Vec::new(),
            since: Instant::now(),
        };
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("bora-lease".into())
            .spawn(move || {
                bora_confine::thread(bora_confine::NONE);
                round.run(&stopping);
            })?;
        Ok(Self {
            lease,
            stop,
            thread: Some(thread),
        })
    }

    /// Ends the lease: from now on everything passes to Linux.
    pub(crate) fn end(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
        self.lease.set(0);
    }
}

/// What the thread works with.
struct Round {
    lease: Lease,
    vitals: Vitals,
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
                    "{} still makes no progress; Bora ends, so that it can be started again",
                    self.stuck.join(", ")
                );
                std::process::abort();
            }
            std::thread::sleep(RENEWAL);
        }
        self.lease.set(0);
    }

    fn look(&mut self) {
        let mut threads = self.vitals.threads();
        let stuck = threads.iter_mut().filter_map(|thread| {
            let is_stuck = thread.is_stuck();
            is_stuck.then(|| thread.name.clone())
        });
        let stuck: Vec<String> = stuck.collect();
        drop(threads);
        match (self.stuck.is_empty(), stuck.is_empty()) {
            (true, false) => {
                self.since = Instant::now();
                self.vitals.stuck.fetch_add(1, Relaxed);
                log::warn!("{} is stuck: Linux forwards", stuck.join(", "));
            }
            (false, true) => log::warn!("all threads make progress again: Bora forwards"),
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
