//! One running Bora: its loop brings changes of Linux into the data plane, and answers calls.

use std::time::{Duration, Instant};

use anyhow::Context;
use bora_contract::Reason;
use bora_mirror::Verification;
use bora_worker::Mode;

use crate::answers::Answers;
use crate::apply::unconfirmed::Unconfirmed;
use crate::apply::{ApplyOptions, ApplyReport, InForce, RolledBack};
use crate::captures::Watches;
use crate::config::File;
use crate::data_plane::{DataPlane, detach_pinned};
use crate::guard::minute::LastMinute;
use crate::guard::rates::GuardWatch;
use crate::live::Live;
use crate::live::fib_rates::FibRates;
use crate::live::report::{EventKind, Severity};
use crate::ports::twin::remove_leftovers;
use crate::process::calls::{self, Caller, Inbox, Served};
use crate::process::cpus::check_cpus;
use crate::process::lease::{Keeper, Vitals};
use crate::process::rights;
use crate::process::runtime_dir::{RuntimeDir, RuntimeLock};
use crate::process::turns::Turns;
use crate::sampling::Sampling;

/// How often settings that have no events are read again.
const REFRESH: Duration = Duration::from_secs(1);

/// A running Bora.
pub struct Router {
    pub(crate) in_force: InForce,
    pub(crate) plane: DataPlane,
    lease: Keeper,
    pub(crate) fib_rates: FibRates,
    pub(crate) guard_watch: GuardWatch,
    pub(crate) minute: LastMinute,
    pub(crate) vitals: Vitals,
    /// What Linux says of what Bora does.
    pub(crate) linux: Answers,
    pub(crate) watches: Watches,
    pub(crate) sampling: Sampling,
    pub(crate) live: Live,
    /// How long the loop takes.
    pub(crate) turns: Turns,
    refreshed: Instant,
}

impl Router {
    /// Starts forwarding. On an error, what was attached is detached again.
    ///
    /// # Errors
    /// What is wrong with the configuration, or what the kernel refuses.
    pub fn start(file: File, dir: RuntimeDir) -> anyhow::Result<Self> {
        file.check()?;
        check_cpus(&file.workers.cores)?;
        let runtime = RuntimeLock::take(dir)?;
        let (file, unconfirmed) = Unconfirmed::of_predecessor(file, &runtime.dir);
        rights::start(&file);
        let vitals = Vitals::new();
        let (plane, lease) = DataPlane::start(&file, runtime, vitals.clone())?;
        let lease = match Keeper::start(lease, vitals.clone()) {
            Ok(lease) => lease,
            Err(error) => {
                plane.abandon();
                return Err(error).context("cannot start the thread of the lease");
            }
        };
        let live = Live::start(&plane, &file);
        let mut router = Self {
            in_force: InForce::new(file, unconfirmed, &plane.runtime().dir),
            plane,
            lease,
            fib_rates: FibRates::default(),
            guard_watch: GuardWatch::default(),
            minute: LastMinute::default(),
            vitals,
            linux: Answers::default(),
            watches: Watches::default(),
            sampling: Sampling::default(),
            live,
            turns: Turns::default(),
            refreshed: Instant::now(),
        };
        if let Err(error) = router.plane.keep_twins() {
            router.abandon();
            return Err(error);
        }
        router.follow_sampling();
        Ok(router)
    }

    /// Undoes a start when something else that belongs to it has failed.
    pub fn abandon(mut self) {
        self.lease.end();
        self.plane.abandon();
    }

