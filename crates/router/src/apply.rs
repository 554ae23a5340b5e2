//! `bora apply`: another configuration for a running Bora, all of it or nothing.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::config::{Action, File, diff};
use crate::place::Place;
use crate::report::ApplyReport;
use crate::router::Router;
use crate::spec::PortSpec;

/// How to apply.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ApplyOptions {
    /// Go back after this many seconds unless it is confirmed.
    #[serde(default)]
    pub confirm: Option<u64>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Longest time to confirm, seconds.
const LONGEST: u64 = 24 * 60 * 60;

/// An apply that is taken back unless it is confirmed. A file keeps it: a restart confirms nothing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unconfirmed {
    /// When its time is over, ms since the machine started.
    due: u64,
    before: File,
    after: File,
}

impl Unconfirmed {
    fn new(before: File, after: File, seconds: u64, place: &Place) -> Self {
        let due = uptime() + 1000 * seconds;
        let new = Self { due, before, after };
        let text = toml::to_string(&new).map_err(anyhow::Error::from);
        let written = text.and_then(|text| Ok(fs::write(place.unconfirmed(), text)?));
        if let Err(error) = written {
            log::warn!("a restart will take the apply for confirmed: {error}");
        }
        new
    }

    /// What a Bora before this one applied, if this one was started with that configuration. Who
    /// starts it with another one has decided already.
    pub(crate) fn of_predecessor(started_with: &File, place: &Place) -> Option<Self> {
        let text = fs::read_to_string(place.unconfirmed()).ok()?;
        let known = toml::from_str::<Self>(&text).ok();
        let known = known.filter(|known| diff(started_with, &known.after).is_empty());
        if known.is_none() {
            forget(place);
        }
        known
    }
}

fn forget(place: &Place) {
    let _ = fs::remove_file(place.unconfirmed()); // it may be gone
}

/// Milliseconds since the machine started, those that it slept included.
fn uptime() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

impl Router {
    /// Makes `new` of the configuration in force, or changes nothing and says why.
    pub(crate) fn apply(
        &mut self,
        new: &File,
        options: ApplyOptions,
    ) -> Result<ApplyReport, String> {
        if let (Some(left), false) = (self.confirmation_due(), options.dry_run) {
            return Err(format!(
                "an earlier apply is not confirmed yet: `bora confirm`, or wait {} s for it to be \
                 taken back",
                left.as_secs() + 1
            ));
        }
        if options
            .confirm
            .is_some_and(|seconds| !(1..=LONGEST).contains(&seconds))
        {
            return Err(format!("the time to confirm is from 1 to {LONGEST} s"));
        }
        new.check().map_err(|problem| problem.to_string())?;
        let actions = diff(&self.file, new);
        refuse(&actions)?;
        if options.confirm.is_some() {
            self.must_be_able_to_go_back(&actions)?;
        }
        let report = ApplyReport {
            actions: actions.iter().map(ToString::to_string).collect(),
            confirm_seconds: options
                .confirm
                .filter(|_| !options.dry_run && !actions.is_empty()),
        };
        let text = |error: anyhow::Error| format!("{error:#}");
        if options.dry_run {
            self.could(new, &actions).map_err(text)?;
            return Ok(report);
        }
        let before = self.file.clone();
        self.carry_out(new, actions).map_err(text)?;
        self.unconfirmed = report
            .confirm_seconds
            .map(|seconds| Unconfirmed::new(before, new.clone(), seconds, &self.place));
        Ok(report)
    }

    /// Ports that are no interfaces can be removed while Bora runs, but not added.
    fn must_be_able_to_go_back(&self, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            let Action::RemovePort(name) = action else {
                continue;
            };
            let of = self.file.ports.iter().find(|port| port.name == *name);
            if of.is_some_and(|port| !matches!(port.spec(), PortSpec::Interface(_))) {
                return Err(format!(
                    "nothing is changed:\nport {name} cannot be added again while Bora runs, so \
                     that there is no way back; apply it without --confirm"
                ));
            }
        }
        Ok(())
    }

    /// Keeps what was applied.
    pub(crate) fn confirm(&mut self) -> Result<(), String> {
        forget(&self.place);
        match self.unconfirmed.take() {
            Some(_) => Ok(()),
            None => Err("nothing waits to be confirmed".into()),
        }
    }

    /// How long until an unconfirmed apply is taken back.
    pub(crate) fn confirmation_due(&self) -> Option<Duration> {
        let due = self.unconfirmed.as_ref()?.due;
        Some(Duration::from_millis(due.saturating_sub(uptime())))
    }

    /// Takes an apply back whose time is over.
    pub(crate) fn roll_back_if_due(&mut self) {
        if self.confirmation_due().is_none_or(|left| !left.is_zero()) {
            return;
        }
        let Some(Unconfirmed { before, .. }) = self.unconfirmed.take() else {
            return;
        };
        forget(&self.place);
        log::warn!("the apply was not confirmed; going back");
        let actions = diff(&self.file, &before);
        if let Err(error) = self.carry_out(&before, actions) {
            log::error!("cannot go back to the configuration before: {error:#}");
        }
    }

    /// Does all actions, or undoes those done.
    fn carry_out(&mut self, new: &File, actions: Vec<Action>) -> anyhow::Result<()> {
        let before = self.file.clone();
        let Err(error) = self.change(new, actions) else {
            return Ok(());
        };
        let undo = diff(&self.file, &before);
        if let Err(second) = self.change(&before, undo) {
            log::error!("cannot undo what was done of an apply: {second:#}");
            return Err(error.context(format!(
                "not everything could be undone ({second:#}); `bora save` says what runs"
            )));
        }
        Err(error)
    }
}

/// One line for each action that a running Bora cannot do.
fn refuse(actions: &[Action]) -> Result<(), String> {
    let refused = |action: &Action| Some(format!("{}; restart to change it", action.refusal()?));
    let lines: Vec<String> = actions.iter().filter_map(refused).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(format!("nothing is changed:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named_line_by_line() {
        let mut new = File::default();
        new.fib.memory = 8;
        new.workers.recycling = false;
        new.workers.budget = 7;
        let text = refuse(&diff(&File::default(), &new)).unwrap_err();
        assert!(
            text.contains("fib.memory") && text.contains("workers.recycling"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        new.fib = File::default().fib;
        new.workers.recycling = true;
        new.workers.cores = vec![1];
        assert_eq!(refuse(&diff(&File::default(), &new)), Ok(()));
    }
}
