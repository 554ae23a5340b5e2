//! Searches for the highest load that a router carries: pure arithmetic over trials that the caller carries
//! out.

pub mod binary;
mod classify;
pub mod mlr;

use std::time::Duration;

use anyhow::ensure;

/// What one trial of a search showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Frames lost of those sent, 0 to 1.
    pub loss_ratio: f64,
    /// The tester could not send, or not count, at this load: whatever the router does, the search
    /// must stay below.
    pub beyond_tester: bool,
}

/// A trial to be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Offered load, frames a second of each sending port.
    pub load: f64,
    /// Sending time.
    pub time: Duration,
    /// About how long the search goes on, this trial included.
    pub remaining: Duration,
}

/// Carries out trials.
pub type Measure<'a> = dyn FnMut(Request) -> anyhow::Result<Sample> + 'a;

/// The loads between which a search looks, frames a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The router fails if it does not even carry this; above 0.
    pub least: f64,
    /// Not beyond this: line rate, or the tester's own limit.
    pub most: f64,
}

impl Bounds {
    fn check(self) -> anyhow::Result<()> {
        ensure!(
            self.least > 0.0 && self.most >= self.least && self.most.is_finite(),
            "a search needs loads from above 0 up to a finite one, not from {} to {}",
            self.least,
            self.most
        );
        Ok(())
    }
}

/// What a search found for one goal. Loads are in frames a second of each sending port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Highest load that met the goal, if any did.
    pub lower: Option<f64>,
    /// Lowest load that did not; `None` if all did up to the most that was allowed.
    pub upper: Option<f64>,
    /// Frames forwarded at the lower bound (RFC 9971, conditional throughput).
    pub throughput: Option<f64>,
    /// Whether the upper bound is the tester's and not the router's.
    pub tester_bound: bool,
    /// Whether the bounds are as close as the goal wants. That the most allowed meets the goal is
    /// enough, too; then there is no upper bound (RFC 9971, 4.8.4.2, calls this irregular).
    pub complete: bool,
}
