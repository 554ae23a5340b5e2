//! `path`, `[workers]`, `[fib]`, `[firewall]`, `[linux]`.

use std::num::NonZeroU16;

use bora_fib::{FibConfig, Ipv4Table};
use bora_worker::Mode;
use bora_xdp::MAX_QUEUES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Most workers of an engine: as many as a port can have queues.
pub(crate) const MAX_WORKERS: usize = MAX_QUEUES as usize;

/// The engine's workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSection {
    /// CPUs, one worker each, at most 128; without, one worker where the scheduler puts it.
    pub cores: Vec<usize>,
    /// When they look at their queues: `poll`, `adaptive`, `moderated` or
    /// `moderated:PACKETS:MICROSECONDS`.
    #[serde(with = "mode")]
    #[schemars(with = "String")]
    pub mode: Mode,
    /// Most packets a worker takes in one round over all its queues, 1 to 1000000.
    pub budget: u32,
}

impl Default for WorkersSection {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            mode: Mode::default(),
            budget: bora_worker::BUDGET,
        }
    }
}

/// The forwarding table of engine and express.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FibSection {
    /// Most memory for nodes, IPv4 and IPv6 each, MiB, 1 to 1024. A full Internet table needs 2.
    pub memory: u16,
    /// Memory of it that express can read, IPv4 and IPv6 each, MiB, 0 to 1024; taken as a whole at the start,
    /// and 11 MiB more. Express asks Linux's FIB for what does not fit. 0: for each packet.
    pub express_memory: u16,
    /// The IPv4 table.
    pub table: Table,
}

/// Ways to keep IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// A compressed tree: small, fastest for many destinations.
    #[default]
    Tree,
    /// DIR-24-8 in front of the tree, 32 MiB more: fastest for a few thousand destinations.
    Dir24,
}

/// What goes to Linux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinuxSection {
    /// Exceptions a second and CPU that may go to Linux, for each reason.
    pub punt_budget: u64,
    /// Forward even where Linux has firewall rules, tc filters or IPsec policies.
    pub bypass_netfilter: bool,
    /// Seconds between two background checks, 1 to 65535: each reads Linux's tables and compares them
    /// with the FIB though no event asks for it.
    pub check_interval: NonZeroU16,
}

/// Firewalls of Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FirewallSection {
    /// Whether established flows of TCP and UDP pass the chains no more, though the ruleset has no flowtable.
    pub flows: FlowChoice,
}

/// When Bora offers a flowtable of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowChoice {
    /// Never.
    Off,
    /// When the rules accept every packet of every established flow, and else only count.
    #[default]
    Proved,
    /// When rules look at connections, whatever else they do with packets of a flow that they have once accepted.
    Always,
}

impl Default for FibSection {
    fn default() -> Self {
        Self {
            memory: 256,
            express_memory: 16,
            table: Table::Tree,
        }
    }
}

impl FibSection {
    /// As the FIB wants it.
    pub(crate) fn config(&self) -> FibConfig {
        let octets = usize::from(self.memory) << 20;
        FibConfig {
            max_bytes4: octets,
            max_bytes6: octets,
            // old and new workers when they are replaced, and the XDP program
            max_readers: 2 * MAX_WORKERS + 1,
            ipv4: match self.table {
                Table::Tree => Ipv4Table::Tree,
                Table::Dir24 => Ipv4Table::Dir24,
            },
            ..FibConfig::default()
        }
    }

    /// Pages of nodes that express can read, of each IP version.
    pub(crate) fn express_pages(&self) -> u32 {
        u32::from(self.express_memory) << 8
    }
}

impl Default for LinuxSection {
    fn default() -> Self {
        Self {
            punt_budget: 10_000,
            bypass_netfilter: false,
            check_interval: const { NonZeroU16::new(60).unwrap() },
        }
    }
}

/// Modes as text.
mod mode {
    use super::{Deserialize, Mode};

    pub(super) fn serialize<S: serde::Serializer>(mode: &Mode, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mode)
    }

    pub(super) fn deserialize<'a, D: serde::Deserializer<'a>>(from: D) -> Result<Mode, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
