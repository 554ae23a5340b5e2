//! How a tunnel's packets go out and come in, from what Linux says of it.

use std::fmt::Display;
use std::fs;
use std::net::Ipv4Addr;
use std::str::FromStr;

use bora_fib::{Encapsulation, OuterUdp, PortId};
use bora_forward::Endpoint;
use bora_mirror::message::{self, TunnelKind, Vxlan};
use bora_wire::{EtherType, Protocol};
use bora_xdp::TunnelKey;

const IPIP: Protocol = Protocol(4);
const IPV6: Protocol = Protocol(41);
const GRE: Protocol = Protocol(47);
const GRE_KEY: u16 = 0x2000;
const DONT_FRAGMENT: u8 = 0x40;

/// What goes in front of its packets, and what they are known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    /// What goes in front of IPv4 and of IPv6; `None`: Linux carries none of it.
    headers: [Option<Box<[u8]>>; 2],
    inherits_tos: bool,
    copies_dont_fragment: bool,
    /// The number of the port or device that outer packets must leave by.
    link: Option<PortId>,
    pub(super) endpoints: Vec<Endpoint>,
    /// The outer UDP header, of VXLAN.
    udp: Option<OuterUdp>,
    /// The only far end whose packets Bora takes out.
    pub(super) only_from: Option<u32>,
    pub(crate) local: Ipv4Addr,
    pub(crate) remote: Ipv4Addr,
}

impl Tunnel {
    /// As the FIB wants it.
    pub(super) fn output(&self, port: PortId) -> bora_mirror::Tunnel {
        let encapsulations = [0, 1].map(|version: usize| {
            let headers = self.headers[version].as_deref()?;
            let mut made = Encapsulation::new(port, 0, headers, self.udp)?;
            made.inherits_tos = self.inherits_tos;
            made.copies_dont_fragment = self.copies_dont_fragment;
            made.link = self.link;
            Some(made)
        });
        bora_mirror::Tunnel {
            encapsulations,
            has_stations: self.udp.is_some(),
        }
    }
}

/// What the program knows packets by.
pub(super) fn key(endpoint: &Endpoint) -> TunnelKey {
    match *endpoint {
        Endpoint::Addresses {
            protocol,
            source,
            destination,
            key,
        } => TunnelKey {
            protocol,
            far: source.to_be_bytes(),
            near: destination.to_be_bytes(),
            id: key.unwrap_or(0).to_be_bytes(),
        },
        Endpoint::Vxlan { port, vni } => {
            let [high, low] = port.to_be_bytes();
            TunnelKey {
                protocol: Protocol::UDP.0,
                far: [high, low, 0, 0],
                near: [0; 4],
                id: (vni << 8).to_be_bytes(),
            }
        }
    }
}

/// `number`: of a port or device, by ifindex.
///
/// # Errors
/// Why only Linux can do it.
pub(super) fn wrapping(
    tunnel: &message::Tunnel,
    number: impl Fn(u32) -> Option<PortId>,
) -> Result<Tunnel, String> {
    let link = match tunnel.link {
        0 => None,
        link => Some(number(link).ok_or("the interface of its outer packets (dev) is no port")?),
    };
    Ok(Tunnel {
        headers: [headers(tunnel, false)?, headers(tunnel, true)?],
        inherits_tos: tunnel.tos == 1,
        copies_dont_fragment: !tunnel.ignores_df,
        link,
        endpoints: endpoints(tunnel),
        udp: outer_udp(tunnel)?,
        only_from: match &tunnel.kind {
            TunnelKind::Vxlan(vxlan) if vxlan.learning => Some(tunnel.remote.to_bits()),
            _ => None,
        },
        local: tunnel.local,
        remote: tunnel.remote,
    })
}

