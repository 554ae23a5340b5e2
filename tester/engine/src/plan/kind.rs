//! `kind` of a `[[port]]`: those of the router, and what only the tester does on an interface.

use bora_config::{Problem, port_problem, typed};
use bora_port::kinds::{AnyKind, Short, describe, memif};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use crate::ports::Kind;

/// Keys that every port has.
const COMMON: [&str; 8] = [
    "name", "netns", "address", "gateway", "address6", "gateway6", "speed", "cpu",
];
/// MiB that a memif client may share: the router under test may bring what it likes.
const MEMORY: u32 = 1 << 20;

/// How packets come and go. Without `kind`: `xdp` on virtual links, `af_xdp` on others.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(transform = describe)]
pub enum PortKind {
    /// Live XDP frames out, an XDP program in.
    Xdp(OnInterface),
    /// AF_XDP sockets on every queue.
    AfXdp(OnInterface),
    /// `xdp` on virtual links, `af_xdp` on others.
    #[serde(untagged)]
    Auto(OnInterface),
    /// One of the router's.
    #[serde(untagged)]
    Other(AnyKind),
}

/// Where a port is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnInterface {
    /// The interface of Linux.
    pub interface: String,
}

impl PortKind {
    /// Reads what comes after `NAME=` or `NAME=KIND:` on the command line.
    pub(super) fn from_short(kind: Option<&str>, text: &Short<'_>) -> Result<Self, String> {
        match kind {
            None => Ok(Self::Auto(text.read("interface")?)),
            Some("xdp") => Ok(Self::Xdp(text.read("interface")?)),
            Some("af_xdp") => Ok(Self::AfXdp(text.read("interface")?)),
            Some(kind) => match AnyKind::from_short(kind, text) {
                Some(read) => Ok(Self::Other(read?)),
                None => Err(no_such(kind)),
            },
        }
    }

    /// Reads all keys of a section that are not every port's.
    fn read(mut keys: Table) -> Result<Self, String> {
        let kind = keys.get("kind").map(|kind| match kind {
            Value::String(kind) => kind.clone(),
            other => other.to_string(),
        });
        match kind.as_deref() {
            Some(known) if AnyKind::NAMES.contains(&known) => Ok(Self::Other(typed(keys)?)),
            kind => {
                keys.remove("kind");
                match kind {
                    None => Ok(Self::Auto(typed(keys)?)),
                    Some("xdp") => Ok(Self::Xdp(typed(keys)?)),
                    Some("af_xdp") => Ok(Self::AfXdp(typed(keys)?)),
                    Some(unknown) => Err(no_such(unknown)),
                }
            }
        }
    }

    /// What the types do not say.
    pub(super) fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        match self {
            Self::Other(kind) => kind.options().check(name),
            _ => Ok(()),
        }
    }

    /// The kind that the tester opens. `is_virtual` says whether there is no device behind an interface.
    pub(super) fn kind(
        &self,
        is_virtual: impl FnOnce(&str) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Kind> {
        Ok(match self.clone() {
            Self::Xdp(on) => Kind::Xdp(on.interface),
            Self::AfXdp(on) => Kind::AfXdp(on.interface),
            Self::Auto(on) if is_virtual(&on.interface)? => Kind::Xdp(on.interface),
            Self::Auto(on) => Kind::AfXdp(on.interface),
            Self::Other(AnyKind::Memif(memif)) => Kind::Port(AnyKind::Memif(memif::Options {
                memory: MEMORY,
                ..memif
            })),
            Self::Other(kind) => Kind::Port(kind),
        })
    }
}

fn no_such(kind: &str) -> String {
    let all = AnyKind::NAMES.join(", ");
    format!("`{kind}` is none of the kinds xdp, af_xdp, {all}")
}

/// The first `[[port]]` of a plan whose kind or options are wrong.
pub(super) fn problem(text: &str) -> Option<Problem> {
    port_problem(text, &COMMON, PortKind::read)
}

impl<'de> Deserialize<'de> for PortKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(Table::deserialize(from)?).map_err(D::Error::custom)
    }
}
