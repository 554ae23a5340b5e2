//! Tunnels over IPv4: IFLA_INFO_DATA of `gre`, `ipip`, `sit` and `vxlan` (include/uapi/linux/if_tunnel.h, if_link.h).

use std::net::Ipv4Addr;

use crate::attribute::{Attribute, Malformed};

/// What a tunnel's packets have in front of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// What lies between the outer IPv4 header and the packet inside.
    pub kind: TunnelKind,
    /// The near end; 0.0.0.0: Linux takes what suits the route.
    pub local: Ipv4Addr,
    /// The far end; 0.0.0.0: there is no single one.
    pub remote: Ipv4Addr,
    /// The interface that outer packets leave by; 0: any.
    pub link: u32,
    /// TTL of the outer header; 0: inherited, for VXLAN Linux's default.
    pub ttl: u8,
    /// TOS of the outer header; 1: inherited.
    pub tos: u8,
    /// Outer packets may not be fragmented.
    pub dont_fragment: bool,
    /// The outer header does not take "don't fragment" over from the packet inside.
    pub ignores_df: bool,
    /// Why only Linux can wrap its packets.
    pub unsupported: Option<&'static str>,
}

/// Kinds of tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// `gre` (RFC 2784): keys of packets that come in and go out (RFC 2890).
    Gre {
        /// In.
        input_key: Option<u32>,
        /// Out.
        output_key: Option<u32>,
    },
    /// `ipip` and `sit` (RFC 2003, 4213): whether IPv4 and IPv6 may be inside.
    Ip {
        /// IPv4.
        v4: bool,
        /// IPv6.
        v6: bool,
    },
    /// `vxlan` (RFC 7348).
    Vxlan(Vxlan),
}

impl Tunnel {
    /// Everything else 0 or off.
    fn new(kind: TunnelKind) -> Self {
        Self {
            kind,
            local: Ipv4Addr::UNSPECIFIED,
            remote: Ipv4Addr::UNSPECIFIED,
            link: 0,
            ttl: 0,
            tos: 0,
            dont_fragment: false,
            ignores_df: false,
            unsupported: None,
        }
    }
}

/// What VXLAN has beside other tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vxlan {
    /// Network identifier.
    pub vni: u32,
    /// UDP destination port.
    pub port: u16,
    /// UDP source ports, first and last; 0: net.ipv4.ip_local_port_range.
    pub source_ports: (u16, u16),
    /// UDP checksums are computed.
    pub checksum: bool,
    /// Linux learns from packets which station is behind which far end.
    pub learning: bool,
}

// include/uapi/linux/if_tunnel.h
const GRE_CSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQ: u16 = 0x1000;
const IPPROTO_ANY: u8 = 0;
const IPPROTO_IPIP: u8 = 4;
const IPPROTO_IPV6: u8 = 41;
const SIT_ISATAP: u16 = 1;

/// `None`: none that is over IPv4.
pub(super) fn decode(kind: &str, data: Attribute<'_>) -> Result<Option<Tunnel>, Malformed> {
    Ok(match kind {
        "gre" => Some(gre(data)?),
        "ipip" | "sit" => Some(ip(data, kind == "sit")?),
        _ => vxlan(data)?,
    })
}

fn address(attribute: Attribute<'_>) -> Result<Ipv4Addr, Malformed> {
    Ok(attribute.u32_be()?.into())
}

/// IFLA_GRE_*.
fn gre(data: Attribute<'_>) -> Result<Tunnel, Malformed> {
    let mut tunnel = Tunnel::new(TunnelKind::Gre {
        input_key: None,
        output_key: None,
    });
    let (mut flags, mut keys) = ([0; 2], [0; 2]);
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            1 => tunnel.link = attribute.u32()?,
            2 => flags[0] = u16::from_be(attribute.u16()?),
            3 => flags[1] = u16::from_be(attribute.u16()?),
            4 => keys[0] = attribute.u32_be()?,
            5 => keys[1] = attribute.u32_be()?,
            6 => tunnel.local = address(attribute)?,
            7 => tunnel.remote = address(attribute)?,
            8 => tunnel.ttl = attribute.u8()?,
            9 => tunnel.tos = attribute.u8()?,
            10 => tunnel.dont_fragment = attribute.u8()? != 0,
            14 if attribute.u16()? != 0 => {
                tunnel.unsupported = Some("it is in UDP, too (encap)");
            }
            18 => tunnel.unsupported = Some("routes say where its packets go (external)"),
            19 => tunnel.ignores_df = attribute.u8()? != 0,
            _ => {}
        }
    }
    if flags.iter().any(|flags| flags & (GRE_CSUM | GRE_SEQ) != 0) {
        tunnel.unsupported = Some("it has checksums or sequence numbers (csum, seq)");
    }
    let key = |at: usize| (flags[at] & GRE_KEY != 0).then_some(keys[at]);
    tunnel.kind = TunnelKind::Gre {
        input_key: key(0),
        output_key: key(1),
    };
    Ok(tunnel)
}

