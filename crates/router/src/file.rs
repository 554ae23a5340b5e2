//! `bora.toml`: everything `bora run` can be told, in a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use bora_fib::{FibConfig, Ipv4Table};
use bora_worker::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Bypass, PathChoice, RunConfig};
use crate::spec::PortSpec;

/// Configuration of a Bora. Everything but the ports may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What to forward between, at least one.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSection>,
    /// Which tier forwards.
    #[serde(default)]
    pub path: PathChoice,
    /// The engine's workers.
    #[serde(default)]
    pub workers: WorkersSection,
    /// The engine's forwarding table.
    #[serde(default)]
    pub fib: FibSection,
    /// What goes to Linux.
    #[serde(default)]
    pub linux: LinuxSection,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSection {
    /// The interface's name in Linux, or another kind of port with its options, such as
    /// `memif:/run/vpp/memif.sock,role=server`.
    pub name: String,
}

/// The engine's workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSection {
    /// CPUs, one worker each; without, one worker where the scheduler puts it.
    pub cores: Vec<usize>,
    /// When they look at their queues: `poll`, `adaptive`, `interrupt`, `moderated` or
    /// `moderated:PACKETS:MICROSECONDS`.
    #[serde(with = "mode")]
    #[schemars(with = "String")]
    pub mode: Mode,
}

/// The engine's forwarding table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FibSection {
    /// Most memory for nodes, IPv4 and IPv6 each, MiB, 1 to 1024. A full Internet table needs 2.
    pub memory: u16,
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
}

impl Default for FibSection {
    fn default() -> Self {
        Self {
            memory: 256,
            table: Table::Tree,
        }
    }
}

impl Default for LinuxSection {
    fn default() -> Self {
        Self {
            punt_budget: 10_000,
            bypass_netfilter: false,
        }
    }
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(name)?;
        let file: Self = toml::from_str(&text).with_context(name)?;
        file.check().with_context(name)?;
        Ok(file)
    }

    /// What the syntax does not say.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.ports.is_empty(),
            "no ports; name at least one with --port or in a [[port]] section"
        );
        self.specs()?;
        ensure!(
            (1..=1024).contains(&self.fib.memory),
            "fib.memory is {} MiB; it must be from 1 to 1024",
            self.fib.memory
        );
        Ok(())
    }

    /// As text.
    ///
    /// # Errors
    /// None that a file which was read could cause.
    pub fn to_text(&self) -> anyhow::Result<String> {
        Ok(toml::to_string_pretty(self)?)
    }

    fn specs(&self) -> anyhow::Result<Vec<PortSpec>> {
        let parse = |port: &PortSection| port.name.parse().map_err(anyhow::Error::msg);
        self.ports.iter().map(parse).collect()
    }

    /// What [`crate::Router`] wants to know.
    ///
    /// # Errors
    /// A port that cannot be.
    pub fn into_config(self) -> anyhow::Result<RunConfig> {
        let octets = usize::from(self.fib.memory) << 20;
        Ok(RunConfig {
            ports: self.specs()?,
            cores: self.workers.cores,
            mode: self.workers.mode,
            path: self.path,
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
        })
    }
}

/// The JSON schema of the file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "path = \"engine\"\n[[port]]\nname = \"eth0\"\n[workers]\ncores = [1, 2]\n\
                    mode = \"moderated:8:50\"\n[fib]\ntable = \"dir24\"\n";
        let file: File = toml::from_str(text).unwrap();
        assert_eq!(
            file.fib,
            FibSection {
                memory: 256,
                table: Table::Dir24
            }
        );
        assert_eq!(
            toml::from_str::<File>(&file.to_text().unwrap()).unwrap(),
            file
        );
        let config = file.into_config().unwrap();
        let ports = vec![PortSpec::Interface("eth0".into())];
        assert_eq!((config.ports, config.cores), (ports, vec![1, 2]));
        assert_eq!(config.path, PathChoice::Engine);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, words) in [
            ("[[port]]\nname = \"eth0\"\nspeed = 10\n", "line 3"),
            ("path = \"fast\"\n", "line 1"),
            ("[workers]\nmode = \"napi\"\n", "napi"),
            ("[fib]\nmemory = -1\n", "line 2"),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(File::default().check().is_err(), "no ports");
        let file: File = toml::from_str("[[port]]\nname = \"memif:/s,x=1\"").unwrap();
        assert!(file.check().unwrap_err().to_string().contains("`x`"));
    }

    #[test]
    fn the_schema_describes_every_field() {
        let schema = schema().to_string();
        for field in [
            "port",
            "path",
            "cores",
            "mode",
            "memory",
            "table",
            "punt_budget",
            "bypass_netfilter",
        ] {
            assert!(schema.contains(&format!("\"{field}\"")), "{field}");
        }
    }
}
