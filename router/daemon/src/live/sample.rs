//! The counters at one moment.

use std::time::{Duration, Instant, SystemTime};

use bora_worker::{PortCounters, WorkerCounters};

use crate::config::File;
use crate::data_plane::DataPlane;
use crate::engine::Engine;
use crate::live::class_counts::{QueueSample, queues};
use crate::ports::totals::Totals;

/// Everything that rates are made of.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) time: SystemTime,
    /// Ports that there are, since they have their numbers.
    pub(crate) ports: Vec<PortSample>,
    /// Totals of all ports, removed ones too: what they received, others have sent.
    pub(crate) all: Totals,
    /// Packets in Bora's rings. It is below zero if a packet was counted on its way.
    pub(crate) held: i64,
    pub(crate) workers: Vec<WorkerSample>,
    pub(crate) queues: Vec<QueueSample>,
}

/// A port's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortSample {
    pub(crate) name: String,
    pub(crate) totals: Totals,
}

/// A worker's counters since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerSample {
    pub(crate) loops: u64,
    pub(crate) idle_loops: u64,
    pub(crate) sleeps: u64,
    /// Packets.
    pub(crate) received: u64,
    /// Packets.
    pub(crate) held: u64,
    pub(crate) pool_exhausted: u64,
}

impl Sample {
    pub(crate) fn take(plane: &DataPlane, config: &File) -> Self {
        let by_number: Vec<Totals> = plane
            .ports()
            .numbers()
            .map(|number| plane.totals(number))
            .collect();
        let engine = plane.engine();
        let held = engine.map_or(0, Engine::held);
        let all = sum(&by_number);
        let ports = plane.ports().iter().map(|port| PortSample {
            name: port.name.clone(),
            totals: by_number[usize::from(port.id.0)].since(&port.before),
        });
        Self {
            at: Instant::now(),
            time: SystemTime::now(),
            ports: ports.collect(),
            held: (all.to_engine + held) as i64 - all.from_engine as i64,
            all,
            workers: engine
                .into_iter()
                .flat_map(|engine| &engine.workers)
                .map(|worker| WorkerSample::of(&worker.counters))
                .collect(),
            queues: engine.map_or_else(Vec::new, |engine| queues(engine, plane, config)),
        }
    }

    /// Time since an earlier sample.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        self.at - before.at
    }

    /// What a port of this name had counted; nothing if it was none.
    pub(crate) fn port(&self, name: &str) -> Option<&Totals> {
        let port = self.ports.iter().find(|port| port.name == name);
        port.map(|port| &port.totals)
    }
}

impl WorkerSample {
    fn of(counters: &WorkerCounters) -> Self {
        let received = counters
            .ports
            .iter()
            .map(|port: &PortCounters| port.rx_packets.get());
        Self {
            loops: counters.loops.get(),
            idle_loops: counters.idle_loops.get(),
            sleeps: counters.sleeps.get(),
            received: received.sum(),
            held: counters.held.get(),
            pool_exhausted: counters.pool_exhausted.get(),
        }
    }
}

fn sum(all: &[Totals]) -> Totals {
    let mut total = Totals::default();
    for one in all {
        total += one;
    }
    total
}
