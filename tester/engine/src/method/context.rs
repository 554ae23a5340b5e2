//! What a method works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Options;
use super::record::{milliseconds, record};
use super::statistics::{Named, mean};
use crate::report::Step as Shown;
use crate::result::{Finding, Test};
use crate::traffic::Traffic;
use crate::trial::{Bench, Step, Trial, TrialSpec};

/// How often a trial that the tester itself spoiled is done again.
const ATTEMPTS: u32 = 3;
/// A sender that stays this far behind the load could not send it.
const REACHED: f64 = 0.99;
/// A sender may end later by this part of the trial, and by that much: what a busy machine takes for
/// itself once in a while.
const LATE: f64 = 0.01;
const PAUSE: Duration = Duration::from_millis(25);
/// Less loss than that is as good as none, for telling whether a router was loaded at all.
const NOTHING: f64 = 0.001;

/// Why a figure that is all the tester can do is none of the router's.
pub(super) const TESTER_LIMIT: &str = "the tester itself can do no more";

/// The user asked to stop.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("stopped")]
pub struct Interrupted;

/// The highest load to try, frames a second of each sending port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Finite.
    pub rate: f64,
    /// Whether the tester can do no more, while the link or the plan would allow it.
    pub by_tester: bool,
}

/// One test on one frame mix, while it is done.
pub struct Context<'a> {
    /// Carries out trials.
    pub bench: &'a mut dyn Bench,
    /// What is sent.
    pub traffic: Arc<Traffic>,
    /// Names of the ports, by index.
    pub ports: &'a [String],
    /// The highest load to try.
    pub limit: Limit,
    /// What the test is told.
    pub options: Options,
    /// Shows what is tried.
    pub progress: &'a mut dyn FnMut(&Shown<'_>),
    /// Whether the user asked to stop.
    pub stop: &'a AtomicBool,
    /// What is known of the test, and what was found so far.
    pub test: Test,
}

/// A trial, and whether it says something about the router.
pub(super) struct Done {
    pub(super) trial: Trial,
    /// What the tester itself did wrong; empty: it kept the load up and lost nothing.
    pub(super) reason: String,
    /// Its place in the test's records.
    pub(super) record: usize,
}

impl Done {
    /// Whether it tells of the router.
    pub(super) fn valid(&self) -> bool {
        self.reason.is_empty()
    }
}

