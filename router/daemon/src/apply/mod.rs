//! The configuration in force, and `bora apply`: another one for a running Bora, all of it or
//! nothing.

pub(crate) mod history;
pub(crate) mod unconfirmed;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Action, File, Setting, diff};
use crate::data_plane::{Change, DataPlane};
use crate::process::runtime_dir::RuntimeDir;
use history::History;
use unconfirmed::Unconfirmed;

/// What became of an apply that nobody has confirmed.
#[derive(Debug)]
pub(crate) enum RolledBack {
    /// It is taken back.
    Done,
    /// It runs on: why, and it will be tried again.
    Failed(String),
}

/// How to apply.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct ApplyOptions {
    /// Go back after this many seconds unless it is confirmed.
    #[serde(default)]
    confirm: Option<u64>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// What an apply changes or has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyReport {
    /// One line an action.
    pub actions: Vec<String>,
    /// Seconds within which `bora confirm` must come, if it must.
    pub confirm_seconds: Option<u64>,
}

/// Longest time to confirm, seconds.
const LONGEST: u64 = 24 * 60 * 60;

/// What Bora was started with, and what was changed since.
pub(crate) struct InForce {
    file: File,
    /// What an apply that nobody has confirmed yet replaced.
    unconfirmed: Option<Unconfirmed>,
    history: History,
    /// What an operator should know of the start.
    notice: Option<String>,
}

impl InForce {
    /// What Bora is started with; and, if it is what an earlier Bora applied, what that replaced.
    pub(crate) fn new(file: File, unconfirmed: Option<Unconfirmed>, dir: &RuntimeDir) -> Self {
        Self {
            file,
            unconfirmed,
            history: History::new(dir),
            notice: None,
        }
    }

    /// The start has succeeded. Returns a warning if it brings back what something else had replaced: an apply that was not
    /// confirmed, or a rollback, changes no file.
    pub(crate) fn note_start(&mut self) -> Option<String> {
        self.notice = self.history.brought_back(&self.file);
        self.history.add(&self.file, "started with it");
        self.notice.clone()
    }

    /// What an operator should know of the configuration in force.
    pub(crate) fn notices(&self) -> Vec<String> {
        let pending = self.unconfirmed.iter().map(Unconfirmed::notice);
        pending.chain(self.notice.clone()).collect()
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Makes `new` of the configuration in force, or changes nothing and says why.
    pub(crate) fn apply(
        &mut self,
        plane: &mut DataPlane,
        new: &File,
        options: ApplyOptions,
        who: &str,
    ) -> Result<ApplyReport, String> {
        self.must_be_free(options)?;
        new.check().map_err(|problem| problem.to_string())?;
        let renamed = renamed(&self.file, plane, new);
        let mut before = self.file.clone();
        for (old, name) in &renamed {
            before.rename_port(old, name);
        }
        let actions = diff(&before, new);
        refuse(&actions)?;
        if options.confirm.is_some() {
            self.must_be_able_to_go_back(&actions)?;
        }
        let names = renamed.iter();
        let names = names.map(|(old, name)| format!("port {old} is {name} now, as its interface"));
        let report = ApplyReport {
            actions: names
                .chain(actions.iter().map(ToString::to_string))
                .collect(),
            confirm_seconds: options
                .confirm
                .filter(|_| !options.dry_run && !actions.is_empty()),
        };
        let text = |error: anyhow::Error| format!("{error:#}");
        if options.dry_run {
            could(plane, new, &actions).map_err(text)?;
            return Ok(report);
        }
        // before anything is done: if that ends Bora, the next one goes back
        let unconfirmed = match report.confirm_seconds {
            None => None,
            Some(seconds) => {
                let dir = &plane.runtime().dir;
                let kept = Unconfirmed::keep(before.clone(), new.clone(), seconds, dir);
                Some(kept.map_err(text)?)
            }
        };
        for (old, name) in &renamed {
            plane.rename(old, name);
        }
        self.file = before;
        if let Err(error) = self.carry_out(plane, new) {
            let forgotten = unconfirmed::forget(&plane.runtime().dir);
            return Err(text(match forgotten {
                Ok(()) => error,
                Err(second) => error.context(format!("{second:#}")),
            }));
        }
        self.history.add(&self.file, who);
        (self.unconfirmed, self.notice) = (unconfirmed, None);
        Ok(report)
    }

    /// No other apply waits, and the time to confirm is one.
    fn must_be_free(&self, options: ApplyOptions) -> Result<(), String> {
        if let (Some(left), false) = (self.confirmation_due(), options.dry_run) {
            return Err(
                match self.unconfirmed.as_ref().and_then(Unconfirmed::failure) {
                    Some(why) => format!(
                        "an earlier apply is not confirmed and cannot be taken back ({why}): `bora confirm` \
                     keeps what runs"
                    ),
                    None => format!(
                        "an earlier apply is not confirmed yet: `bora confirm`, or wait {} s for it to be \
                     taken back",
                        left.as_secs() + 1
                    ),
                },
            );
        }
        match options.confirm {
            Some(seconds) if !(1..=LONGEST).contains(&seconds) => {
                Err(format!("the time to confirm is from 1 to {LONGEST} s"))
            }
            _ => Ok(()),
        }
    }

    /// Ports that are no interfaces can be removed while Bora runs, but not added.
    fn must_be_able_to_go_back(&self, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            let Action::RemovePort(name) = action else {
                continue;
            };
            if self
                .file
                .port(name)
                .is_some_and(|port| !port.is_interface())
            {
                return Err(format!(
                    "nothing is changed:\nport {name} cannot be added again while Bora runs, so \
                     that there is no way back; apply it without --confirm"
                ));
            }
        }
        Ok(())
    }