/// The template of [`Encapsulation::headers`].
fn headers(tunnel: &message::Tunnel, v6: bool) -> Result<Option<Box<[u8]>>, String> {
    let (protocol, more): (Protocol, Vec<u8>) = match tunnel.kind {
        TunnelKind::Gre { output_key, .. } => {
            let flags = if output_key.is_some() { GRE_KEY } else { 0 };
            let ethertype = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
            let mut header = flags.to_be_bytes().to_vec();
            header.extend(ethertype.0.to_be_bytes());
            header.extend(output_key.into_iter().flat_map(u32::to_be_bytes));
            (GRE, header)
        }
        TunnelKind::Ip { v6: true, .. } if v6 => (IPV6, Vec::new()),
        TunnelKind::Ip { v4: true, .. } if !v6 => (IPIP, Vec::new()),
        TunnelKind::Vxlan(Vxlan { port, vni, .. }) => {
            let [_, high, middle, low] = vni.to_be_bytes();
            let [to_high, to_low] = port.to_be_bytes();
            let udp = [0, 0, to_high, to_low, 0, 0, 0, 0];
            let header = [udp, [8, 0, 0, 0, high, middle, low, 0]].concat();
            (Protocol::UDP, header)
        }
        TunnelKind::Ip { .. } => return Ok(None),
    };
    let fragments = if tunnel.dont_fragment {
        DONT_FRAGMENT
    } else {
        0
    };
    // 1 stands for a TOS that is inherited
    let tos = tunnel.tos & !1;
    let ttl = match tunnel.kind {
        TunnelKind::Vxlan(_) if tunnel.ttl == 0 => default_ttl()?,
        _ => tunnel.ttl,
    };
    let mut octets = vec![0x45, tos, 0, 0, 0, 0, fragments, 0, ttl, protocol.0, 0, 0];
    octets.extend(tunnel.local.octets());
    octets.extend(tunnel.remote.octets());
    octets.extend(more);
    Ok(Some(octets.into()))
}

pub(super) fn endpoints(tunnel: &message::Tunnel) -> Vec<Endpoint> {
    let (protocols, key) = match tunnel.kind {
        TunnelKind::Gre { input_key, .. } => (vec![GRE], input_key),
        TunnelKind::Ip { v4, v6 } => {
            let all = [(v4, IPIP), (v6, IPV6)].into_iter();
            (all.filter(|one| one.0).map(|one| one.1).collect(), None)
        }
        TunnelKind::Vxlan(Vxlan { port, vni, .. }) => return vec![Endpoint::Vxlan { port, vni }],
    };
    let endpoint = |protocol: Protocol| Endpoint::Addresses {
        protocol: protocol.0,
        source: tunnel.remote.to_bits(),
        destination: tunnel.local.to_bits(),
        key,
    };
    protocols.into_iter().map(endpoint).collect()
}

fn outer_udp(tunnel: &message::Tunnel) -> Result<Option<OuterUdp>, String> {
    let TunnelKind::Vxlan(vxlan) = &tunnel.kind else {
        return Ok(None);
    };
    let (first, last) = vxlan.source_ports;
    let source_ports = match first < last {
        true => (first, last),
        false => local_ports()?,
    };
    Ok(Some(OuterUdp {
        source_ports,
        checksum: vxlan.checksum,
    }))
}

fn local_ports() -> Result<(u16, u16), String> {
    match numbers("ip_local_port_range")?[..] {
        [first, last] => Ok((first, last)),
        ref others => Err(format!("net.ipv4.ip_local_port_range is {others:?}")),
    }
}

fn default_ttl() -> Result<u8, String> {
    match numbers("ip_default_ttl")?[..] {
        [ttl] => Ok(ttl),
        ref others => Err(format!("net.ipv4.ip_default_ttl is {others:?}")),
    }
}

/// The numbers of a setting of net.ipv4.
fn numbers<T: FromStr<Err: Display>>(name: &str) -> Result<Vec<T>, String> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let numbers = text.split_whitespace().map(str::parse);
    numbers
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{path}: {error}"))
}
