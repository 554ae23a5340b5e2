//! The engine's benchmarks; each makes a [`Section`] of the report.

pub mod fairness;
pub mod inputs;
pub mod latency;
pub mod light;
pub mod memif;
pub mod memif_alone;
pub mod overload;
pub mod parallel;
pub mod ports;
pub mod priority;
mod report;
mod service;
pub mod services;
pub mod shared;
pub mod stages;
pub mod testpmd;
pub mod throughput;
mod trial;
mod witness;

use std::time::Duration;

pub use report::{Aim, Section, publish};
pub use trial::{Input, Measured, Trial};
pub use witness::{Seen, Witness};

use crate::{Results, Row, ends};

/// The case of the capacity.
const BEYOND: &str = "a load beyond any";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often each subject is measured.
    pub rounds: usize,
    /// Length of one measurement.
    pub time: Duration,
}

/// The capacity that a benchmark's loads refer to, beside that of its ends alone.
#[derive(Default)]
struct Capacities {
    all: Vec<f64>,
    results: Results,
}

impl Capacities {
    /// Measures both, and returns the capacity, packets/s.
    fn measure(&mut self, time: Duration, latency: bool) -> anyhow::Result<f64> {
        let capacity = trial::capacity(time, latency)?;
        self.all.push(capacity);
        self.results.add(BEYOND, "poll", capacity);
        self.results
            .add(BEYOND, ends::ALONE, trial::ends(time, latency)?);
        Ok(capacity)
    }

    fn median(&self) -> f64 {
        middle(&self.all)
    }

    fn rows(&self) -> Vec<Row> {
        self.results.rows("capacity", "packets/s", "poll")
    }
}

/// The median.
fn middle(values: &[f64]) -> f64 {
    bora_fib_bench::results::median(values)
}
