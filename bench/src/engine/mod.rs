//! The engine's benchmarks: each gives a [`Section`] of the report.

pub mod fairness;
pub mod latency;
pub mod memif;
pub mod overload;
pub mod parallel;
pub mod priority;
mod report;
mod service;
pub mod services;
pub mod testpmd;
pub mod throughput;
mod trial;
mod witness;

use std::time::Duration;

pub use report::{Aim, Section, publish};
pub use trial::{Input, Measured, Trial, capacity};
pub use witness::{Seen, Witness};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Times that each subject has its turn.
    pub rounds: usize,
    /// Length of one measurement.
    pub time: Duration,
}

/// The middle one of some values.
fn middle(values: &[f64]) -> f64 {
    crate::median(values)
}
