//! How much CPU time a thread got.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Keeps the calling thread on a CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn pin(core: usize) -> anyhow::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(core);
    sched_setaffinity(None, &cpus).with_context(|| format!("CPU {core}"))
}

/// CPU usage of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time it ran.
    pub ran: Duration,
    /// Time it was runnable and waited for a CPU.
    pub waited: Duration,
}

impl Usage {
    /// The usage of the calling thread.
    ///
    /// # Errors
    /// Linux without `CONFIG_SCHED_INFO`.
    pub fn of_this_thread() -> anyhow::Result<Self> {
        // not from schedstat, whose first number is only updated with each scheduler tick
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        Ok(Self {
            ran: Duration::new(ran.tv_sec.try_into()?, ran.tv_nsec.try_into()?),
            ..Self::read("/proc/thread-self/schedstat")?
        })
    }

    /// Usage of a thread of any process, as of its last scheduler tick (some milliseconds ago).
    ///
    /// # Errors
    /// No such thread.
    pub fn of(process: u32, thread: u32) -> anyhow::Result<Self> {
        Self::read(&format!("/proc/{process}/task/{thread}/schedstat"))
    }

    /// The difference to an `earlier` value.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(earlier.ran),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }

    fn read(path: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.to_string())?;
        Self::parse(&text).with_context(|| format!("{path}: `{}`", text.trim()))
    }

    /// Nanoseconds run, nanoseconds waited, time slices (Documentation/scheduler/sched-stats.rst).
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
        Some(Self {
            ran: next()?,
            waited: next()?,
        })
    }
}

/// The thread of a process whose name begins with one of these.
///
/// # Errors
/// There is none.
pub fn thread_named(process: u32, names: &[&str]) -> anyhow::Result<u32> {
    let folder = format!("/proc/{process}/task");
    for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
        let entry = entry?;
        let thread = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if names.iter().any(|name| thread.starts_with(name)) {
            return Ok(entry.file_name().to_string_lossy().parse()?);
        }
    }
    anyhow::bail!("process {process} has no thread named {names:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_two_times() {
        let usage = Usage::parse("77986 64887 2\n").unwrap();
        assert_eq!(usage.ran, Duration::from_nanos(77_986));
        assert_eq!(usage.waited, Duration::from_nanos(64_887));
        assert_eq!(Usage::parse("x"), None);
    }

    #[test]
    fn running_takes_time() {
        let before = Usage::of_this_thread().unwrap();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(20) {}
        let used = Usage::of_this_thread().unwrap().since(before);
        assert!(used.ran > Duration::ZERO && used.ran <= start.elapsed());
    }
}
