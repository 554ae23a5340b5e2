//! What the FIB's object of a hop contains.

use bora_fib::{Adjacency, Encapsulation, NextHop, Reason};
use bora_wire::{EtherType, MacAddr, ethernet};

use super::punt;
use crate::keys::HopKey;
use crate::world::{Port, World};

/// IP protocol of IPv6 in IPv4.
const IPV6_IN_IP: u8 = 41;
/// The least MTU of IPv6 (RFC 8200, 5), octets.
const IPV6_MIN_MTU: u32 = 1280;

/// The FIB's object for a hop: an adjacency if the device is a port and the neighbour is known,
/// else a punt.
pub(super) fn content(world: &World, key: &HopKey) -> NextHop {
    let Some(port) = world.ports.get(&key.device) else {
        return punt(Reason::Unsupported, None);
    };
    if port.shaped {
        return punt(Reason::Shaped, Some(port.id));
    }
    let mtu = mtu(world, key, port);
    if let Some(tunnel) = port.tunnel.as_ref().filter(|it| !it.has_stations) {
        let way = tunnel.encapsulations[usize::from(key.v6)].clone();
        return into_tunnel(way, mtu, port, world);
    }
    let Some(mac) = port.peer.or_else(|| world.mac(key)) else {
        return punt(Reason::NoNeighbour, Some(port.id));
    };
    let mut l2 = [0; ethernet::HEADER_LEN];
    let mut link = ethernet::Frame::new_unchecked(&mut l2);
    link.set_dst(MacAddr(mac));
    link.set_src(MacAddr(port.mac));
    link.set_ethertype(match key.v6 {
        true => EtherType::IPV6,
        false => EtherType::IPV4,
    });
    if let Some(tunnel) = &port.tunnel {
        let way = tunnel.encapsulations[usize::from(key.v6)].as_ref();
        let way = way.zip(world.far_end(key.device, mac));
        let way = way.map(|(way, far)| Encapsulation {
            unconfirmed: world.unconfirmed(key),
            headers: way.headers.to(far, &l2),
            ..way.clone()
        });
        return into_tunnel(way, mtu, port, world);
    }
    NextHop::Forward(Adjacency {
        port: port.id,
        mtu,
        l2,
        unconfirmed: world.unconfirmed(key),
    })
}

/// A way into a tunnel, if there is one without Linux.
fn into_tunnel(way: Option<Encapsulation>, mtu: u16, port: &Port, world: &World) -> NextHop {
    match way {
        Some(mut way) => {
            let path = world.path_mtus.get(&way.destination().into());
            let headers = way.headers.octets().len() as u32;
            let inside = path.map_or(u32::MAX, |path| path.saturating_sub(headers));
            // `sit` lets outer packets be fragmented on a path that is so narrow (ipip6_tunnel_xmit())
            if way.headers.ipv4()[9] == IPV6_IN_IP && inside < IPV6_MIN_MTU {
                return punt(Reason::Unsupported, Some(port.id));
            }
            way.mtu = u32::from(mtu).min(inside) as u16;
            NextHop::Tunnel(way.into())
        }
        None => punt(Reason::Unsupported, Some(port.id)),
    }
}

/// Largest packet that leaves by a hop, octets.
fn mtu(world: &World, key: &HopKey, port: &Port) -> u16 {
    let link = world
        .links
        .get(&key.device)
        .map_or(port.mtu, |link| link.mtu);
    let settings = world
        .settings
        .interfaces
        .get(&key.device)
        .filter(|_| key.v6);
    let limits = [link, key.mtu, settings.map_or(0, |settings| settings.mtu6)];
    let limits = limits.into_iter().filter(|&mtu| mtu != 0);
    limits.fold(port.mtu, u32::min).min(u32::from(u16::MAX)) as u16
}