/// IFLA_IPTUN_*.
fn ip(data: Attribute<'_>, sit: bool) -> Result<Tunnel, Malformed> {
    let mut tunnel = Tunnel::new(TunnelKind::Ip { v4: !sit, v6: sit });
    let mut protocol = if sit { IPPROTO_IPV6 } else { IPPROTO_IPIP };
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            1 => tunnel.link = attribute.u32()?,
            2 => tunnel.local = address(attribute)?,
            3 => tunnel.remote = address(attribute)?,
            4 => tunnel.ttl = attribute.u8()?,
            5 => tunnel.tos = attribute.u8()?,
            8 if sit && attribute.u16()? & SIT_ISATAP != 0 => {
                tunnel.unsupported = Some("it is an ISATAP tunnel");
            }
            9 => protocol = attribute.u8()?,
            10 => tunnel.dont_fragment = attribute.u8()? != 0,
            15 if attribute.u16()? != 0 => {
                tunnel.unsupported = Some("it is in UDP, too (encap)");
            }
            19 => tunnel.unsupported = Some("routes say where its packets go (external)"),
            _ => {}
        }
    }
    let any = protocol == IPPROTO_ANY;
    tunnel.kind = TunnelKind::Ip {
        v4: any || protocol == IPPROTO_IPIP,
        v6: sit && any || protocol == IPPROTO_IPV6,
    };
    Ok(tunnel)
}

/// IFLA_VXLAN_*. `None`: over IPv6.
fn vxlan(data: Attribute<'_>) -> Result<Option<Tunnel>, Malformed> {
    let mut vxlan = Vxlan::default();
    let mut tunnel = Tunnel::new(TunnelKind::Vxlan(vxlan.clone()));
    for attribute in data.nested() {
        let attribute = attribute?;
        let on = attribute.value.first().is_none_or(|&value| value != 0);
        match attribute.kind {
            1 => vxlan.vni = attribute.u32()?,
            2 => tunnel.remote = address(attribute)?,
            3 => tunnel.link = attribute.u32()?,
            4 => tunnel.local = address(attribute)?,
            5 => tunnel.ttl = attribute.u8()?,
            6 => tunnel.tos = attribute.u8()?,
            7 => vxlan.learning = on,
            10 => {
                let ports = attribute.u32()?.to_ne_bytes();
                let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
                vxlan.source_ports = (port(0), port(2));
            }
            11 if on => tunnel.unsupported = Some("it answers ARP for others (proxy)"),
            12 if on => tunnel.unsupported = Some("it routes by itself (rsc)"),
            13 | 14 if on => tunnel.unsupported = Some("it reports misses (l2miss, l3miss)"),
            15 => vxlan.port = u16::from_be(attribute.u16()?),
            16 | 17 => return Ok(None),
            18 => vxlan.checksum = on,
            21 | 22 | 24 if on => tunnel.unsupported = Some("it has remote checksums (remcsum)"),
            23 => tunnel.unsupported = Some("it carries group policies (gbp)"),
            25 if on => tunnel.unsupported = Some("routes say where its packets go (external)"),
            27 => tunnel.unsupported = Some("it carries more than Ethernet (gpe)"),
            28 if on => tunnel.unsupported = Some("it inherits TTLs (ttl inherit)"),
            29 => match attribute.u8()? {
                0 => {}
                1 => tunnel.dont_fragment = true,
                _ => tunnel.unsupported = Some("it inherits \"don't fragment\" (df inherit)"),
            },
            30 if on => tunnel.unsupported = Some("it filters by network identifier (vnifilter)"),
            _ => {}
        }
    }
    tunnel.ignores_df = true;
    tunnel.kind = TunnelKind::Vxlan(vxlan);
    Ok(Some(tunnel))
}
