//! The methods of a test: which trials are done, and what follows from them.
//!
//! Each is a function over a [`Context`] and knows neither ports nor clocks. Rates are in frames a
//! second of each sending port, but for findings, which are of all ports together.

mod back_to_back;
mod churn;
mod context;
mod forwarding;
mod frame_loss;
mod latency;
mod outage;
mod record;
mod recovery;
mod saturation;
mod statistics;
mod throughput;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

pub use context::{Context, Interrupted, Limit};

use crate::trial::Hook;

/// What a test is told. Every method uses some of it.
#[derive(Clone)]
pub struct Options {
    /// How throughput is searched.
    pub search: Search,
    /// Loss that is tolerated, 0 to 1; a result each.
    pub losses: Vec<f64>,
    /// Part of the time in which more may be lost (RFC 9971), 0 to 1.
    pub exceed: f64,
    /// How close a search must come, relative to the load.
    pub width: f64,
    /// Length of a trial.
    pub time: Duration,
    /// Length of a search's first trials.
    pub initial_time: Duration,
    /// Sum of trial lengths that decides a load.
    pub sum_time: Duration,
    /// Repetitions.
    pub trials: u32,
    /// Loads to measure at: of the throughput (latency), of the limit (saturation).
    pub loads: Vec<f64>,
    /// Loads to measure at, frames a second of each sending port.
    pub rates: Vec<f64>,
    /// Load meanwhile, frames a second of each sending port.
    pub rate: Option<f64>,
    /// Step of the offered load, 0 to 1.
    pub step: f64,
    /// Frames sent back to back before the sender waits for what is due; 1: evenly.
    pub burst: u32,
    /// Pause before each trial but the first (RFC 2544, 23 e).
    pub settle: Duration,
    /// What is done to the router.
    pub hook: Option<Hook>,
}

impl Default for Options {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            search: Search::Mlr,
            losses: vec![0.0],
            // RFC 2544's goal, as RFC 9971 has it (4.10.2)
            exceed: 0.0,
            width: 0.005,
            time: second,
            initial_time: second,
            sum_time: second,
            trials: 1,
            loads: Vec::new(),
            rates: Vec::new(),
            rate: None,
            step: 0.1,
            burst: 1,
            settle: Duration::ZERO,
            hook: None,
        }
    }
}

/// Ways to find a throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// RFC 9971.
    #[default]
    Mlr,
    /// RFC 2544, 26.1.
    Binary,
}

/// What is measured, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// RFC 2544, 26.1; RFC 9971.
    Throughput,
    /// RFC 2544, 26.2; RFC 8219.
    Latency,
    /// RFC 2544, 26.3.
    FrameLoss,
    /// RFC 2544, 26.4; RFC 9004.
    BackToBack,
    /// RFC 2544, 26.5.
    Recovery,
    /// RFC 2544, 26.6; RFC 6201.
    Reset,
    /// Bianco05.
    Saturation,
    /// RFC 2889, 5.1, 5.2 and 5.4.
    Forwarding,
    /// How long a restart is felt.
    Outage,
    /// Loss and latency while routes change.
    Churn,
}

type Run = fn(&mut Context<'_>) -> anyhow::Result<()>;

impl Method {
    /// Its name in plans and reports, where it is described, and what carries it out.
    fn entry(self) -> (&'static str, &'static str, Run) {
        match self {
            Self::Throughput => ("throughput", "RFC 2544, 26.1; RFC 9971", throughput::run),
            Self::Latency => (
                "latency",
                "RFC 2544, 26.2; RFC 8219, 7.2 and 7.3",
                latency::run,
            ),
            Self::FrameLoss => ("frame-loss", "RFC 2544, 26.3", frame_loss::run),
            Self::BackToBack => (
                "back-to-back",
                "RFC 2544, 26.4; RFC 9004",
                back_to_back::run,
            ),
            Self::Recovery => ("recovery", "RFC 2544, 26.5", recovery::run),
            Self::Reset => ("reset", "RFC 2544, 26.6; RFC 6201", outage::run),
            Self::Saturation => ("saturation", "Bianco et al., 2005", saturation::run),
            Self::Forwarding => ("forwarding", "RFC 2889, 5.1, 5.2 and 5.4", forwarding::run),
            Self::Outage => {
                let reference = "longest gap, and frames lost at a constant rate";
                ("outage", reference, outage::run)
            }
            Self::Churn => {
                let reference = "two equal trials, routes at rest and changing";
                ("churn", reference, churn::run)
            }
        }
    }

    /// Its name in plans and reports.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Carries the method out; what it finds is in the context's test, also if it fails.
    ///
    /// # Errors
    /// A trial could not be carried out, or [`Interrupted`].
    pub fn run(self, context: &mut Context<'_>) -> anyhow::Result<()> {
        let (name, reference, run) = self.entry();
        context.test.method = name.into();
        context.test.reference = reference.into();
        run(context)
    }
}

/// A share as per cent, with as many digits as it needs.
fn percent(share: f64) -> String {
    let percent = (share * 1e6).round() / 1e4;
    percent.to_string()
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
