//! Which interfaces can be ports.

use anyhow::bail;
use bora_contract::INJECT_FRAME;
use bora_mirror::Mirror;
use bora_mirror::message::Link;

/// Octets of an Ethernet header and one VLAN tag.
const ETHERNET: u32 = 18;
/// Largest MTU of a port, in octets.
pub(crate) const MAX_MTU: u32 = INJECT_FRAME as u32 - ETHERNET;

/// Finds an interface and checks that it can be a port.
pub(crate) fn find(mirror: &Mirror, name: &str) -> anyhow::Result<Link> {
    let found = mirror.links().values().find(|link| link.name == name);
    let Some(link) = found else {
        let mut names: Vec<&str> = mirror
            .links()
            .values()
            .map(|link| link.name.as_str())
            .collect();
        names.sort_unstable();
        bail!(
            "interface {name} does not exist here (there are: {})",
            names.join(", ")
        );
    };
    if link.mac.is_none() || link.name == "lo" {
        bail!("interface {name} is not an Ethernet interface");
    }
    Ok(link.clone())
}

/// Why the packets of an interface find no room; `None` if they do.
pub(crate) fn too_long(link: &Link) -> Option<String> {
    let Link { mtu, name, .. } = link;
    (*mtu > MAX_MTU).then(|| {
        format!(
            "MTU {mtu} of {name} is more than the {MAX_MTU} octets a packet buffer holds; lower it with `ip \
             link set dev {name} mtu {MAX_MTU}`"
        )
    })
}
