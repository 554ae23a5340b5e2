//! Which interfaces can be ports.

use std::io;

use anyhow::bail;
use bora_contract::INJECT_FRAME;
use bora_linux::interface::Interface;
use bora_mirror::Mirror;
use bora_mirror::message::Link;
use bora_xdp::query;

use crate::config::{File, PathChoice};

/// Octets of an Ethernet header and one VLAN tag.
const ETHERNET: u32 = 18;
/// Largest MTU of a port whose packets are in one buffer each, in octets.
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

/// Whether this Bora forwards packets that need several buffers, or why not.
pub(crate) type LongFrames = Result<(), &'static str>;

/// Whether packets of the configured ports need several buffers, and Bora can forward them.
///
/// # Errors
/// The interfaces cannot be asked.
pub(crate) fn long_frames(config: &File) -> io::Result<LongFrames> {
    if config.path == PathChoice::Engine || config.needs_engine() {
        return Ok(Err("one of the engine's packet buffers holds no more"));
    }
    for section in &config.ports {
        if let Some(found) = Interface::named(&section.name)?
            && found.mtu > MAX_MTU
        {
            return Ok(match query(found.index)?.tells {
                true => Ok(()),
                false => Err("Linux forwards XDP frames in several buffers from 6.3 on"),
            });
        }
    }
    Ok(Err(
        "it takes longer ones if a port has such an MTU when it starts: `bora stop --detach`, set the MTU, start Bora",
    ))
}

/// Why the packets of an interface find no room; `None` if they do.
pub(crate) fn too_long(link: &Link, long_frames: LongFrames) -> Option<String> {
    let Link { mtu, name, .. } = link;
    if *mtu <= MAX_MTU {
        return None;
    }
    let shown = || query(link.index).map(|found| found.shows_fragments);
    let why = match long_frames.map(|()| shown()) {
        Err(why) => why.to_owned(),
        Ok(Ok(true)) => return None,
        Ok(Ok(false)) => "its driver gives XDP programs no frames in several buffers".into(),
        Ok(Err(error)) => format!("what its driver can do is not known: {error}"),
    };
    Some(format!(
        "MTU {mtu} of {name} is more than the {MAX_MTU} octets that Bora forwards here ({why}); lower it with `ip link set \
         dev {name} mtu {MAX_MTU}`"
    ))
}
