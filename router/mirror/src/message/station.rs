//! Forwarding database of VXLAN devices: behind which far end a station is. AF_BRIDGE entries of the neighbour table.

use std::net::{IpAddr, Ipv4Addr};

use crate::attribute::{Malformed, attributes, header, u32_at};

/// An entry of a VXLAN device's forwarding database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Interface index of the VXLAN device.
    pub device: u32,
    /// Its Ethernet address; zeros: all that have no entry of their own.
    pub mac: [u8; 6],
    /// The far end; `None`: with another port, network identifier, interface or IP version than the device's.
    pub far: Option<Ipv4Addr>,
}

/// struct ndmsg. `None` for entries of bridges, which have no far end.
pub(super) fn decode(payload: &[u8]) -> Result<Option<Station>, Malformed> {
    const NDA_PORT: u16 = 6;
    const NDA_VNI: u16 = 7;
    const NDA_IFINDEX: u16 = 8;
    const NDA_NH_ID: u16 = 13;
    let head = header(payload, 12, "neighbour message")?;
    if i32::from(head[0]) != libc::AF_BRIDGE {
        return Ok(None);
    }
    let (mut far, mut mac, mut special) = (None, None, false);
    for attribute in attributes(payload, 12) {
        let attribute = attribute?;
        match attribute.kind {
            libc::NDA_DST => far = Some(attribute.ip()?),
            libc::NDA_LLADDR => mac = attribute.mac(),
            NDA_PORT | NDA_VNI | NDA_IFINDEX | NDA_NH_ID => special = true,
            _ => {}
        }
    }
    if far.is_none() && !special {
        return Ok(None);
    }
    let far = match far {
        Some(IpAddr::V4(far)) if !special => Some(far),
        _ => None,
    };
    Ok(mac.map(|mac| Station {
        device: u32_at(head, 4),
        mac,
        far,
    }))
}
