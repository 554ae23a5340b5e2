//! A program that does not forward: it repeats a small computation.

use std::hash::{DefaultHasher, Hasher};
use std::hint::{black_box, spin_loop};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cpu::{Usage, pin};

/// Octets that one round hashes (SipHash); they fit into the first-level cache.
pub(super) const OCTETS: usize = 1024;

/// The work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Hashes.
    Service,
    /// Reads the clock, and pauses as spin locks do.
    Spinning,
}

/// The work done by a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Rounds.
    pub(super) rounds: u64,
    /// CPU time that they took.
    pub(super) ran: Duration,
}

/// A thread that is bound to a CPU.
pub(super) struct Busy(JoinHandle<anyhow::Result<Done>>);

impl Busy {
    /// Works from `start` to `end`.
    pub(super) fn start(
        work: Work,
        core: usize,
        start: Instant,
        end: Instant,
    ) -> anyhow::Result<Self> {
        let body = move || {
            pin(core)?;
            thread::sleep(start.saturating_duration_since(Instant::now()));
            let before = Usage::of_this_thread()?;
            let rounds = rounds(work, end);
            let ran = Usage::of_this_thread()?.since(before).ran;
            Ok(Done { rounds, ran })
        };
        let thread = thread::Builder::new().name("service".into()).spawn(body)?;
        Ok(Self(thread))
    }

    /// Waits until it ends.
    pub(super) fn finish(self) -> anyhow::Result<Done> {
        let joined = self.0.join();
        joined.map_err(|_| anyhow::anyhow!("the service panicked"))?
    }
}

fn rounds(work: Work, end: Instant) -> u64 {
    let octets = [0x5a; OCTETS];
    let mut rounds = 0;
    while Instant::now() < end {
        match work {
            Work::Service => {
                let mut hasher = DefaultHasher::new();
                hasher.write(black_box(&octets));
                black_box(hasher.finish());
            }
            Work::Spinning => spin_loop(),
        }
        rounds += 1;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_until_the_end() {
        let start = Instant::now();
        let end = start + Duration::from_millis(300); // on a busy machine it may start late
        let busy = Busy::start(Work::Service, 0, start, end).unwrap();
        let done = busy.finish().unwrap();
        assert!(Instant::now() >= end);
        assert!(done.rounds > 0 && done.ran > Duration::ZERO);
    }
}
