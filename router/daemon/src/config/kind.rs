//! `kind` of a `[[port]]`: those of router/port, interfaces, and what another program brings.

use bora_config::{Problem, plain, port_problem, suggestion, typed};
use bora_port::kinds::{AnyKind, Short, describe};
use bora_port::port::Options;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::brought::{BroughtPort, brought};

/// Keys that every port has.
const COMMON: [&str; 4] = ["name", "mac", "quota", "queues"];

/// What a port is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(transform = describe)]
pub enum PortKind {
    /// An interface of Linux.
    Interface,
    /// Anything else, with its twin in Linux.
    #[serde(untagged)]
    Twin(TwinKind),
}

/// What a port is that is no interface of Linux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = describe)]
pub enum TwinKind {
    /// A kind of the router's.
    Other(AnyKind),
    /// A kind that another program brings.
    #[schemars(skip)]
    Brought(BroughtPort),
}

impl PortKind {
    /// The options of a port that is no interface.
    pub(crate) fn options(&self) -> Option<&dyn Options> {
        match self {
            Self::Interface => None,
            Self::Twin(kind) => Some(kind.options()),
        }
    }

    /// Replaces what only admins may know.
    pub(super) fn hide_secret(&mut self) {
        if let Self::Twin(TwinKind::Other(AnyKind::Memif(options))) = self
            && !options.secret.is_empty()
        {
            options.secret = "(hidden)".into();
        }
    }

    /// Reads what comes after `KIND:` on the command line.
    pub(super) fn from_short(kind: &str, text: &Short<'_>) -> Result<Self, String> {
        let in_words = |what: String| plain(&what);
        if let Some(other) = brought().iter().find(|other| other.name == kind) {
            let read = (other.from_short)(other, text).map_err(in_words)?;
            return Ok(Self::Twin(TwinKind::Brought(read)));
        }
        match AnyKind::from_short(kind, text) {
            Some(read) => Ok(Self::Twin(TwinKind::Other(read.map_err(in_words)?))),
            None => Err(no_such(kind)),
        }
    }

    /// Reads all keys of a section that are not every port's.
    fn read(mut keys: Table) -> Result<Self, String> {
        let kind = match keys.get("kind") {
            None => "interface".to_owned(),
            Some(Value::String(kind)) => kind.clone(),
            Some(other) => return Err(no_such(&other.to_string())),
        };
        Ok(match &*kind {
            "interface" => {
                keys.remove("kind");
                match keys.keys().next() {
                    Some(key) => {
                        let hint = suggestion(key, &COMMON);
                        return Err(format!("`{key}` is no key of an interface: {hint}"));
                    }
                    None => Self::Interface,
                }
            }
            known if AnyKind::NAMES.contains(&known) => Self::Twin(TwinKind::Other(typed(keys)?)),
            other => match brought().iter().find(|kind| kind.name == other) {
                Some(kind) => {
                    keys.remove("kind");
                    Self::Twin(TwinKind::Brought((kind.from_keys)(kind, keys)?))
                }
                None => return Err(no_such(other)),
            },
        })
    }
}

fn no_such(kind: &str) -> String {
    if kind == "hero" {
        return "`hero` is a kind of the program `bora-hero` alone: `make build-hero`".into();
    }
    let all: Vec<&str> = ["interface"]
        .into_iter()
        .chain(AnyKind::NAMES.iter().copied())
        .collect();
    format!(
        "there is no kind of port `{kind}`: {}",
        suggestion(kind, &all)
    )
}

/// The first `[[port]]` of a file whose kind or options are wrong.
pub(super) fn problem(text: &str) -> Option<Problem> {
    port_problem(text, &COMMON, PortKind::read)
}

impl<'de> Deserialize<'de> for PortKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(Table::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl TwinKind {
    /// Its options, whatever its kind.
    pub(crate) fn options(&self) -> &dyn Options {
        match self {
            Self::Brought(port) => port.options(),
            Self::Other(kind) => kind.options(),
        }
    }

    /// The name of its kind.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Brought(port) => port.kind,
            Self::Other(kind) => kind.name(),
        }
    }
}
