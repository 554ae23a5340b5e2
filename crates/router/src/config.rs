//! What the user asks for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::PortSpec;

/// Which tier forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathChoice {
    /// The engine where the driver does zero-copy, express where it does not.
    #[default]
    Auto,
    /// The XDP program itself.
    Express,
    /// User-space workers.
    Engine,
}

/// Parts of Linux the user takes out of the way on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// Forward even where netfilter, tc or xfrm has rules.
    pub netfilter: bool,
}

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// What to forward between.
    pub ports: Vec<PortSpec>,
    /// CPUs for workers; empty lets the scheduler place one worker.
    pub cores: Vec<usize>,
    /// When workers look at their queues.
    pub mode: bora_worker::Mode,
    /// Which tier.
    pub path: PathChoice,
    /// What to bypass.
    pub bypass: Bypass,
    /// The FIB's limits and kind.
    pub fib: bora_fib::FibConfig,
    /// Packets a second, per reason and CPU, that may go to Linux as exceptions.
    pub punt_budget: u64,
}
