//! An apply that is undone unless somebody confirms it. A file keeps it, so that a restart does not
//! confirm it.

use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, anyhow};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::config::{File, diff};
use crate::process::private;
use crate::process::runtime_dir::RuntimeDir;

/// When going back is tried again after it has failed.
const RETRY: Duration = Duration::from_secs(10);

/// What an apply replaced that nobody has confirmed yet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unconfirmed {
    /// When its time is over, ms since the machine started.
    due: u64,
    pub(crate) before: File,
    after: File,
    /// Why going back has failed, and when.
    #[serde(skip)]
    failure: Option<(String, Instant)>,
}

impl Unconfirmed {
    /// Keeps that an apply is about to make `after` of `before`, to be confirmed within `seconds`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(
        before: File,
        after: File,
        seconds: u64,
        dir: &RuntimeDir,
    ) -> anyhow::Result<Self> {
        let new = Self {
            due: uptime() + 1000 * seconds,
            before,
            after,
            failure: None,
        };
        let path = dir.unconfirmed();
        private::write(&path, &toml::to_string(&new)?).with_context(|| {
            format!(
                "nothing is changed: {} cannot keep what to go back to",
                path.display()
            )
        })?;
        Ok(new)
    }

    /// What to start with instead of `file`, and what an earlier Bora applied, if this one is started with that configuration. If
    /// the time to confirm is over, that is what there was before: what was applied may be what has ended that Bora. With another
    /// file there is nothing to confirm.
    pub(crate) fn of_predecessor(file: File, dir: &RuntimeDir) -> (File, Option<Self>) {
        let known = match read(dir) {
            Ok(known) => known,
            Err(error) => {
                log::error!("an earlier apply that was not confirmed is not taken back: {error:#}");
                return (file, None); // what cannot be read stays for whoever looks after it
            }
        };
        match known.filter(|known| diff(&file, &known.after).is_empty()) {
            Some(known) if !known.left().is_zero() => (file, Some(known)),
            known => {
                if let Err(error) = forget(dir) {
                    log::error!("{error:#}");
                }
                let Some(known) = known else {
                    return (file, None);
                };
                log::warn!(
                    "the apply of an earlier Bora was not confirmed: starting with what was before"
                );
                (known.before, None)
            }
        }
    }

    /// How long until it is undone.
    pub(crate) fn left(&self) -> Duration {
        match &self.failure {
            Some((_, at)) => RETRY.saturating_sub(at.elapsed()),
            None => Duration::from_millis(self.due.saturating_sub(uptime())),
        }
    }

    /// Going back has failed.
    pub(crate) fn has_failed(&mut self, why: String) {
        self.failure = Some((why, Instant::now()));
    }

    /// Why it could not be taken back.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|(why, _)| why.as_str())
    }

    /// What an operator should know of it.
    pub(crate) fn notice(&self) -> String {
        match self.failure() {
            Some(why) => format!("an apply was not confirmed, and cannot be taken back: {why}"),
            None => format!(
                "an apply is taken back in {} s unless `bora confirm` comes",
                self.left().as_secs()
            ),
        }
    }
}

fn read(dir: &RuntimeDir) -> anyhow::Result<Option<Unconfirmed>> {
    let path = dir.unconfirmed();
    let name = || path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map(Some).with_context(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(name),
    }
}

/// Removes the file.
///
/// # Errors
/// It is there and stays.
pub(crate) fn forget(dir: &RuntimeDir) -> anyhow::Result<()> {
    let path = dir.unconfirmed();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(anyhow!(
            "{} cannot be removed, so that a restart goes back: {error}",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// Milliseconds since the machine started, those that it slept included.
fn uptime() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}
