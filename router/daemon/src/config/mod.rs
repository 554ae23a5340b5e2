//! `bora.toml`: everything `bora run` can be told, in a file; one module a section.

mod addresses;
mod api;
mod brought;
mod check;
mod diff;
mod dscp;
mod kind;
mod port;
mod queues;
mod rate;
mod rule;
mod sections;
mod sflow;
mod ternary;
#[cfg(test)]
mod tests;
mod warnings;

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use addresses::AddressSet;
pub use api::ApiSection;
pub use bora_config::{Problem, Step};
pub use brought::{BroughtKind, bring};
pub(crate) use diff::{Action, Setting, diff};
pub use dscp::{CodePoint, DscpSection};
pub use kind::{PortKind, TwinKind};
pub use port::{PortSection, StationAddress};
pub use queues::{ClassSection, QueuesSection};
pub use rate::Rate;
pub(crate) use rule::Names;
pub use rule::{Ports, RuleAction, RuleSection, Via};
pub use sections::{
    FibSection, FirewallSection, FlowChoice, LinuxSection, PathChoice, Table, WorkersSection,
};
pub use sflow::{Collectors, SflowSection};
pub(crate) use ternary::protocol_name;
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
    /// Firewalls of Linux.
    #[serde(default)]
    pub firewall: FirewallSection,
    /// What goes to Linux.
    #[serde(default)]
    pub linux: LinuxSection,
    /// Reports for other machines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: ApiSection,
    /// Samples for collectors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sflow: SflowSection,
    /// Classes of code points (engine).
    #[serde(default, skip_serializing_if = "is_default")]
    pub dscp: DscpSection,
    /// Rules in order (engine). They see what the engine forwards, not what goes to Linux: they are
    /// no firewall.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSection>,
}

fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(name)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse_in(&text, Some(folder)).with_context(name)
    }

    /// Reads and checks a file's text, which may name no files of addresses.
    ///
    /// # Errors
    /// What is wrong, with its line and column.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Self::parse_in(text, None)
    }

    fn parse_in(text: &str, folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut file: Self = toml::from_str(text).map_err(|error| match kind::problem(text) {
            Some(problem) => anyhow!("{}", problem.located(text)),
            None => anyhow!("{}", in_words(&error, text)),
        })?;
        let problem = |problem: Problem| anyhow!("{}", problem.located(text));
        file.check_files(folder.is_some()).map_err(problem)?;
        if let Some(folder) = folder {
            for rule in &mut file.rules {
                rule.read_files(folder)?;
            }
        }
        file.check().map_err(problem)?;
        Ok(file)
    }

    /// As text.
    ///
    /// # Errors
    /// None that a file which was read could cause.
    pub fn to_text(&self) -> anyhow::Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// The configuration without its secrets, for users who may only look.
    pub fn without_secrets(&self) -> Self {
        let mut file = self.clone();
        for port in &mut file.ports {
            port.kind.hide_secret();
        }
        file
    }

    /// What is legal, and most likely not meant; one line each.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(self)
    }

    /// The section that only the engine obeys, if there is one.
    pub(crate) fn engine_section(&self) -> Option<&'static str> {
        if !self.ports.iter().all(PortSection::is_interface) {
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

    /// Whether something is configured that only the engine does.
    pub(crate) fn needs_engine(&self) -> bool {
        self.engine_section().is_some()
    }

    /// Gives a port another name.
    pub(crate) fn rename_port(&mut self, old: &str, new: &str) {
        let mut ports = self.ports.iter_mut();
        if let Some(port) = ports.find(|port| port.name == old) {
            port.name = new.to_owned();
        }
    }

    /// The section of a port, by its name.
    pub(crate) fn port(&self, name: &str) -> Option<&PortSection> {
        self.ports.iter().find(|port| port.name == name)
    }
}

/// What the parser says, in plain words and with its place.
fn in_words(error: &toml::de::Error, text: &str) -> String {
    let what = bora_config::plain(error.message());
    match error.span() {
        Some(span) => bora_config::located(text, span, &what),
        None => what,
    }
}

/// The JSON schema of the file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).into()
}
