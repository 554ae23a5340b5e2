//! The configurations that were in force, the last ones, each in a file that says when and by whom.

use std::path::PathBuf;
use std::{fs, io};

use anyhow::Context;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::File;
use crate::process::private;
use crate::process::runtime_dir::RuntimeDir;

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
        let numbers = self.numbers()?;
        let last = numbers.last().copied().unwrap_or(0);
        // one that cannot be read differs
        if matches!(self.read(last), Ok(Some(before)) if before == *file) {
            return Ok(());
        }
        private::make_folder(&self.0)?;
        let by = by.replace(char::is_control, " ");
        let text = format!("# {} {by}\n{}", Timestamp::now(), file.to_text()?);
        private::write(&self.path(last + 1), &text)?;
        let excess = (numbers.len() + 1).saturating_sub(MOST);
        for old in &numbers[..excess] {
            fs::remove_file(self.path(*old))?;
        }
        Ok(())
    }

    /// What to tell about a start with `file` if something else was in force last, and `file` before that.
    pub(crate) fn brought_back(&self, file: &File) -> Option<String> {
        let entries = match self.entries() {
            Ok(entries) => entries,
            Err(error) => {
                return Some(format!(
                    "whether this start brings back what was replaced is not known: {error:#}"
                ));
            }
        };
        let (last, earlier) = entries.split_last()?;
        let is_same = |entry: &Entry| {
            let kept = self.read(entry.number);
            matches!(kept, Ok(Some(kept)) if kept == *file) // one that cannot be read is not the same
        };
        if is_same(last) {
            return None;
        }
        let same = earlier.iter().rev().find(|entry| is_same(entry))?;
        Some(format!(
            "this start brings configuration {} back, which was replaced: {} was in force when Bora ended ({}). `bora diff {1}` \
             shows the difference, `bora rollback {1}` brings {1} back, and `bora save FILE` keeps it for the next start",
            same.number, last.number, last.by
        ))
    }

    /// The numbers that there are, in order.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let files = match fs::read_dir(&self.0) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for file in files {
            let name = file?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".toml"));
            // other files may be here
            if let Some(Ok(number)) = number.map(str::parse) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What there is, the oldest first. Reads all files; those that cannot be read are in the log.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let numbers = self.numbers();
        let numbers = numbers.with_context(|| format!("cannot read {}", self.0.display()))?;
        let one = |number| match fs::read_to_string(self.path(number)) {
            Ok(text) => {
                let entry = entry(number, &text);
                if entry.is_none() {
                    let path = self.path(number);
                    log::warn!(
                        "{}: its first line says not who made it when",
                        path.display()
                    );
                }
                entry
            }
            Err(error) => {
                log::warn!("{}: {error}", self.path(number).display());
                None
            }
        };
        Ok(numbers.into_iter().filter_map(one).collect())
    }

    /// The configuration with a number; `None` if it is not kept.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, number: u64) -> anyhow::Result<Option<File>> {
        let path = self.path(number);
        match path.try_exists()? {
            true => File::read(&path).map(Some),
            false => Ok(None),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number}.toml"))
    }
}

fn entry(number: u64, text: &str) -> Option<Entry> {
    let line = text.lines().next()?.strip_prefix("# ")?;
    let (time, by) = line.split_once(' ')?;
    // the caller says that the line is wrong
    let Ok(time) = time.parse() else { return None };
    Some(Entry {
        number,
        time,
        by: by.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_brings_back_what_was_replaced_is_noticed() {
        let folder = std::env::temp_dir().join(format!("bora-brought-{}", std::process::id()));
        let history = History(folder.clone());
        let good: File = toml::from_str("[[port]]\nname = \"eth0\"\n").unwrap();
        let (mut bad, mut new) = (good.clone(), good.clone());
        (bad.workers.budget, new.workers.budget) = (7, 8);
        assert_eq!(history.brought_back(&good), None);
        history.add(&good, "start");
        history.add(&bad, "root");
        assert_eq!(history.brought_back(&bad), None);
        history.add(&good, "went back");
        assert_eq!(history.brought_back(&good), None);
        assert_eq!(history.brought_back(&new), None);
        let text = history.brought_back(&bad).unwrap();
        assert!(
            text.contains("configuration 2") && text.contains("`bora rollback 3`"),
            "{text}"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_an_empty_one() {
        let path = std::env::temp_dir().join(format!("bora-no-history-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let history = History(path.clone());
        assert!(history.entries().is_err());
        let told = history.brought_back(&File::default()).unwrap();
        assert!(told.contains("is not known"), "{told}");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_last_ones_are_kept() {
        let folder = std::env::temp_dir().join(format!("bora-history-{}", std::process::id()));
        let history = History(folder.clone());
        let mut file: File = toml::from_str("[[port]]\nname = \"eth0\"\n").unwrap();
        history.add(&file, "start");
        history.add(&file, "the same again");
        assert_eq!(history.entries().unwrap().len(), 1);
        for budget in 1..=MOST as u32 + 5 {
            file.workers.budget = budget;
            history.add(&file, "root\n (process 7)");
        }
        let entries = history.entries().unwrap();
        assert_eq!(entries.len(), MOST);
        let last = entries.last().unwrap();
        assert_eq!(
            (last.number, &*last.by),
            (MOST as u64 + 6, "root  (process 7)")
        );
        assert_eq!(history.read(last.number).unwrap().unwrap(), file);
        assert!(history.read(1).unwrap().is_none());
        let mode = fs::metadata(history.path(last.number))
            .unwrap()
            .permissions();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
            0o600
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
