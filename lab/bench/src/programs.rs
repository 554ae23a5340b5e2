//! What the XDP programs of routers take, by the kernel's own statistics.

use std::fs;

use anyhow::Context;
use libbpf_rs::query::ProgInfoIter;

/// Whether the kernel measures programs.
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// How often programs have run, and for how long, with the helpers that they call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// ns, by the kernel's clock.
    time: u64,
    count: u64,
}

impl Runs {
    /// What all programs that are attached to routers' ports now have run.
    fn now() -> Self {
        ProgInfoIter::default()
            .filter(|program| is_of_router(&program.name.to_string_lossy()))
            .fold(Self::default(), |sum, program| Self {
                time: sum.time + program.run_time_ns,
                count: sum.count + program.run_cnt,
            })
    }

    /// The time of a run, ns, if each of the packets had one.
    pub(crate) fn time_of_each(self, packets: u64) -> Option<f64> {
        (self.count >= packets.max(1)).then(|| self.time as f64 / self.count as f64)
    }
}

/// What runs while `work` is done, which the kernel measures only then: it takes time.
///
/// # Errors
/// The work fails, or the kernel does not measure.
pub(crate) fn meanwhile<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Runs)> {
    fs::write(STATISTICS, "1").context(STATISTICS)?;
    let before = Runs::now();
    let done = work();
    let after = Runs::now();
    fs::write(STATISTICS, "0").context(STATISTICS)?;
    let runs = Runs {
        time: after.time - before.time,
        count: after.count - before.count,
    };
    Ok((done?, runs))
}

/// Whether a program of this name is attached to a router's port: Bora's, xdp-forward's, or that which libxdp puts in front.
fn is_of_router(name: &str) -> bool {
    name == "bora" || name.starts_with("xdp_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_a_run_for_each_packet() {
        let runs = |time, count| Runs { time, count };
        assert_eq!(runs(20, 2).time_of_each(2), Some(10.0));
        assert_eq!(runs(20, 2).time_of_each(3), None);
        assert_eq!(runs(0, 0).time_of_each(0), None);
    }
}
