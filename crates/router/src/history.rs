//! The configurations that were in force, the last ones, each in a file that says when and by whom.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::File;
use crate::runtime_dir::RuntimeDir;

/// Most files to keep.
const MOST: usize = 50;

/// What systemd has for this service, if it started it: it survives a restart of the machine.
const STATE: &str = "STATE_DIRECTORY";

/// A configuration that was in force from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Number; later ones have higher numbers.
    pub(crate) number: u64,
    /// When it came into force.
    pub(crate) time: Timestamp,
    /// What brought it: a start, or who applied it.
    pub(crate) by: String,
}

/// The folder of the files.
#[derive(Clone, Debug)]
pub(crate) struct History(PathBuf);

impl History {
    pub(crate) fn new(dir: &RuntimeDir) -> Self {
        let folder = std::env::var_os(STATE).map_or_else(|| dir.state(), PathBuf::from);
        Self(folder.join("history"))
    }

    /// Notes what is in force from now on, unless it is what the last entry says.
    pub(crate) fn add(&self, file: &File, by: &str) {
        if let Err(error) = self.write(file, by) {
            log::warn!(
                "{}: the configuration is not kept: {error:#}",
                self.0.display()
            );
        }
    }

    fn write(&self, file: &File, by: &str) -> anyhow::Result<()> {
        let entries = self.entries();
        let last = entries.last().map_or(0, |last| last.number);
        if self.read(last).is_ok_and(|before| before == *file) {
            return Ok(());
        }
        make_private(&self.0)?;
        let by = by.replace(char::is_control, " ");
        let text = format!("# {} {by}\n{}", Timestamp::now(), file.to_text()?);
        let part = self.0.join("new"); // a crash leaves no half entry
        fs::write(&part, text)?;
        fs::rename(part, self.path(last + 1))?;
        let excess = (entries.len() + 1).saturating_sub(MOST);
        for old in &entries[..excess] {
            fs::remove_file(self.path(old.number))?;
        }
        Ok(())
    }

    /// What there is, the oldest first.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut entries: Vec<Entry> = files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                let number = name.strip_suffix(".toml")?.parse().ok()?;
                entry(number, &fs::read_to_string(file.path()).ok()?)
            })
            .collect();
        entries.sort_by_key(|entry| entry.number);
        entries
    }

    /// The configuration with a number.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn read(&self, number: u64) -> anyhow::Result<File> {
        File::read(&self.path(number))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number}.toml"))
    }
}

fn entry(number: u64, text: &str) -> Option<Entry> {
    let line = text.lines().next()?.strip_prefix("# ")?;
    let (time, by) = line.split_once(' ')?;
    Some(Entry {
        number,
        time: time.parse().ok()?,
        by: by.into(),
    })
}

/// Makes a folder that only its owner can read, because configurations have secrets.
fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let folder = std::env::temp_dir().join(format!("bora-history-{}", std::process::id()));
        let history = History(folder.clone());
        let mut file: File = toml::from_str("[[port]]\nname = \"eth0\"\n").unwrap();
        history.add(&file, "start");
        history.add(&file, "the same again");
        assert_eq!(history.entries().len(), 1);
        for budget in 1..=MOST as u32 + 5 {
            file.workers.budget = budget;
            history.add(&file, "root\n (process 7)");
        }
        let entries = history.entries();
        assert_eq!(entries.len(), MOST);
        let last = entries.last().unwrap();
        assert_eq!(
            (last.number, &*last.by),
            (MOST as u64 + 6, "root  (process 7)")
        );
        assert_eq!(history.read(last.number).unwrap(), file);
        assert!(history.read(1).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
