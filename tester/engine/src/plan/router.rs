//! `[router]`: how to act on the device under test.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// How to act on the device under test. Commands are one line of a shell each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouterSection {
    /// What runs a shell on it: `ip netns exec router`, `ssh root@router`. Without: this machine.
    pub shell: Option<String>,
    /// Restarts what forwards, and comes back when the restart has begun (method `outage`).
    pub restart: Option<String>,
    /// Resets the router (method `reset`; RFC 2544, 26.6, RFC 6201).
    pub reset: Option<String>,
    /// Routes to install before the tests and to remove after them.
    pub routes: Option<RoutesSection>,
    /// Routes that come and go while method `churn` measures.
    pub churn: Option<ChurnSection>,
    /// Commands whose output belongs in the report: a version, a configuration.
    pub facts: BTreeMap<String, String>,
    /// Whether the tester installs the routes to test networks (`benchmark`, prefixes) itself, with
    /// `ip route` through `shell`. Without: yes, if there is a `shell`.
    pub install: Option<bool>,
}

impl RouterSection {
    /// Whether the tester installs the routes to test networks itself.
    pub fn installs(&self) -> bool {
        self.install.unwrap_or(self.shell.is_some())
    }
}

/// Routes to install, an equal share of them towards each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoutesSection {
    /// How many, 1 to 2000000.
    pub count: u32,
}

/// Routes that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChurnSection {
    /// Routes changed a second, added or removed, 1 to 1000000.
    pub rate: u32,
    /// How many different ones, 1 to 500000. Without: 10000.
    pub routes: Option<u32>,
}
