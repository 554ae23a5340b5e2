//! Renews the XDP program's lease while Bora is well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bora_port::xdp::Lease;
use bora_worker::WorkerCounters;
use rustix::time::{ClockId, clock_gettime};

/// How long the program may act without hearing from Bora.
const TERM: Duration = Duration::from_millis(500);
const RENEWAL: Duration = Duration::from_millis(50);
/// A worker that stands still this long is stuck.
const WORKER_PATIENCE: Duration = Duration::from_millis(300);
/// The control side may be busy with a full table this long.
const CONTROL_PATIENCE: Duration = Duration::from_secs(15);

/// The thread that renews the lease, and what it watches.
pub(crate) struct Keeper {
    lease: Lease,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    watched: Watched,
    /// Moved on by the control loop each time round.
    pub(crate) control: Arc<AtomicU64>,
}

/// The workers there are, each with the pulse it had last.
type Watched = Arc<Mutex<Vec<(Arc<WorkerCounters>, Pulse)>>>;

/// Something that must move.
#[derive(Debug)]
struct Pulse {
    last: u64,
    since: Instant,
    patience: Duration,
}

impl Pulse {
    fn new(patience: Duration) -> Self {
        Self {
            last: 0,
            since: Instant::now(),
            patience,
        }
    }

    fn beats(&mut self, now: u64) -> bool {
        if now != self.last {
            self.last = now;
            self.since = Instant::now();
        }
        self.since.elapsed() < self.patience
    }
}

impl Keeper {
    /// Begins to renew.
    pub(crate) fn start(lease: Lease, workers: Vec<Arc<WorkerCounters>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let control = Arc::new(AtomicU64::new(0));
        let watched = Watched::default();
        let (stopping, beat, known) = (stop.clone(), control.clone(), watched.clone());
        let thread = std::thread::Builder::new()
            .name("bora-lease".into())
            .spawn(move || {
                let mut control = Pulse::new(CONTROL_PATIENCE);
                let mut well = true;
                while !stopping.load(Relaxed) {
                    let mut all = control.beats(beat.load(Relaxed));
                    let mut workers = known.lock().unwrap_or_else(PoisonError::into_inner);
                    for (worker, pulse) in &mut *workers {
                        all &= pulse.beats(worker.loops.get());
                    }
                    drop(workers);
                    if all != well {
                        log::warn!(
                            "{}",
                            if all {
                                "running again"
                            } else {
                                "stuck: Linux forwards"
                            }
                        );
                    }
                    well = all;
                    if well {
                        lease.set(now() + TERM.as_nanos() as u64);
                    }
                    std::thread::sleep(RENEWAL);
                }
                lease.set(0);
            })?;
        let keeper = Self {
            lease,
            stop,
            thread: Some(thread),
            watched,
            control,
        };
        keeper.watch(workers);
        Ok(keeper)
    }

    /// These workers must move from now on, and no others.
    pub(crate) fn watch(&self, workers: Vec<Arc<WorkerCounters>>) {
        let fresh = workers
            .into_iter()
            .map(|worker| (worker, Pulse::new(WORKER_PATIENCE)));
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        *watched = fresh.collect();
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
