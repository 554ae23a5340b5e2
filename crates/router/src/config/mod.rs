//! `bora.toml`: everything `bora run` can be told, in a file; one module a section.

mod check;
mod diff;
mod dscp;
mod port;
mod queues;
mod rate;
mod rule;
mod run;
mod sections;
mod ternary;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use bora_fib::{FibConfig, Ipv4Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::PortSpec;
pub use bora_config::{Problem, Step};
pub use diff::{Action, diff};
pub use dscp::{CodePoint, DscpSection};
pub use port::PortSection;
pub use queues::{ClassSection, QueuesSection};
pub use rate::Rate;
pub(crate) use rule::Names;
pub use rule::{Ports, RuleAction, RuleSection, Via};
pub use run::{Bypass, PathChoice, PortConfig, RunConfig};
pub use sections::{FibSection, LinuxSection, Table, WorkersSection};
pub use ternary::{AddressMatch, DscpMatch, PcpMatch, ProtocolMatch, TosMatch};

/// Configuration of a Bora. Everything but the ports may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Which tier forwards.
    #[serde(default)]
    pub path: PathChoice,
    /// What to forward between, at least one.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSection>,
    /// The engine's workers.
    #[serde(default)]
    pub workers: WorkersSection,
    /// The engine's forwarding table.
    #[serde(default)]
    pub fib: FibSection,
    /// What goes to Linux.
    #[serde(default)]
    pub linux: LinuxSection,
    /// Classes of code points (engine).
    #[serde(default, skip_serializing_if = "is_default")]
    pub dscp: DscpSection,
    /// Rules in order (engine). They see what the engine forwards, not what goes to Linux: they are
    /// no firewall.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSection>,
}

fn is_default(section: &DscpSection) -> bool {
    section.0.is_empty()
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(name)?;
        Self::parse(&text).with_context(name)
    }

    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// What is wrong, with its line and column.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Self = toml::from_str(text)?;
        match file.check() {
            Ok(()) => Ok(file),
            Err(problem) => Err(anyhow!("{}", problem.located(text))),
        }
    }

    /// As text.
    ///
    /// # Errors
    /// None that a file which was read could cause.
    pub fn to_text(&self) -> anyhow::Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// The section that only the engine obeys, if there is one.
    pub fn needs_engine(&self) -> Option<&'static str> {
        let other = |port: &PortSection| matches!(port.spec(), PortSpec::Other(..));
        if self.ports.iter().any(other) {
            Some("port that is no interface")
        } else if !self.rules.is_empty() {
            Some("rule")
        } else if !self.dscp.0.is_empty() {
            Some("dscp")
        } else if self.ports.iter().any(|port| !port.queues.is_default()) {
            Some("port.queues")
        } else {
            None
        }
    }

    /// What [`crate::Router`] wants to know.
    pub fn into_config(self) -> RunConfig {
        let octets = usize::from(self.fib.memory) << 20;
        let needs_engine = self.needs_engine().is_some();
        RunConfig {
            ports: self.ports.iter().map(PortConfig::of).collect(),
            cores: self.workers.cores,
            mode: self.workers.mode,
            budget: self.workers.budget,
            recycling: self.workers.recycling,
            path: self.path,
            needs_engine,
            bypass: Bypass {
                netfilter: self.linux.bypass_netfilter,
            },
            fib: FibConfig {
                max_bytes4: octets,
                max_bytes6: octets,
                ipv4: match self.fib.table {
                    Table::Tree => Ipv4Table::D,
                    Table::Dir24 => Ipv4Table::Dir24,
                },
                ..FibConfig::default()
            },
            punt_budget: self.linux.punt_budget,
            rules: self.rules,
            dscp: self.dscp.classes(),
        }
    }
}

/// The JSON schema of the file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).into()
}
