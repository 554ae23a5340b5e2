//! What became of the packets of a run.

use anyhow::ensure;
use bora_contract::{Counter, Counts};
use bora_port::QueueStats;
use bora_worker::{PuntRings, WorkerCounters};

use crate::cpu::Usage;

/// What became of the packets of a run, and the CPU time it took.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Dropped, or punted: benchmarks have no slow path.
    pub dropped: Counts,
    /// Dropped because the backlog was full ([`crate::interrupt`]).
    pub backlog_full: u64,
    /// Packets in a queue or ring at the end.
    pub held: u64,
    /// Lost before reception, by port.
    pub losses: Vec<QueueStats>,
    /// Nanoseconds of each stage, if it was profiled.
    pub stages: Vec<u64>,
    /// CPU usage of its thread.
    pub usage: Usage,
}

impl Outcome {
    /// Packets dropped after reception.
    pub fn drops(&self) -> u64 {
        self.dropped.sum() + self.backlog_full
    }

    /// Packets sent for each second that its thread ran.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.usage.ran.as_secs_f64()
    }

    /// received = sent + dropped + held.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.received == self.sent + self.drops() + self.held,
            "packets were lost and not counted: {self:?}"
        );
        Ok(())
    }

    /// The outcome from a worker's counters.
    pub(crate) fn of_worker(counters: &WorkerCounters, punts: &PuntRings) -> Self {
        let mut outcome = Self {
            held: counters.queued.get(),
            stages: counters.profile.stages.iter().map(Counter::get).collect(),
            ..Self::default()
        };
        for port in &counters.ports {
            outcome.received += port.rx_packets.get();
            outcome.sent += port.tx_packets.get();
            outcome.dropped += port.dropped.read();
        }
        let mut punted = Vec::new();
        punts.take(&mut punted, usize::MAX);
        for punted in punted {
            outcome.dropped[punted.reason] += 1;
        }
        outcome
    }
}
