//! What `--port` says: an interface, or another kind of port with its options.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bora_port::memif::{self, Role};
use bora_port::pcap::Repeat;

use crate::hero::{self, HeroSpec};

/// One port as the user names it; docs/ports.md describes the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// An interface of Linux, by name.
    Interface(String),
    /// A port that is none, with its twin in Linux.
    Other(TwinSpec, Wire),
}

/// The interface that stands for a port in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinSpec {
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it is to have a certain one.
    pub mac: Option<[u8; 6]>,
}

/// What a port that is no interface of Linux is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Memory shared with another process.
    Memif(memif::Config),
    /// A TAP interface with this name and number of queues; Linux is the other side.
    Tap(String, u16),
    /// An interface of Linux by its name, through this many packet sockets.
    AfPacket(String, u16),
    /// A HERO card.
    Hero(HeroSpec),
    /// Capture files.
    Pcap {
        /// What is received.
        input: PathBuf,
        /// Once or again and again.
        repeat: Repeat,
        /// Where what is sent goes, if anywhere.
        output: Option<PathBuf>,
    },
}

impl PortSpec {
    /// The name of the interface that stands for it in Linux.
    pub fn name(&self) -> &str {
        match self {
            Self::Interface(name) => name,
            Self::Other(twin, _) => &twin.name,
        }
    }
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once(':') {
            // the colon of a memif's or a TAP's kind comes before any comma
            Some((kind, rest)) if !kind.contains(',') => match kind {
                "memif" => memif(rest),
                "tap" => with_interface(rest, Wire::Tap),
                "af_packet" => with_interface(rest, Wire::AfPacket),
                "pcap" => pcap(rest),
                "hero" => hero::parse(rest),
                _ => Err(format!(
                    "there is no kind of port `{kind}`: memif, tap, af_packet, pcap, hero"
                )),
            },
            _ => Ok(Self::Interface(text.into())),
        };
        parsed.map_err(|error| format!("port `{text}`: {error}"))
    }
}

fn memif(text: &str) -> Result<PortSpec, String> {
    let (socket, options) = split(text);
    if socket.is_empty() {
        return Err("memif:SOCKET needs the path of a unix socket".into());
    }
    let mut config = memif::Config {
        role: Role::Client,
        socket: PathBuf::from(socket),
        id: 0,
        secret: String::new(),
        name: String::new(),
        queues: 1,
        log2_ring_size: 10,
        memory: 1 << 30,
    };
    let (mut name, mut mac) = (None, None);
    for option in options {
        let (key, value) = option?;
        match key {
            "role" => {
                config.role = match value {
                    "client" => Role::Client,
                    "server" => Role::Server,
                    _ => return Err(format!("role `{value}` is neither client nor server")),
                }
            }
            "id" => config.id = number(key, value, 0..=u32::MAX)?,
            "queues" => config.queues = number(key, value, 1..=16)? as u16,
            "ring" => config.log2_ring_size = number(key, value, 4..=14)? as u8,
            "secret" if value.len() <= 23 => config.secret = value.into(),
            "secret" => return Err("the secret has more than 23 octets".into()),
            "memory" => config.memory = u64::from(number(key, value, 1..=1 << 20)?) << 20,
            "name" => name = Some(interface(value)?),
            "mac" => mac = Some(address(value)?),
            _ => {
                return Err(unknown(
                    key,
                    "role, id, queues, ring, secret, memory, name, mac",
                ));
            }
        }
    }
    config.name = name.unwrap_or_else(|| format!("memif{}", config.id));
    let name = interface(&config.name)?;
    Ok(PortSpec::Other(TwinSpec { name, mac }, Wire::Memif(config)))
}

/// A TAP, or packet sockets.
fn with_interface(text: &str, wire: fn(String, u16) -> Wire) -> Result<PortSpec, String> {
    let (named, options) = split(text);
    let named = interface(named)?;
    let (mut name, mut mac, mut queues) = (None, None, 1);
    for option in options {
        let (key, value) = option?;
        match key {
            "queues" => queues = number(key, value, 1..=16)? as u16,
            "name" => name = Some(interface(value)?),
            "mac" => mac = Some(address(value)?),
            _ => return Err(unknown(key, "queues, name, mac")),
        }
    }
    let name = match name {
        Some(name) if name == named => return Err("its twin needs another name".into()),
        Some(name) => name,
        None => interface(&format!("bora-{named}"))
            .map_err(|error| format!("{error}; say name=NAME for its twin"))?,
    };
    Ok(PortSpec::Other(TwinSpec { name, mac }, wire(named, queues)))
}

fn pcap(text: &str) -> Result<PortSpec, String> {
    let (input, options) = split(text);
    if input.is_empty() {
        return Err("pcap:FILE needs a capture file to receive".into());
    }
    let (mut name, mut mac) = ("pcap0".into(), None);
    let (mut repeat, mut output) = (Repeat::Once, None);
    for option in options {
        let (key, value) = option?;
        match key {
            "out" => output = Some(PathBuf::from(value)),
            "repeat" if yes(key, value)? => repeat = Repeat::Forever,
            "repeat" => repeat = Repeat::Once,
            "name" => name = interface(value)?,
            "mac" => mac = Some(address(value)?),
            _ => return Err(unknown(key, "out, repeat, name, mac")),
        }
    }
    let input = PathBuf::from(input);
    let wire = Wire::Pcap {
        input,
        repeat,
        output,
    };
    Ok(PortSpec::Other(TwinSpec { name, mac }, wire))
}

