//! `kind = "hero"`: the options of a card in a file or `--port`, and how its port is opened.

use std::fmt;
use std::path::PathBuf;

use bora_linux::interface;
use bora_port::Queue;
use bora_port::offload::Offload;
use bora_port::port::{self, OpenError, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::link::LinkState;
use crate::port::{Config, Port};
use crate::registers::CARDS;
use crate::wire::{Wire, WireSpec};

/// The library that is loaded by default; `BORA_HERO_MODEL` overrides it.
const MODEL: &str = "libhero-xbar.so";

/// One of four simulated HERO cards on a bus, which forward by themselves too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Hero")]
pub struct Options {
    /// Number on its bus, 0 to 3.
    pub card: u8,
    /// What its cable is joined to: an interface that is there, or `tap:NAME`, which is made.
    #[serde(default)]
    pub wire: String,
    /// The network namespace of that interface, by name; without, Bora's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The library with the model; ports with the same one are on one bus. Without,
    /// `$BORA_HERO_MODEL`, or `libhero-xbar.so`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Whether it may forward by itself.
    #[serde(default = "yes")]
    pub offload: bool,
}

fn yes() -> bool {
    true
}

impl Options {
    /// The option that comes first in the short spelling.
    pub const FIRST: &str = "card";

    fn wire(&self) -> WireSpec {
        let (tap, interface) = match self.wire.strip_prefix("tap:") {
            Some(name) => (true, name),
            None => (false, &*self.wire),
        };
        WireSpec {
            interface: interface.into(),
            tap,
            netns: self.netns.clone(),
        }
    }

    fn model(&self) -> PathBuf {
        let default = || std::env::var_os("BORA_HERO_MODEL").unwrap_or_else(|| MODEL.into());
        self.model.clone().unwrap_or_else(|| default().into())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HERO card {}, wire {}", self.card, self.wire())
    }
}

impl port::Options for Options {
    fn default_name(&self) -> String {
        format!("hero{}", self.card)
    }

    fn check(&self, _: &str) -> Result<(), (&'static str, String)> {
        if usize::from(self.card) >= CARDS {
            let what = format!(
                "card `{}` is not a number from 0 to {}",
                self.card,
                CARDS - 1
            );
            return Err(("card", what));
        }
        if self.wire.is_empty() {
            let what = "a card needs a cable: wire=INTERFACE, or wire=tap:NAME to make one";
            return Err(("wire", what.into()));
        }
        interface::check_name(&self.wire().interface).map_err(|what| ("wire", what))?;
        match &self.netns {
            Some(name) if name.is_empty() || name.contains('/') => {
                let what = format!("`{name}` is not the name of a network namespace");
                Err(("netns", what))
            }
            _ => Ok(()),
        }
    }

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn port::Port>, Vec<Queue>), OpenError> {
        let wire = Wire::open(&self.wire());
        let config = Config {
            model: self.model(),
            card: self.card.into(),
            mac: setup.mac,
            wire: wire.map_err(|error| format!("wire of {}: {error}", setup.name))?,
            offload: self.offload,
        };
        let (port, queue) = Port::open(config, setup.region.clone())?;
        Ok((Box::new(port), vec![queue]))
    }
}

impl port::Port for Port {
    fn is_up(&self) -> bool {
        self.link_state() == LinkState::Up
    }

    fn state(&self) -> Option<String> {
        Some(self.link_state().to_string())
    }

    fn set_mac(&self, mac: [u8; 6]) {
        Self::set_mac(self, mac);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.stats().named().collect()
    }

    fn offload(&self) -> Option<&dyn Offload> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use bora_port::kinds::Short;
    use bora_port::port::Options as _;

    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        let options: Options = Short::parse(text)?.read(Options::FIRST)?;
        options.check("h0").map_err(|(_, what)| what)?;
        Ok(options)
    }

    #[test]
    fn cards_and_their_options() {
        let card = read("2,wire=w2,netns=cables,model=/l.so,offload=no").unwrap();
        assert_eq!((card.card, card.offload), (2, false));
        assert_eq!(card.model().to_str(), Some("/l.so"));
        assert_eq!(card.default_name(), "hero2");
        assert_eq!(card.to_string(), "HERO card 2, wire w2 in cables");
        let card = read("0,wire=tap:eth0").unwrap();
        assert!(card.wire().tap && card.offload);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("", "card"),
            ("4,wire=a", "0 to 3"),
            ("0", "wire=INTERFACE"),
            ("0,wire=tap:", "is not the name"),
            ("0,wire=a,netns=", "network namespace"),
            ("0,wire=a,netns=../x", "network namespace"),
            ("0,wire=a,offload=maybe", "neither yes nor no"),
            ("0,wire=a,queues=2", "unknown field `queues`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