    /// Keeps what was applied.
    pub(crate) fn confirm(&mut self, dir: &RuntimeDir) -> Result<(), String> {
        if self.unconfirmed.is_none() {
            return Err("nothing waits to be confirmed".into());
        }
        // as long as the file is there, a restart takes the apply back
        unconfirmed::forget(dir).map_err(|error| format!("it is not confirmed: {error:#}"))?;
        self.unconfirmed = None;
        Ok(())
    }

    /// How long until an unconfirmed apply is taken back.
    pub(crate) fn confirmation_due(&self) -> Option<Duration> {
        self.unconfirmed.as_ref().map(Unconfirmed::left)
    }

    /// Takes an apply back whose time is over, if there is one. If that fails it is tried again later.
    pub(crate) fn roll_back_if_due(&mut self, plane: &mut DataPlane) -> Option<RolledBack> {
        let is_due = |one: &mut Unconfirmed| one.left().is_zero();
        let mut unconfirmed = self.unconfirmed.take_if(is_due)?;
        let gone_back = self.carry_out(plane, &unconfirmed.before);
        // while the file is there, a restart goes back, too
        let gone_back = gone_back.and_then(|()| unconfirmed::forget(&plane.runtime().dir));
        if let Err(error) = gone_back {
            let why = format!("{error:#}");
            unconfirmed.has_failed(why.clone());
            self.unconfirmed = Some(unconfirmed);
            return Some(RolledBack::Failed(why));
        }
        self.history
            .add(&self.file, "went back, because nobody confirmed");
        Some(RolledBack::Done)
    }

    /// Makes `new` of the configuration in force, or undoes what was done for it.
    fn carry_out(&mut self, plane: &mut DataPlane, new: &File) -> anyhow::Result<()> {
        let before = self.file.clone();
        let Err(error) = self.change(plane, new) else {
            return Ok(());
        };
        if let Err(second) = self.change(plane, &before) {
            log::error!("cannot undo what was done of an apply: {second:#}");
            return Err(error.context(format!(
                "not everything could be undone ({second:#}); `bora save` says what runs"
            )));
        }
        Err(error)
    }

