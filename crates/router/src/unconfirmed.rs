//! An apply that is undone unless somebody confirms it. A file keeps it, so that a restart does not
//! confirm it.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::config::{File, diff};
use crate::runtime_dir::RuntimeDir;

/// What an apply replaced that nobody has confirmed yet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unconfirmed {
    /// When its time is over, ms since the machine started.
    due: u64,
    pub(crate) before: File,
    after: File,
}

impl Unconfirmed {
    /// An apply that made `after` of `before`, to be confirmed within `seconds`.
    pub(crate) fn new(before: File, after: File, seconds: u64, dir: &RuntimeDir) -> Self {
        let due = uptime() + 1000 * seconds;
        let new = Self { due, before, after };
        let text = toml::to_string(&new).map_err(anyhow::Error::from);
        let written = text.and_then(|text| Ok(fs::write(dir.unconfirmed(), text)?));
        if let Err(error) = written {
            log::warn!("a restart will take the apply for confirmed: {error}");
        }
        new
    }

    /// What an earlier Bora applied, if this one was started with that configuration. With another
    /// one there is nothing to confirm.
    pub(crate) fn of_predecessor(started_with: &File, dir: &RuntimeDir) -> Option<Self> {
        let text = fs::read_to_string(dir.unconfirmed()).ok()?;
        let known = toml::from_str::<Self>(&text).ok();
        let known = known.filter(|known| diff(started_with, &known.after).is_empty());
        if known.is_none() {
            forget(dir);
        }
        known
    }

    /// How long until it is undone.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_millis(self.due.saturating_sub(uptime()))
    }
}

/// Removes the file.
pub(crate) fn forget(dir: &RuntimeDir) {
    let _ = fs::remove_file(dir.unconfirmed()); // it may be gone
}

/// Milliseconds since the machine started, those that it slept included.
fn uptime() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}
