//! What a method works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Options;
use super::record::record;
use crate::report::Step as Shown;
use crate::result::{Finding, Test};
use crate::traffic::Traffic;
use crate::trial::{Bench, Step, Trial, TrialSpec};

/// How often a trial that the tester itself spoiled is done again.
const ATTEMPTS: u32 = 3;
/// A sender that stays this far behind the load could not send it.
const REACHED: f64 = 0.99;

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
        spec
    }

    /// Carries out a trial and keeps its record; again, if the tester itself spoiled it.
    pub(super) fn trial(&mut self, spec: &TrialSpec, remaining: Duration) -> anyhow::Result<Done> {
        let mut attempt = 1;
        loop {
            let trial = self.attempt(spec, remaining)?;
            let valid = is_valid(spec, &trial, self.senders());
            if valid || attempt == ATTEMPTS {
                return Ok(Done { trial, valid });
            }
            attempt += 1;
        }
    }

    fn attempt(&mut self, spec: &TrialSpec, remaining: Duration) -> anyhow::Result<Trial> {
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
        let trial = self.bench.trial(spec)?.on_schedule(spec);
        self.test.trials.push(record(spec, &trial, self.ports));
        match trial.interrupted {
            true => Err(Interrupted.into()),
            false => Ok(trial),
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
