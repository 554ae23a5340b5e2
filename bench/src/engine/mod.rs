//! The engine's benchmarks; each makes a [`Section`] of the report.

pub mod fairness;
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
pub use trial::{Input, Measured, Trial, capacity, ends};
pub use witness::{Seen, Witness};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often each subject is measured.
    pub rounds: usize,
    /// Length of one measurement.
    pub time: Duration,
}

/// The median.
fn middle(values: &[f64]) -> f64 {
    bora_fib_bench::results::median(values)
}
