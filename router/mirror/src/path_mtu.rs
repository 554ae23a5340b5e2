//! The MTUs of the paths to the far ends of tunnels, as Linux has learned them (RFC 1191).
//!
//! ICMP errors about outer packets come to the router itself. Linux keeps the MTU that they tell beside its route, for ten minutes, and sends no
//! event. So it is asked for the route to each far end, some of them each second.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;

use crate::attribute::{Malformed, attributes};
use crate::request::Body;
use crate::socket::Netlink;
use crate::world::World;

/// Most far ends that Linux is asked for in one step, which takes 2 ms then.
const EACH: usize = 256;
/// `struct rtmsg`.
const HEAD: usize = 12;
const RTAX_MTU: u16 = 2;

/// Where the next step begins.
#[derive(Default)]
pub(crate) struct PathMtus {
    next: Option<Ipv4Addr>,
}

impl PathMtus {
    /// Asks Linux about some far ends. Returns the tunnels whose next hops may be other ones now.
    pub(crate) fn step(&mut self, socket: &mut Netlink, world: &mut World) -> BTreeSet<u32> {
        let ends = world.far_ends();
        world.path_mtus.retain(|far, _| ends.contains_key(far));
        let first = self.next.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let mut rest = ends.range(first..);
        let mut changed = BTreeSet::new();
        for (&far, (near, tunnels)) in rest.by_ref().take(EACH) {
            let found = match ask(socket, far, *near) {
                Ok(found) => found,
                Err(error) => {
                    log::debug!("the path to {far}: {error}");
                    continue; // what is known stays until Linux knows a route again
                }
            };
            let before = match found {
                Some(mtu) => world.path_mtus.insert(far, mtu),
                None => world.path_mtus.remove(&far),
            };
            if before != found {
                changed.extend(tunnels);
            }
        }
        self.next = rest.next().map(|(&far, _)| far);
        changed
    }
}

impl World {
    /// The far ends of tunnels, with a near end and the devices of the tunnels.
    fn far_ends(&self) -> BTreeMap<Ipv4Addr, (Ipv4Addr, Vec<u32>)> {
        let mut ends: BTreeMap<_, (Ipv4Addr, Vec<u32>)> = BTreeMap::new();
        for (&device, port) in &self.ports {
            let Some(tunnel) = &port.tunnel else { continue };
            let Some(way) = tunnel.encapsulations.iter().flatten().next() else {
                continue;
            };
            let [.., a, b, c, d, _, _, _, _] = *way.headers.ipv4();
            let mut add = |far| {
                let known = ends.entry(far);
                let known = known.or_insert_with(|| (Ipv4Addr::new(a, b, c, d), Vec::new()));
                if known.1.last() != Some(&device) {
                    known.1.push(device);
                }
            };
            if tunnel.has_stations {
                let stations = self.stations.get(&device).into_iter();
                let fars = stations.flat_map(|stations| stations.values().flatten());
                fars.flatten().copied().for_each(add);
            } else {
                add(way.destination().into());
            }
        }
        ends
    }
}

/// The MTU of Linux's route between two addresses, if it has one of its own.
fn ask(socket: &mut Netlink, far: Ipv4Addr, near: Ipv4Addr) -> io::Result<Option<u32>> {
    let mut head = [0; HEAD];
    (head[0], head[1], head[2]) = (libc::AF_INET as u8, 32, 32);
    let body = Body::new(&head)
        .attribute(libc::RTA_DST, &far.octets())
        .attribute(libc::RTA_SRC, &near.octets());
    let mut found = Ok(None);
    socket.ask_for(libc::RTM_GETROUTE, 0, body.octets(), |frame| {
        found = mtu_of(frame.payload);
    })?;
    found.map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))
}

/// RTAX_MTU of a route.
fn mtu_of(route: &[u8]) -> Result<Option<u32>, Malformed> {
    for attribute in attributes(route, HEAD) {
        let attribute = attribute?;
        if attribute.kind != libc::RTA_METRICS {
            continue;
        }
        for metric in attribute.nested() {
            let metric = metric?;
            if metric.kind == RTAX_MTU {
                return Ok(Some(metric.u32()?).filter(|&mtu| mtu != 0));
            }
        }
    }
    Ok(None)
}
