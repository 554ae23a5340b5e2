//! Tunnels of Linux over IPv4: `gre`, `ipip`, `sit`, and `vxlan` that is routed. The engine puts packets into them and takes
//! packets out. Linux's configuration is the only one, and what is not plain stays with Linux.

use std::collections::BTreeSet;

use bora_contract::{Path, PortSettings};
use bora_fib::PortId;
use bora_forward::{Endpoint, Tags, XmitHash};
use bora_mirror::Mirror;
use bora_mirror::message::{self, Link, TunnelKind};

use super::lower::{Found, Lower};
use super::wrapping::{Tunnel, endpoints, wrapping};
use crate::guard::hooks::Held;
use crate::policy::{has_other_master, rules_choose_outer, vrf_of};
use crate::ports::table::PortTable;

/// What all tunnels have in common.
#[derive(Default)]
pub(super) struct Around {
    /// Why none of them goes past Linux.
    why: Option<String>,
    inner6: bool,
    /// Ends of several tunnels, which differ in their interface (`dev`) only.
    shared: BTreeSet<Endpoint>,
}

impl Around {
    pub(super) fn new(held: &Held, mirror: &Mirror) -> Self {
        let by_rule = || {
            let why = "`ip rule` may choose the table for its outer packets";
            rules_choose_outer(mirror).then(|| why.to_owned())
        };
        let links = mirror.links().values();
        let tunnels: Vec<_> = links.filter_map(|link| link.tunnel.as_ref()).collect();
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for endpoint in tunnels.iter().copied().flat_map(endpoints) {
            if !seen.insert(endpoint) {
                shared.insert(endpoint);
            }
        }
        if tunnels.is_empty() {
            return Self::default(); // and nobody asks
        }
        Self {
            why: held.outer.clone().or_else(by_rule),
            inner6: held.inner6,
            shared,
        }
    }
}

/// What a tunnel is to Bora. `number`: of a port or device, by ifindex.
pub(super) fn find(
    link: &Link,
    mirror: &Mirror,
    ports: &PortTable,
    around: &Around,
    number: impl Fn(u32) -> Option<PortId>,
) -> Found {
    let Some(tunnel) = &link.tunnel else {
        return Found::Nothing;
    };
    if !ports.iter().any(|port| port.path == Path::Engine) {
        return Found::LeftAlone(
            "no port takes the engine, and express leaves tunnels to Linux".into(),
        );
    }
    let made = match why_not(link, tunnel, mirror, around) {
        Some(why) => Err(why),
        None => wrapping(tunnel, number),
    };
    let is_doubtful = |made: &Tunnel| made.endpoints.iter().any(|one| around.shared.contains(one));
    match made {
        Ok(made) if is_doubtful(&made) => {
            Found::LeftAlone("another tunnel has the same ends".into())
        }
        Err(why) => Found::LeftAlone(why),
        Ok(made) => Found::On(lower(link, around, made).into(), Tags::NONE),
    }
}

fn why_not(
    link: &Link,
    tunnel: &message::Tunnel,
    mirror: &Mirror,
    around: &Around,
) -> Option<String> {
    let below = mirror.links().get(&tunnel.link);
    let why = if let Some(why) = tunnel.unsupported {
        why
    } else if let Some(why) = why_no_far_end(link, tunnel, mirror) {
        why
    } else if tunnel.local.is_unspecified() {
        "Linux chooses its own address for each packet (local)"
    } else if !mirror.sends_from(tunnel.local) {
        "its local address is not the router's now, and so Linux sends nothing"
    } else if tunnel.tos & 1 != 0 && tunnel.tos != 1 {
        "its tos is odd"
    } else if has_other_master(mirror, link) {
        "it belongs to a bridge or a bond"
    } else if below
        .is_some_and(|below| vrf_of(mirror, below).is_some() || below.vrf_table.is_some())
    {
        "its outer packets belong to a VRF (dev)"
    } else {
        return around.why.clone();
    };
    Some(why.into())
}

fn why_no_far_end(link: &Link, tunnel: &message::Tunnel, mirror: &Mirror) -> Option<&'static str> {
    let remote = tunnel.remote;
    let vxlan = match &tunnel.kind {
        TunnelKind::Vxlan(vxlan) => Some(vxlan),
        _ => None,
    };
    match vxlan {
        _ if remote.is_multicast() => Some("its far ends are a multicast group"),
        None if remote.is_unspecified() => Some("it has no single far end (remote)"),
        Some(vxlan) if vxlan.learning && remote.is_unspecified() => {
            Some("it learns far ends, and has no single one (nolearning, or remote)")
        }
        // Linux would not see the packets that it learns from
        Some(vxlan) if vxlan.learning && mirror.has_far_ends(link.index, remote) => {
            Some("it has learned other far ends than its own (nolearning, or remote)")
        }
        Some(_) if link.mac.is_none() => Some("it has no Ethernet address"),
        _ => None,
    }
}

fn lower(link: &Link, around: &Around, tunnel: Tunnel) -> Lower {
    Lower {
        id: None,
        name: String::new(),
        ifindex: link.index,
        mtu: link.mtu,
        ports: Vec::new(),
        usable: Vec::new(),
        hash: XmitHash::default(),
        settings: PortSettings {
            path: Path::Engine,
            kernel6: around.inner6,
            up: true,
            enabled: true,
            ..PortSettings::default()
        },
        bypass_qdisc: false,
        is_output: true,
        bridged: None,
        tunnel: Some(tunnel),
    }
}