impl Context<'_> {
    /// Ports that send.
    pub(super) fn senders(&self) -> f64 {
        self.traffic.senders().len().max(1) as f64
    }

    /// A trial at one rate.
    pub(super) fn steady(&self, purpose: &'static str, rate: f64, time: Duration) -> TrialSpec {
        let mut spec = TrialSpec::steady(self.traffic.clone(), rate, time);
        spec.purpose = purpose;
        spec.burst = self.options.burst.max(1);
        spec
    }

    /// Carries out a trial and keeps its record; again, if the tester itself spoiled it.
    pub(super) fn trial(&mut self, spec: &TrialSpec, remaining: Duration) -> anyhow::Result<Done> {
        let most = spec.time().mul_f64(1.0 + LATE) + PAUSE;
        self.trial_within(spec, most, ATTEMPTS, remaining)
    }

    /// As [`Self::trial`], tried up to `attempts` times; all must have left in this time.
    pub(super) fn trial_within(
        &mut self,
        spec: &TrialSpec,
        most: Duration,
        attempts: u32,
        remaining: Duration,
    ) -> anyhow::Result<Done> {
        // a machine that spoiled all of the last ones will spoil this one, too
        let last = self.test.trials.iter().rev().take(2 * ATTEMPTS as usize);
        let spoiled = last.filter(|trial| !trial.valid).count();
        let attempts = if spoiled == 2 * ATTEMPTS as usize {
            1
        } else {
            attempts
        };
        let mut attempt = 1;
        loop {
            let done = self.attempt(spec, most, remaining)?;
            if done.valid() || attempt >= attempts {
                return Ok(done);
            }
            attempt += 1;
        }
    }

    fn attempt(
        &mut self,
        spec: &TrialSpec,
        most: Duration,
        remaining: Duration,
    ) -> anyhow::Result<Done> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        (self.progress)(&Shown {
            test: &self.test.name,
            frames: &self.test.frames,
            purpose: spec.purpose,
            rate: spec.steps.first().map_or(0.0, |step: &Step| step.rate),
            trial: self.test.trials.len() as u32 + 1,
            remaining: Some(remaining.max(spec.time())),
        });
        self.settle()?;
        let mut trial = self.bench.trial(spec)?;
        let reason = spoiled(spec, &trial, self.senders(), most).unwrap_or_default();
        if reason.is_empty() {
            trial = trial.on_schedule(spec);
        }
        let kept = record(spec, &trial, self.ports, reason.clone());
        let record = self.test.trials.len();
        self.test.trials.push(kept);
        match trial.interrupted {
            true => Err(Interrupted.into()),
            false => Ok(Done {
                trial,
                reason,
                record,
            }),
        }
    }

    /// Waits until the router has come to rest after the trial before.
    fn settle(&self) -> anyhow::Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        let mut left = match self.test.trials.is_empty() {
            true => Duration::ZERO,
            false => self.options.settle,
        };
        while !left.is_zero() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            std::thread::sleep(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
        Ok(())
    }

    /// Whether the tester can send that much; if not, the reader is told.
    pub(super) fn can_send(&mut self, rate: f64) -> bool {
        let can = rate <= self.limit.rate * (1.0 + LATE);
        if !can {
            self.note(format!(
                "{rate:.0} frames/s a port was left out: {:.0} is the most that can be sent and counted",
                self.limit.rate
            ));
        }
        can
    }

    /// The mean of what valid trials show, of those that show it. Without a valid one, neither is the
    /// finding.
    pub(super) fn measured(
        &mut self,
        named: &Named<'_>,
        trials: &[Done],
        value: impl Fn(&Trial) -> Option<f64>,
    ) -> Finding {
        let valid: Vec<&Done> = trials.iter().filter(|done| done.valid()).collect();
        let samples = valid.iter().filter_map(|done| value(&done.trial)).collect();
        let mut finding = mean(named, samples);
        finding.trials = valid.iter().map(|done| done.record).collect();
        let bad = trials.iter().rfind(|done| !done.valid());
        if let Some(bad) = bad {
            self.note(format!(
                "{}: {} of {} runs do not count: {}",
                named.goal_or_metric(),
                trials.len() - valid.len(),
                trials.len(),
                bad.reason
            ));
        }
        if let Some(bad) = bad.filter(|_| valid.is_empty()) {
            (finding.valid, finding.reason) = (false, bad.reason.clone());
        }
        finding
    }

    /// The mean of what was forwarded at a load by valid trials; no value if that is all the tester
    /// can send, as the router may do more.
    pub(super) fn forwarded(&mut self, metric: &str, goal: &str, rate: f64, trials: &[Done]) {
        let named = Named::new(metric, goal, "frames/s", Some(true));
        let mut finding = self.measured(&named, trials, |trial| Some(trial.received_rate()));
        let everything = rate * self.senders() * (1.0 - NOTHING);
        let at_limit = self.limit.by_tester && rate >= self.limit.rate * REACHED;
        if let Some(value) = finding
            .value
            .filter(|&value| at_limit && value >= everything)
        {
            self.note(format!(
                "{metric}, {goal}: at least {value:.0} frames/s; the tester itself can do no more"
            ));
            (finding.value, finding.low, finding.high) = (None, Some(value), None);
            (finding.valid, finding.reason) = (false, TESTER_LIMIT.into());
            finding.samples.clear();
        }
        self.find(finding);
    }

    /// Tells the reader something, once.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.test.notes.contains(&text) {
            self.test.notes.push(text);
        }
    }

    /// Keeps a finding.
    pub(super) fn find(&mut self, finding: Finding) {
        self.test.findings.push(finding);
    }

    /// What the highest load is a share of, in goals.
    pub(super) fn whole(&self) -> &'static str {
        match (self.limit.by_tester, self.test.line_rate) {
            (false, Some(_)) => "line rate",
            _ => "the highest load",
        }
    }
}

/// What the tester itself did wrong in a trial, which had this time to send all; `None`: nothing.
fn spoiled(spec: &TrialSpec, trial: &Trial, senders: f64, most: Duration) -> Option<String> {
    if trial.missed > 0 {
        return Some(format!(
            "the tester's own ports lost {} frames",
            trial.missed
        ));
    }
    let sent = trial.counts().sent as f64;
    let due = match spec.limit {
        Some(limit) => limit as f64 * senders,
        None => spec
            .steps
            .iter()
            .filter(|step| step.rate.is_finite())
            .map(|step| step.rate * step.time.as_secs_f64() * senders)
            .sum(),
    };
    // then nothing can be lost, and it would pass for a load that came through
    if sent < 1.0 && due > 0.0 {
        return Some("the tester sent nothing".into());
    }
    // a few frames less is no sign of weakness
    if sent + senders < (due * REACHED).floor() {
        let share = 100.0 * sent / due;
        return Some(format!("the tester sent only {share:.1} % of the load"));
    }
    let time = spec.sending();
    if trial.elapsed > most {
        let late = milliseconds(trial.elapsed.saturating_sub(time));
        return Some(format!("the tester ended {late:.0} ms late"));
    }
    // then frames left in bursts that the plan did not ask for, even if all left
    let allowed = most.saturating_sub(time);
    let late = Duration::from_nanos(trial.lateness.value_at_quantile(0.99));
    let paced = spec.steps.iter().all(|step| step.rate.is_finite());
    (paced && late > allowed).then(|| {
        let steal = trial.steal.map_or(String::new(), |steal| {
            format!(" (CPU steal {:.1} %)", steal * 100.0)
        });
        let late = milliseconds(late);
        format!("1 % of the frames left the tester {late:.0} ms late or more{steal}")
    })
}