    /// What the log says of each port at the start.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for port in self.plane.ports().iter() {
            let texts = port.summary().into_iter();
            lines.extend(texts.map(|text| format!("{}: {text}", port.name)));
        }
        lines
    }

    /// The start has succeeded: it comes into the history, and the rights go that only a start needs. Call it when all threads
    /// run and the API listens.
    pub fn settle(&mut self) {
        if let Some(warning) = self.in_force.note_start() {
            self.tell(Severity::Warning, EventKind::Apply, &warning);
        }
        rights::settle(self.in_force.file());
    }

    /// A channel to the loop: the end that calls, and the end for [`Router::run`].
    pub fn calls(&self) -> (Caller<Self>, Inbox<Self>) {
        calls::channel(self.plane.waker())
    }

    /// Follows Linux and answers calls until it is told to stop; then it calls `stopping` and stops the
    /// data plane.
    ///
    /// # Errors
    /// What keeps it from going on.
    pub fn run(mut self, mut inbox: Inbox<Self>, stopping: impl FnOnce()) -> anyhow::Result<()> {
        loop {
            let wait = match inbox.is_waiting() {
                true => Duration::ZERO,
                false => self.longest_wait(),
            };
            self.vitals.beat(); // not for each call: those who ask must not hide that the loop is stuck
            let changes = self.plane.wait(Some(wait))?;
            let took = changes.took;
            self.turns.begin("what Linux tells", took);
            if let Some(outcome) = self.in_force.roll_back_if_due(&mut self.plane) {
                self.tell_rollback(&outcome);
                self.follow_sampling();
                self.turns.next("going back");
            }
            let refresh = self.refreshed.elapsed() >= REFRESH;
            if refresh {
                self.refresh();
                self.turns.next("the look at each second");
            }
            let config = self.in_force.file();
            self.plane.follow(config, &changes, refresh)?;
            if changes.links || changes.guard || refresh {
                self.live.look(&self.plane);
            }
            self.turns.next("ports, programs and workers");
            self.sampling.answer(&mut self.plane);
            match inbox.serve(&mut self) {
                Served::Nothing => {}
                Served::Step(name) => self.turns.next(name),
                Served::Stop { detach } => {
                    stopping();
                    return self.finish(detach);
                }
            }
            self.turns.end();
        }
    }

    /// Until the next refresh, or until an apply is to be taken back.
    fn longest_wait(&self) -> Duration {
        let refresh = REFRESH.saturating_sub(self.refreshed.elapsed());
        let due = self.in_force.confirmation_due();
        due.map_or(refresh, |due| due.min(refresh))
    }

    /// What is to be done once a second.
    fn refresh(&mut self) {
        self.refreshed = Instant::now();
        self.plane.look_after();
        let ports = self.plane.ports().iter();
        let left_to_linux = ports.map(|port| {
            let counters = self.plane.express().counters(port.id);
            (port.id, counters.reasons[Reason::Guard])
        });
        self.guard_watch.sample(left_to_linux);
        self.minute.follow(self.refreshed, || self.plane.transit());
        self.fib_rates.sample(&self.plane.mirror().fib().stats());
        self.live.sample(&self.plane, self.in_force.file());
        self.follow_sampling();
    }

    /// Samples what the configuration and those who look want.
    fn follow_sampling(&mut self) {
        let section = &self.in_force.file().sflow;
        let received = self.live.received_per_second();
        let (plane, watches) = (&mut self.plane, &mut self.watches);
        self.sampling.follow(plane, watches, section, received);
    }

    /// Somebody looks at the flows with the most traffic.
    pub(crate) fn look_at_flows(&mut self) {
        self.sampling.look();
        self.follow_sampling();
    }

    /// Ends forwarding. The lease ends first, so that Linux has the traffic while the rings are
    /// emptied.
    fn finish(mut self, detach: bool) -> anyhow::Result<()> {
        self.lease.end();
        self.plane.stop(detach)
    }

    /// Begins to read everything anew and to compare it with the FIB. That takes as much memory as the tables, so that only
    /// admins may ask for it.
    ///
    /// # Errors
    /// The rules are not possible.
    pub(crate) fn begin_verification(&mut self) -> anyhow::Result<Verification> {
        self.plane.begin_verification(self.in_force.file())
    }

    pub(crate) fn apply(
        &mut self,
        new: &File,
        options: ApplyOptions,
        who: &str,
    ) -> Result<ApplyReport, String> {
        let report = self.in_force.apply(&mut self.plane, new, options, who)?;
        if !options.dry_run {
            self.tell_apply(&report);
            self.follow_sampling();
        }
        Ok(report)
    }

    pub(crate) fn confirm(&mut self) -> Result<(), String> {
        self.in_force.confirm(&self.plane.runtime().dir)?;
        self.tell(Severity::Info, EventKind::Apply, "the apply is confirmed");
        Ok(())
    }

    fn tell_apply(&mut self, report: &ApplyReport) {
        if report.actions.is_empty() {
            return;
        }
        let until = report.confirm_seconds;
        let until = until.map(|seconds| format!(" (to be confirmed within {seconds} s)"));
        let text = format!(
            "applied: {}{}",
            report.actions.join("; "),
            until.unwrap_or_default()
        );
        self.tell(Severity::Info, EventKind::Apply, &text);
    }

    fn tell_rollback(&mut self, outcome: &RolledBack) {
        let (severity, text) = match outcome {
            RolledBack::Done => (
                Severity::Warning,
                "the apply was not confirmed, and is taken back".into(),
            ),
            RolledBack::Failed(why) => (
                Severity::Error,
                format!(
                    "the apply was not confirmed, and CANNOT BE TAKEN BACK: {why}; Bora tries again and again; \
                     `bora confirm` keeps what runs"
                ),
            ),
        };
        self.tell(severity, EventKind::Rollback, &text);
    }

    pub(crate) fn tell(&mut self, severity: Severity, kind: EventKind, text: &str) {
        self.live.events.tell(severity, kind, text.into());
    }

    /// Sets when workers look at their queues: as an apply, or for one worker, which the configuration says nothing of.
    pub(crate) fn set_mode(
        &mut self,
        worker: Option<usize>,
        mode: Mode,
        who: &str,
    ) -> Result<(), String> {
        let Some(worker) = worker else {
            self.plane.set_mode(None)?;
            let mut new = self.in_force.file().clone();
            new.workers.mode = mode;
            return self.apply(&new, ApplyOptions::default(), who).map(drop);
        };
        self.plane.set_mode(Some((worker, mode)))?;
        let text = format!("worker {worker}: mode {mode}");
        self.tell(Severity::Info, EventKind::Apply, &text);
        Ok(())
    }
}

impl Caller<Router> {
    /// [`Router::summary`], as soon as the loop gets to it; `None` once the loop has ended.
    pub fn summary(&self) -> Option<Vec<String>> {
        self.ask("the supervisor", |router| router.summary())
    }
}

/// Detaches the programs that an earlier Bora left on this namespace's interfaces; returns how many.
///
/// # Errors
/// A Bora runs here, or the kernel refuses.
pub fn detach_leftovers(dir: RuntimeDir) -> anyhow::Result<usize> {
    let runtime = RuntimeLock::take(dir)?;
    let removed = remove_leftovers(&runtime.dir);
    let detached = detach_pinned(&runtime);
    runtime.clean();
    Ok(removed? + detached?)
}
