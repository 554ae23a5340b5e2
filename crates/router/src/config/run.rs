//! What the user asks for.

use bora_forward::classify::DscpClasses;
use bora_forward::schedule::OutputConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::port::PortSection;
use super::rule::RuleSection;
use crate::spec::PortSpec;

/// Which tier forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathChoice {
    /// The engine where the driver does zero-copy, or where rules, classes or queues are
    /// configured; express where not.
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

/// One port of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// What it is.
    pub spec: PortSpec,
    /// What the configuration calls it.
    pub section: String,
    /// Packets a turn.
    pub quota: u32,
    /// Its queues.
    pub output: OutputConfig,
}

impl PortConfig {
    pub(crate) fn of(section: &PortSection) -> Self {
        Self {
            spec: section.spec(),
            section: section.name.clone(),
            quota: section.quota,
            output: section.queues.output(),
        }
    }
}

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Ports, by number.
    pub ports: Vec<PortConfig>,
    /// CPUs for workers; empty lets the scheduler place one worker.
    pub cores: Vec<usize>,
    /// When workers look at their queues.
    pub mode: bora_worker::Mode,
    /// Packets a worker takes in a round.
    pub budget: u32,
    /// Whether buffers are recycled.
    pub recycling: bool,
    /// Which tier.
    pub path: PathChoice,
    /// Something is configured that only the engine does.
    pub needs_engine: bool,
    /// What to bypass.
    pub bypass: Bypass,
    /// The FIB's limits and kind.
    pub fib: bora_fib::FibConfig,
    /// Packets a second, per reason and CPU, that may go to Linux as exceptions.
    pub punt_budget: u64,
    /// Rules in order.
    pub rules: Vec<RuleSection>,
    /// Class of each code point where no rule gives one.
    pub dscp: DscpClasses,
}
