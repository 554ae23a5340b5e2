//! Test plans: TOML files that say what is sent, measured and for how long.

mod addresses;
mod check;
mod expand;
mod kind;
mod method;
mod port;
mod router;
mod shipped;
#[cfg(test)]
mod tests;
mod traffic;
mod typed_port;
mod values;
mod variant;

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::traffic::FrameMix;
pub use addresses::{Addresses, Numbers, Order};
pub use expand::Case;
pub use kind::{OnInterface, PortKind};
pub use method::TestSection;
pub use port::PortSection;
pub use router::{ChurnSection, RouterSection, RoutesSection};
pub use shipped::{SHIPPED, shipped};
pub use traffic::{Pattern, TrafficSection};
pub use values::{Share, Time};
pub use variant::{Length, Variant};

/// A test plan.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What reports are headed with.
    pub title: String,
    /// Seed of everything drawn at random. Without: 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// `ipv4` (without), `ipv6` or `both`, one after the other.
    #[serde(default)]
    pub family: Family,
    /// Frame sizes, octets with FCS, or mixes: `imix`, `imix:aab` (RFC 6985), `kth08`.
    pub sizes: Variant<Vec<FrameMix>>,
    /// The tester's ports; `--port` replaces them.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSection>,
    /// What is sent.
    #[serde(default)]
    pub traffic: TrafficSection,
    /// The device under test.
    #[serde(default)]
    pub router: RouterSection,
    /// How the tester measures its own limits.
    #[serde(default)]
    pub calibration: Calibrate,
    /// Pause between two trials, for the router to settle: 0 s to 1 h. Without: 5 s in full runs
    /// (RFC 2544, 23 e: at least 5 s), none in short ones.
    #[serde(default = "settle")]
    pub settle: Variant<Time>,
    /// The tests, in order.
    #[serde(default, rename = "test")]
    pub tests: Vec<TestSection>,
}

fn one() -> u64 {
    1
}

fn settle() -> Variant<Time> {
    Variant {
        short: Time::seconds(0),
        full: Time::seconds(5),
    }
}

/// IP versions to test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4 only.
    #[default]
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// One after the other.
    Both,
}

impl Family {
    /// Whether it is IPv6, for each version.
    pub fn versions(self) -> &'static [bool] {
        match self {
            Self::Ipv4 => &[false],
            Self::Ipv6 => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// How the tester measures its own limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Calibrate {
    /// The tester measures on links of its own, of the same kind, where these are virtual; not at all on
    /// others.
    #[default]
    Auto,
    /// Asks the user to join the ports by a cable first.
    Cable,
    /// Not at all.
    Off,
}

impl Plan {
    /// Reads and checks a plan: a file, or the name of a shipped plan; with its text.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(name: &str) -> anyhow::Result<(Self, String)> {
        let text = match shipped(name) {
            Some(text) if !Path::new(name).exists() => text.to_string(),
            _ => fs::read_to_string(name).with_context(|| {
                let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                format!(
                    "{name}: neither a file nor one of the plans {}",
                    names.join(", ")
                )
            })?,
        };
        let plan = Self::parse(&text).with_context(|| name.to_string())?;
        Ok((plan, text))
    }

    /// Reads and checks a plan's text.
    ///
    /// # Errors
    /// What is wrong, with its line and column.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let plan: Self = toml::from_str(text).map_err(|error| match kind::problem(text) {
            Some(problem) => anyhow!("{}", problem.located(text)),
            None => error.into(),
        })?;
        match plan.check() {
            Ok(()) => Ok(plan),
            Err(problem) => Err(anyhow!("{}", problem.located(text))),
        }
    }
}

/// The JSON schema of plans, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Plan).into()
}