    /// Does what leads to `new`. On an error some of it is done, and `self.file` says what.
    fn change(&mut self, plane: &mut DataPlane, new: &File) -> anyhow::Result<()> {
        let actions = diff(&self.file, new);
        could(plane, new, &actions)?;
        let done = self.do_all(plane, new, &actions);
        plane.check_fast_path(&self.file, true);
        done
    }

    fn do_all(
        &mut self,
        plane: &mut DataPlane,
        new: &File,
        actions: &[Action],
    ) -> anyhow::Result<()> {
        let divided_anew = plane.divides_anew(&self.file, new);
        self.add_ports(plane, new, actions)?;
        let settings = actions.iter().filter_map(|action| match action {
            Action::Set(setting) => Some(setting),
            _ => None,
        });
        let settings: Vec<&Setting> = settings.collect();
        for change in Change::all() {
            let of_change = settings.iter().filter(|one| change.has(one));
            let of_change: Vec<&Setting> = of_change.copied().collect();
            if !of_change.is_empty() {
                let mut file = self.file.clone();
                of_change.iter().try_for_each(|one| one.apply(&mut file))?;
                plane.make(change, &of_change, new)?;
                self.file = file;
            }
        }
        for action in actions {
            if let Action::RemovePort(name) = action {
                plane.remove_port(name, new)?;
                self.file.ports.retain(|port| port.name != *name);
            }
        }
        match divided_anew {
            true => plane.set_cores(new),
            false => Ok(()),
        }
    }

    /// Adds the ports that are new: first all that can fail, then all of them. The convergence brings the keys with it that it
    /// takes from the configuration.
    fn add_ports(
        &mut self,
        plane: &mut DataPlane,
        new: &File,
        actions: &[Action],
    ) -> anyhow::Result<()> {
        let added = actions.iter().filter_map(|action| match action {
            Action::AddPort(section) => Some(&**section),
            _ => None,
        });
        let staged = plane.stage(added.clone(), new)?;
        plane.add_ports(staged, new, &self.file)?;
        self.file.ports.extend(added.cloned());
        Ok(())
    }
}

/// Ports whose interfaces have other names now, by which `new` calls them: the old and the new name of each.
fn renamed(file: &File, plane: &DataPlane, new: &File) -> Vec<(String, String)> {
    let added = new.ports.iter();
    let added =
        added.filter(|section| section.is_interface() && file.port(&section.name).is_none());
    let pairs = added.filter_map(|section| {
        let old = plane.renamed(&section.name)?;
        let pair = (old.to_owned(), section.name.clone());
        new.port(old).is_none().then_some(pair)
    });
    pairs.collect()
}

/// Whether the actions could be done, as far as that shows without doing something.
fn could(plane: &DataPlane, new: &File, actions: &[Action]) -> anyhow::Result<()> {
    plane.check_path(new)?;
    for action in actions {
        match action {
            Action::AddPort(section) => drop(plane.could_add(section)?),
            Action::Set(setting) if setting.is_in("workers.cores") => plane.could_set_cores(new)?,
            _ => {}
        }
    }
    Ok(())
}

/// One line for each action that a running Bora cannot do.
fn refuse(actions: &[Action]) -> Result<(), String> {
    let refused = actions.iter().filter_map(|action| match action {
        Action::Set(setting) if Change::of(setting).is_none() => Some(format!(
            "{} cannot be changed while Bora runs; restart to change it",
            setting.name()
        )),
        _ => None,
    });
    let lines: Vec<String> = refused.collect();
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
        new.linux.punt_budget = 9;
        new.workers.budget = 7;
        let text = refuse(&diff(&File::default(), &new)).unwrap_err();
        assert!(
            text.contains("fib.memory") && text.contains("linux.punt_budget"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        new.fib = File::default().fib;
        new.linux = File::default().linux;
        new.workers.cores = vec![1];
        assert_eq!(refuse(&diff(&File::default(), &new)), Ok(()));
    }
}
