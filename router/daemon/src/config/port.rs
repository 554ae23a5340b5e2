//! `[[port]]`: what to forward on.

use std::fmt;
use std::str::FromStr;

use bora_config::as_text;
use bora_linux::interface::check_name;
use bora_port::kinds::Short;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::PortKind;
use super::queues::QueuesSection;

/// NAPI's weight.
const QUOTA: u32 = 64;

/// One port. What else may be said of it depends on its `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortSection {
    /// The interface of Linux; of other kinds than `interface` the one that stands for the port there.
    pub name: String,
    /// Ethernet address of the interface that stands for the port; without, Linux chooses one. Ports
    /// of the kind `interface` have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<StationAddress>,
    /// Most packets a worker takes from one of its queues before another queue has its turn, 1 to
    /// 256; under overload shares are in proportion to the quotas (engine).
    #[serde(default = "default_quota")]
    pub quota: u32,
    /// Forward past the queueing disciplines of Linux that shape, police, mark or order what leaves by it, or by devices
    /// on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bypass_qdisc: bool,
    /// The queues of its output (engine).
    #[serde(default, skip_serializing_if = "QueuesSection::is_default")]
    pub queues: QueuesSection,
    /// What it is.
    #[serde(flatten)]
    pub kind: PortKind,
}

fn default_quota() -> u32 {
    QUOTA
}

impl PortSection {
    /// Whether it is an interface of Linux, not another kind of port with a twin.
    pub(crate) fn is_interface(&self) -> bool {
        self.kind == PortKind::Interface
    }

    /// An interface with the defaults.
    pub fn new(name: String) -> Self {
        Self {
            name,
            mac: None,
            quota: QUOTA,
            bypass_qdisc: false,
            queues: QueuesSection::default(),
            kind: PortKind::Interface,
        }
    }

    /// What the types do not say about its kind.
    pub(super) fn check_kind(&self) -> Result<(), (&'static str, String)> {
        match self.kind.options() {
            None if self.mac.is_some() => {
                let what = "an interface has the Ethernet address that Linux gives it";
                Err(("mac", what.into()))
            }
            None => Ok(()),
            Some(options) => {
                options.check(&self.name)?;
                check_name(&self.name).map_err(|what| ("name", what))
            }
        }
    }
}

/// As `--port` says it: `INTERFACE`, or `KIND:FIRST[,OPTION=VALUE]…`.
impl FromStr for PortSection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            // the colon of a kind comes before any comma
            Some((kind, rest)) if !kind.contains(',') => other(kind, rest),
            _ => Ok(Self::new(text.into())),
        }
        .map_err(|error| format!("port `{text}`: {error}"))
    }
}

fn other(kind: &str, text: &str) -> Result<PortSection, String> {
    let mut short = Short::parse(text)?;
    let (name, mac) = (short.take("name"), short.take("mac"));
    let kind = PortKind::from_short(kind, &short)?;
    let default = || kind.options().map(|options| options.default_name());
    let section = PortSection {
        mac: mac.map(str::parse).transpose()?,
        ..PortSection::new(name.map(Into::into).or_else(default).unwrap_or_default())
    };
    let section = PortSection { kind, ..section };
    section
        .check_kind()
        .map_err(|(option, what)| match option {
            "name" => format!("{what}; say name=NAME"),
            _ => what,
        })?;
    Ok(section)
}

/// The Ethernet address of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationAddress(pub [u8; 6]);

as_text!(
    StationAddress,
    "an Ethernet address such as 02:00:00:00:00:01"
);

impl FromStr for StationAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
        let octets: Result<Vec<u8>, _> = octets.collect();
        match octets.map(<[u8; 6]>::try_from) {
            Ok(Ok(mac)) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(Self(mac)),
            _ => Err(format!("`{text}` is not the Ethernet address of a station")),
        }
    }
}

impl fmt::Display for StationAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bora_wire::MacAddr(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_what_a_file_says() {
        let section: PortSection = "eth0".parse().unwrap();
        assert_eq!(section, PortSection::new("eth0".into()));
        for (text, toml) in [
            (
                "memif:/run/m.sock,role=server,name=vpp,mac=02:0:0:0:0:9",
                "kind = 'memif'\nname = 'vpp'\nmac = '02:00:00:00:00:09'\nsocket = '/run/m.sock'\n\
                 role = 'server'",
            ),
            (
                "tap:vm0,queue_pairs=2",
                "kind = 'tap'\nname = 'bora-vm0'\ninterface = 'vm0'\nqueue_pairs = 2",
            ),
        ] {
            let section: PortSection = text.parse().unwrap();
            assert_eq!(section, toml::from_str(toml).unwrap(), "{text}");
            let written = toml::to_string(&section).unwrap();
            assert_eq!(section, toml::from_str(&written).unwrap(), "{written}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("memif:", "unix socket"),
            ("memif:/s,speed=10", "`speed` is no key"),
            ("memif:/s,mac=01:00:00:00:00:01", "Ethernet address"),
            ("memif:/s,mac=02:00:00:00:01", "Ethernet address"),
            ("memif:/s,name=a/b", "`a/b` is not the name"),
            ("tap:a-name-of-15-ch", "name=NAME"),
            ("tap:a,name=a", "another name"),
            ("dkpd:0", "no kind of port `dkpd`"),
        ] {
            let error = text.parse::<PortSection>().unwrap_err();
            assert!(
                error.contains(words) && error.contains(text),
                "{text}: {error}"
            );
        }
    }
}
