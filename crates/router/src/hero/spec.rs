//! `hero:CARD,wire=…`.

use std::fmt;
use std::path::PathBuf;

use bora_port::hero::{CARDS, WireSpec};

use crate::spec::{PortSpec, TwinSpec, Wire, address, interface, number, split, unknown, yes};

/// The library that is loaded when nothing else is said; `BORA_HERO_MODEL` overrides it.
const MODEL: &str = "libhero-xbar.so";

/// A simulated card; docs/hero-driver.md describes the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeroSpec {
    /// Number on its bus, 0 to 3.
    pub card: usize,
    /// What its cable is joined to.
    pub wire: WireSpec,
    /// The library with the model; ports with the same one are on one bus.
    pub model: PathBuf,
    /// Whether it may forward by itself.
    pub offload: bool,
}

impl fmt::Display for HeroSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HERO card {}, wire {}", self.card, self.wire)
    }
}

/// What comes after `hero:`.
pub(crate) fn parse(text: &str) -> Result<PortSpec, String> {
    let (card, options) = split(text);
    let card = number("card", card, 0..=CARDS as u32 - 1)? as usize;
    let (mut name, mut mac) = (format!("hero{card}"), None);
    let (mut wire, mut netns) = (None, None);
    let (mut model, mut offload) = (None, true);
    for option in options {
        let (key, value) = option?;
        match key {
            "wire" => {
                let (tap, name) = match value.strip_prefix("tap:") {
                    Some(name) => (true, name),
                    None => (false, value),
                };
                wire = Some((tap, interface(name)?));
            }
            "netns" if !value.is_empty() && !value.contains('/') => netns = Some(value.into()),
            "netns" => return Err(format!("`{value}` is not the name of a network namespace")),
            "model" => model = Some(PathBuf::from(value)),
            "offload" => offload = yes(key, value)?,
            "name" => name = interface(value)?,
            "mac" => mac = Some(address(value)?),
            _ => {
                return Err(unknown(key, "wire, netns, model, offload, name, mac"));
            }
        }
    }
    let (tap, interface) =
        wire.ok_or("a card needs a cable: wire=INTERFACE, or wire=tap:NAME to make one")?;
    let default = || std::env::var_os("BORA_HERO_MODEL").unwrap_or_else(|| MODEL.into());
    let spec = HeroSpec {
        card,
        wire: WireSpec {
            interface,
            tap,
            netns,
        },
        model: model.unwrap_or_else(|| default().into()),
        offload,
    };
    Ok(PortSpec::Other(TwinSpec { name, mac }, Wire::Hero(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_their_options() {
        let spec = |text: &str| match text.parse::<PortSpec>().unwrap() {
            PortSpec::Other(twin, Wire::Hero(spec)) => (twin, spec),
            other => panic!("{other:?}"),
        };
        let (twin, card) =
            spec("hero:2,wire=w2,netns=cables,model=/l.so,offload=no,mac=2:0:0:0:0:9");
        assert_eq!(
            (twin.name.as_str(), twin.mac),
            ("hero2", Some([2, 0, 0, 0, 0, 9]))
        );
        assert_eq!(
            (card.card, card.offload, card.model.to_str()),
            (2, false, Some("/l.so"))
        );
        assert_eq!(card.to_string(), "HERO card 2, wire w2 in cables");
        let (twin, card) = spec("hero:0,wire=tap:eth0,name=lan");
        assert_eq!(
            (twin.name.as_str(), card.wire.tap, card.offload),
            ("lan", true, true)
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("hero:", "0 to 3"),
            ("hero:4,wire=a", "0 to 3"),
            ("hero:0", "wire=INTERFACE"),
            ("hero:0,wire=tap:", "is not the name"),
            ("hero:0,wire=a,netns=", "network namespace"),
            ("hero:0,wire=a,netns=../x", "network namespace"),
            ("hero:0,wire=a,offload=maybe", "neither yes nor no"),
            ("hero:0,wire=a,queues=2", "unknown option `queues`"),
        ] {
            let error = text.parse::<PortSpec>().unwrap_err();
            assert!(
                error.contains(words) && error.contains(text),
                "{text}: {error}"
            );
        }
    }
}
