//! `[[port]]`: the tester's own ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::Rate;
use crate::ports::{Attached, Kind, PortSpec};
use crate::rate::Load;

/// A port of the tester.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PortSection {
    /// What reports call it.
    pub name: String,
    /// How packets come and go: `xdp`, `af_xdp`, `af_packet` or `memif`. Without: `xdp` on virtual
    /// links, `af_xdp` on others.
    pub kind: Option<KindName>,
    /// Interface.
    pub interface: Option<String>,
    /// memif: the control socket.
    pub socket: Option<PathBuf>,
    /// memif: whether to listen at the socket instead of connecting.
    pub server: bool,
    /// Network namespace of the interface, by name.
    pub netns: Option<String>,
    /// The tester's IPv4 address on the link, such as 10.1.0.2/24.
    pub address: Option<String>,
    /// The router's IPv4 address on the link. Without: no router, a switch or a cable.
    pub gateway: Option<Ipv4Addr>,
    /// The tester's IPv6 address on the link, such as fd01::2/64.
    pub address6: Option<String>,
    /// The router's IPv6 address on the link.
    pub gateway6: Option<Ipv6Addr>,
    /// Nominal rate of the link, such as `10 Gbit/s`. Without: as Linux says.
    pub speed: Option<Rate>,
    /// CPU of the thread that serves the port.
    pub cpu: Option<u32>,
}

/// Kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KindName {
    /// Live XDP frames out, an XDP program in.
    Xdp,
    /// AF_XDP sockets.
    AfXdp,
    /// Packet sockets.
    AfPacket,
    /// Shared memory.
    Memif,
}

impl PortSection {
    /// What is wrong, and with which field.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let is_memif = self.kind == Some(KindName::Memif);
        if self.name.is_empty() {
            return Some(("name", "a port needs a name".into()));
        }
        if is_memif && self.socket.is_none() {
            return Some(("kind", "a memif port needs a `socket`".into()));
        }
        if !is_memif && self.interface.is_none() {
            return Some(("name", "the port needs an `interface`".into()));
        }
        if !is_memif && self.socket.is_some() {
            return Some(("socket", "only memif ports have a socket".into()));
        }
        for (field, text, v6, gateway) in [
            ("address", &self.address, false, self.gateway.is_some()),
            ("address6", &self.address6, true, self.gateway6.is_some()),
        ] {
            match text {
                Some(text) => {
                    if let Err(what) = on_link(text, v6) {
                        return Some((field, what));
                    }
                }
                None if gateway => return Some(("name", format!("a gateway without `{field}`"))),
                None => {}
            }
        }
        match self.speed {
            Some(Rate(Load::Bits(_))) | None => None,
            Some(_) => Some(("speed", "a speed is in bit/s, such as 10 Gbit/s".into())),
        }
    }

    /// As the tester opens it.
    ///
    /// # Errors
    /// If something is wrong that [`super::Plan`]'s check did not see: ports of the command line
    /// were not checked.
    pub fn spec(&self) -> anyhow::Result<PortSpec> {
        if let Some((field, what)) = self.problem() {
            bail!("port {}, {field}: {what}", self.name);
        }
        let v4 = match &self.address {
            Some(text) => match on_link(text, false) {
                Ok((IpAddr::V4(address), prefix_length)) => Some(Attached {
                    address,
                    prefix_length,
                    gateway: self.gateway,
                }),
                _ => None,
            },
            None => None,
        };
        let v6 = match &self.address6 {
            Some(text) => match on_link(text, true) {
                Ok((IpAddr::V6(address), prefix_length)) => Some(Attached {
                    address,
                    prefix_length,
                    gateway: self.gateway6,
                }),
                _ => None,
            },
            None => None,
        };
        Ok(PortSpec {
            name: self.name.clone(),
            kind: self.kind()?,
            netns: self.netns.clone(),
            v4,
            v6,
            speed: self.speed.and_then(|Rate(load)| match load {
                Load::Bits(bits) => Some(bits),
                _ => None,
            }),
            cpu: self.cpu,
        })
    }

    fn kind(&self) -> anyhow::Result<Kind> {
        let interface = self.interface.clone().unwrap_or_default();
        let name = match self.kind {
            Some(kind) => kind,
            None if is_virtual(self.netns.as_deref(), &interface)? => KindName::Xdp,
            None => KindName::AfXdp,
        };
        Ok(match name {
            KindName::Xdp => Kind::Xdp(interface),
            KindName::AfXdp => Kind::AfXdp(interface),
            KindName::AfPacket => Kind::AfPacket(interface),
            KindName::Memif => Kind::Memif {
                socket: self.socket.clone().unwrap_or_default(),
                server: self.server,
            },
        })
    }
}

/// An address of a host and the length of its link's prefix.
fn on_link(text: &str, v6: bool) -> Result<(IpAddr, u8), String> {
    let (family, example, width) = match v6 {
        false => ("IPv4", "10.1.0.2/24", 32),
        true => ("IPv6", "fd01::2/64", 128),
    };
    let wrong = || format!("`{text}` is not an {family} address with a length, such as {example}");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    if address.is_ipv6() != v6 || length > width {
        return Err(wrong());
    }
    Ok((address, length))
}

/// Whether there is no device behind an interface.
fn is_virtual(netns: Option<&str>, interface: &str) -> anyhow::Result<bool> {
    let folder = format!("/sys/class/net/{interface}");
    let exists = |path: &str| match netns {
        None => Ok(std::fs::exists(path)?),
        Some(netns) => {
            // its own /sys is mounted there
            let inside = ["netns", "exec", netns, "test", "-e", path];
            let status = Command::new("ip").args(inside).status();
            anyhow::Ok(status.context("cannot run ip")?.success())
        }
    };
    if !exists(&folder)? {
        let place = netns.map_or_else(String::new, |netns| format!(" in namespace {netns}"));
        bail!("there is no interface {interface}{place}");
    }
    Ok(!exists(&format!("{folder}/device"))?)
}
