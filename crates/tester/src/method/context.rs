//! What a method works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Options;
use super::record::record;
use super::statistics::mean;
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
    /// The tester kept the load up and lost nothing itself.
    pub(super) valid: bool,
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

    /// As [`Self::trial`], tried so many times; all must have left in this time.
    pub(super) fn trial_within(
        &mut self,
        spec: &TrialSpec,
        most: Duration,
        attempts: u32,
        remaining: Duration,
    ) -> anyhow::Result<Done> {
        let mut attempt = 1;
        loop {
            let done = self.attempt(spec, most, remaining)?;
            if done.valid || attempt >= attempts {
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
        let valid = is_valid(spec, &trial, self.senders()) && trial.elapsed <= most;
        if valid {
            trial = trial.on_schedule(spec);
        }
        let record = record(spec, &trial, self.ports, valid);
        self.test.trials.push(record);
        match trial.interrupted {
            true => Err(Interrupted.into()),
            false => Ok(Done { trial, valid }),
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

    /// The mean of what was forwarded at a load by valid trials; no value if that is all the tester
    /// can send, as the router may do more.
    pub(super) fn forwarded(&mut self, metric: &str, goal: &str, rate: f64, trials: &[Done]) {
        let valid = trials.iter().filter(|done| done.valid);
        let samples: Vec<f64> = valid.map(|done| done.trial.received_rate()).collect();
        if samples.len() < trials.len() {
            self.note(format!(
                "{metric}, {goal}: {} of {} runs do not count, because the tester could not keep the \
                 load up or lost frames itself",
                trials.len() - samples.len(),
                trials.len()
            ));
        }
        let mut finding = mean(metric, goal, "frames/s", samples, Some(true));
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
        }
        self.find(finding);
    }

    /// Tells the reader if the tester did not do its part in a trial.
    pub(super) fn note_weakness(&mut self, what: &str, done: &Done) {
        if !done.valid {
            self.note(format!("{what}: the tester could not keep the load up"));
        }
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

/// Whether the tester did what the trial asks for.
fn is_valid(spec: &TrialSpec, trial: &Trial, senders: f64) -> bool {
    if trial.missed > 0 {
        return false;
    }
    let sent = trial.counts().sent as f64;
    if let Some(limit) = spec.limit {
        return sent >= limit as f64 * senders * REACHED;
    }
    let due: f64 = spec
        .steps
        .iter()
        .filter(|step| step.rate.is_finite())
        .map(|step| step.rate * step.time.as_secs_f64())
        .sum();
    // a few frames less is no sign of weakness
    sent + senders >= (due * senders * REACHED).floor()
}
