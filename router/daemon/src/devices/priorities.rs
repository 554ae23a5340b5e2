//! Priorities (PCP) in the tags of VLAN devices: `ingress-qos-map` and `egress-qos-map`.

use bora_forward::Priorities;
use bora_mirror::Mirror;
use bora_mirror::message::{Link, Vlan};

/// Why Bora cannot give packets the priorities that they have with Linux, if a VLAN device is so.
pub(super) fn why_they_differ(vlan: Vlan, mirror: &Mirror) -> Option<&'static str> {
    // Bora keeps no priority of a packet on its way; that of IPv4 packets is Linux's by their TOS octet
    (vlan.maps_ingress && they_leave(mirror)).then_some(
        "it sets priorities (ingress-qos-map), which IPv6 packets keep, and another VLAN device has an egress-qos-map",
    )
}

/// Whether the priority of a packet can show in what leaves.
fn they_leave(mirror: &Mirror) -> bool {
    let mut vlans = mirror.links().values().filter_map(|link| link.vlan);
    vlans.any(|vlan| vlan.egress_priorities != [0; 8])
}

/// Which priorities the tags of what leaves by a link have.
pub(super) fn of(link: &Link, mirror: &Mirror) -> Priorities {
    let map = |link: &Link| Some(link.vlan?.egress_priorities);
    let below = link.vlan.and_then(|vlan| mirror.links().get(&vlan.below));
    let tags = match (map(link), below.and_then(map)) {
        (Some(inner), Some(outer)) => [outer, inner],
        (own, _) => [own.unwrap_or_default(), [0; 8]],
    };
    Priorities::new(tags, mirror.settings().priority_by_tos)
}
