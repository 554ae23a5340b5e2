//! `[[port]]`: the tester's own ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Deserialize;

use super::kind::PortKind;
use crate::ports::{Attached, PortSpec};
use crate::rate::Load;

/// A port of the tester. What else may be said of it depends on its `kind`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct PortSection {
    /// What reports call it.
    pub name: String,
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
    pub speed: Option<Load>,
    /// CPU of the thread that serves the port.
    pub cpu: Option<u32>,
    /// How packets come and go.
    #[serde(flatten)]
    pub kind: PortKind,
}

impl PortSection {
    /// What is wrong, and with which field.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if self.name.is_empty() {
            return Some(("name", "a port needs a name".into()));
        }
        if let Err(problem) = self.kind.check(&self.name) {
            return Some(problem);
        }
        if let Some(problem) = self.v4().err().or(self.v6().err()) {
            return Some(problem);
        }
        match self.speed {
            Some(Load::Bits(_)) | None => None,
            Some(_) => Some(("speed", "a speed is in bit/s, such as 10 Gbit/s".into())),
        }
    }

    fn v4(&self) -> OnLink<Ipv4Addr> {
        on_link(
            "address",
            self.address.as_deref(),
            self.gateway,
            "10.1.0.2/24",
        )
    }

    fn v6(&self) -> OnLink<Ipv6Addr> {
        on_link(
            "address6",
            self.address6.as_deref(),
            self.gateway6,
            "fd01::2/64",
        )
    }

    /// The port that the tester opens.
    ///
    /// # Errors
    /// If something is wrong that [`super::Plan`]'s check did not see: ports of the command line
    /// were not checked.
    pub fn spec(&self) -> anyhow::Result<PortSpec> {
        if let Some((field, what)) = self.problem() {
            bail!("port {}, {field}: {what}", self.name);
        }
        Ok(PortSpec {
            name: self.name.clone(),
            kind: self
                .kind
                .kind(|interface| is_virtual(self.netns.as_deref(), interface))?,
            netns: self.netns.clone(),
            v4: self.v4().ok().flatten(),
            v6: self.v6().ok().flatten(),
            speed: self.speed.and_then(|load| match load {
                Load::Bits(bits) => Some(bits),
                _ => None,
            }),
            cpu: self.cpu,
        })
    }
}

/// An address on the link and its gateway, or what is wrong with which field.
type OnLink<A> = Result<Option<Attached<A>>, (&'static str, String)>;

/// Reads an address with the length of its prefix, such as `example`.
fn on_link<A: FromStr + Into<IpAddr> + Copy>(
    field: &'static str,
    text: Option<&str>,
    gateway: Option<A>,
    example: &str,
) -> OnLink<A> {
    let Some(text) = text else {
        return match gateway {
            Some(_) => Err(("name", format!("a gateway without `{field}`"))),
            None => Ok(None),
        };
    };
    let attached = text.split_once('/').and_then(|(address, length)| {
        Some(Attached {
            address: address.parse::<A>().ok()?,
            prefix_length: length.parse().ok()?,
            gateway,
        })
    });
    let fits = |found: &Attached<A>| {
        let width = if found.address.into().is_ipv4() {
            32
        } else {
            128
        };
        found.prefix_length <= width
    };
    match attached.filter(fits) {
        Some(attached) => Ok(Some(attached)),
        None => {
            let version = if example.contains(':') { 6 } else { 4 };
            let what =
                format!("`{text}` is not an IPv{version} address with a length, such as {example}");
            Err((field, what))
        }
    }
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