/// What comes before the first comma, and the options after it.
pub(crate) fn split(text: &str) -> (&str, impl Iterator<Item = Result<(&str, &str), String>>) {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let options = parts.map(|part| {
        part.split_once('=')
            .ok_or_else(|| format!("option `{part}` is not KEY=VALUE"))
    });
    (first, options)
}

pub(crate) fn unknown(key: &str, known: &str) -> String {
    format!("unknown option `{key}`: {known}")
}

pub(crate) fn number(
    key: &str,
    value: &str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, String> {
    let (low, high) = (range.start(), range.end());
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "{key} `{value}` is not a number from {low} to {high}"
        )),
    }
}

pub(crate) fn yes(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key} `{value}` is neither yes nor no")),
    }
}

/// A name that Linux takes for an interface.
pub(crate) fn interface(name: &str) -> Result<String, String> {
    let proper = |c: char| c.is_ascii_graphic() && !"/:%,".contains(c);
    if (1..=15).contains(&name.len()) && name.chars().all(proper) && !name.starts_with('.') {
        return Ok(name.into());
    }
    Err(format!(
        "`{name}` is not the name of an interface: 1 to 15 characters, no space, slash or colon"
    ))
}

pub(crate) fn address(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("`{text}` is not the Ethernet address of a station");
    let octets: Option<Vec<u8>> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    let mac: [u8; 6] = octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(wrong)?;
    if mac[0] & 1 != 0 || mac == [0; 6] {
        return Err(wrong());
    }
    Ok(mac)
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memif(config) => {
                let role = match config.role {
                    Role::Client => "client",
                    Role::Server => "server",
                };
                let socket = config.socket.display();
                write!(f, "memif {role} at {socket}, id {}", config.id)
            }
            Self::Tap(name, _) => write!(f, "tap {name}"),
            Self::AfPacket(name, _) => write!(f, "packet sockets on {name}"),
            Self::Hero(spec) => spec.fmt(f),
            Self::Pcap { input, .. } => write!(f, "capture file {}", input.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_options() {
        let spec: PortSpec = "eth0".parse().unwrap();
        assert_eq!(spec, PortSpec::Interface("eth0".into()));
        let text = "memif:/run/m.sock,role=server,id=3,queues=2,ring=11,memory=64,name=vpp,mac=02:0:0:0:0:9";
        let PortSpec::Other(twin, Wire::Memif(config)) = text.parse().unwrap() else {
            panic!("{text}");
        };
        assert_eq!(
            (twin.name.as_str(), twin.mac),
            ("vpp", Some([2, 0, 0, 0, 0, 9]))
        );
        assert_eq!(
            (config.role, config.id, config.queues),
            (Role::Server, 3, 2)
        );
        assert_eq!((config.log2_ring_size, config.name.as_str()), (11, "vpp"));
        assert_eq!(config.memory, 64 << 20);
        assert_eq!("memif:@a".parse::<PortSpec>().unwrap().name(), "memif0");
        assert_eq!("tap:vm0".parse::<PortSpec>().unwrap().name(), "bora-vm0");
        let text = "af_packet:eth1,queues=2,name=lan";
        let PortSpec::Other(twin, wire) = text.parse().unwrap() else {
            panic!("{text}");
        };
        assert_eq!(wire, Wire::AfPacket("eth1".into(), 2));
        assert_eq!(twin.name, "lan");
        let text = "pcap:/a.pcap,out=/b.pcap,repeat=yes";
        let PortSpec::Other(twin, Wire::Pcap { repeat, output, .. }) = text.parse().unwrap() else {
            panic!("{text}");
        };
        assert_eq!((repeat, output), (Repeat::Forever, Some("/b.pcap".into())));
        assert_eq!(twin.name, "pcap0");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("memif:", "unix socket"),
            ("memif:/s,role=master", "master"),
            ("memif:/s,queues=0", "from 1 to 16"),
            ("memif:/s,ring=15", "from 4 to 14"),
            ("memif:/s,memory=0", "from 1 to 1048576"),
            ("memif:/s,speed=10", "unknown option `speed`"),
            ("memif:/s,queues", "KEY=VALUE"),
            ("memif:/s,mac=01:00:00:00:00:01", "Ethernet address"),
            ("memif:/s,mac=02:00:00:00:01", "Ethernet address"),
            ("memif:/s,name=a/b", "`a/b` is not the name"),
            ("tap:", "is not the name"),
            ("tap:a-name-of-15-ch", "name=NAME"),
            ("tap:a,name=a", "another name"),
            ("pcap:", "capture file"),
            ("pcap:a,repeat=3", "neither yes nor no"),
            ("dpdk:0", "no kind of port `dpdk`"),
        ] {
            let error = text.parse::<PortSpec>().unwrap_err();
            assert!(
                error.contains(words) && error.contains(text),
                "{text}: {error}"
            );
        }
    }
}
