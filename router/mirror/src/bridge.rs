//! Bridges as Linux's bridge driver has them: VLANs of their ports, and which station is behind which port (the forwarding
//! database, FDB). Both are read whole when an event says that something has changed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::error::KernelError;
use crate::message::Link;
use crate::message::bridge::{
    BridgeEvent, BridgePort, NDA_MASTER, Station, port, station, stopped,
};
use crate::request::Body;
use crate::socket::Netlink;

/// Stations are read again after this many times the time that reading takes.
const PAUSE: u32 = 10;
/// All bridges that have one of Bora's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridges {
    /// By interface index.
    pub ports: BTreeMap<u32, BridgePort>,
    /// The interface index of the port that a station is behind. The bridges' own addresses are not here.
    pub stations: BTreeMap<Station, u32>,
}

impl Bridges {
    /// Takes away what an event contradicts; returns whether it was there.
    fn doubt(&mut self, event: BridgeEvent) -> bool {
        match event {
            BridgeEvent::Port(index, now) => self.doubt_port(index, &now),
            BridgeEvent::PortGone(index) => self.ports.remove(&index).is_some(),
            BridgeEvent::Station(station, port) => {
                let known = self.stations.get(&station).copied();
                let is_wrong = known.is_some() && known != port;
                is_wrong && self.stations.remove(&station).is_some()
            }
            BridgeEvent::Stopped(stopped) => {
                stopped.into_iter().fold(false, |doubted, (index, vlans)| {
                    doubted | self.stop(index, &vlans)
                })
            }
            BridgeEvent::Other => false,
        }
    }

    fn doubt_port(&mut self, index: u32, now: &BridgePort) -> bool {
        let Some(port) = self.ports.get_mut(&index) else {
            return false;
        };
        if port.bridge != now.bridge {
            return self.ports.remove(&index).is_some();
        }
        let before = port.clone();
        if !now.forwards() {
            port.state = now.state;
        }
        port.is_plain &= now.is_plain;
        port.vlans
            .retain(|vlan, known| now.vlans.get(vlan) == Some(known));
        *port != before
    }

    fn stop(&mut self, index: u32, vlans: &RangeInclusive<u16>) -> bool {
        let Some(port) = self.ports.get_mut(&index) else {
            return false;
        };
        let before = port.vlans.len();
        port.vlans.retain(|vlan, _| !vlans.contains(vlan));
        port.vlans.len() != before
    }
}

/// When to read them again.
#[derive(Debug)]
pub(crate) struct BridgeWatch {
    pub(crate) bridges: Bridges,
    /// The bridges to read.
    wanted: Vec<u32>,
    changed: bool,
    not_before: Instant,
}

impl BridgeWatch {
    pub(crate) fn new() -> Self {
        Self {
            bridges: Bridges::default(),
            wanted: Vec::new(),
            changed: false,
            not_before: Instant::now(),
        }
    }

    /// Sets which bridges to follow; returns whether they are others than before.
    pub(crate) fn want(&mut self, bridges: Vec<u32>) -> bool {
        let are_others = bridges != self.wanted;
        self.changed |= are_others;
        self.wanted = bridges;
        are_others
    }

    /// Notes changes. What they contradict is taken away at once, because the next reading may have to wait; until then
    /// Linux forwards. Returns whether there was any.
    pub(crate) fn note_changes(&mut self, events: Vec<BridgeEvent>) -> bool {
        self.changed |= !events.is_empty() && !self.wanted.is_empty();
        events
            .into_iter()
            .fold(false, |doubted, event| doubted | self.bridges.doubt(event))
    }

    /// When there is something to read.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.changed.then_some(self.not_before)
    }

    /// Reads them again if that is due; returns whether they have changed.
    pub(crate) fn follow(&mut self, socket: &mut Netlink) -> bool {
        let begin = Instant::now();
        if !self.changed || begin < self.not_before {
            return false;
        }
        let read = read(&self.wanted, socket);
        let took = begin.elapsed();
        self.not_before = begin + took * PAUSE;
        let (bridges, is_whole) = match read {
            Ok(read) => read,
            Err(error) => {
                log::warn!("bridges: {error}; what was read before counts, and Bora tries again");
                self.not_before += Duration::from_secs(1);
                return false;
            }
        };
        self.changed = !is_whole;
        let changed = bridges != self.bridges;
        self.bridges = bridges;
        changed
    }
}

/// What Linux has of these bridges; false if changes interrupted it.
fn read(wanted: &[u32], socket: &mut Netlink) -> Result<(Bridges, bool), KernelError> {
    const RTEXT_FILTER_BRVLAN_COMPRESSED: u32 = 1 << 2;
    let mut found = Bridges::default();
    if wanted.is_empty() {
        return Ok((found, true));
    }
    let mut head = [0; 16];
    head[0] = libc::AF_BRIDGE as u8;
    let request = Body::new(&head).attribute(
        libc::IFLA_EXT_MASK,
        &RTEXT_FILTER_BRVLAN_COMPRESSED.to_ne_bytes(),
    );
    let mut is_whole = socket.dump_decoded(
        libc::RTM_GETLINK,
        request.octets(),
        &mut found.ports,
        BTreeMap::clear,
        |ports, frame| {
            let port = port(frame.payload)?;
            ports.extend(port.filter(|(_, port)| wanted.contains(&port.bridge)));
            Ok(())
        },
    )?;
    if found.ports.values().any(|port| !port.vlans.is_empty()) {
        is_whole &= remove_stopped(&mut found.ports, socket)?;
    }
    for bridge in wanted {
        let mut head = [0; 12];
        head[0] = libc::AF_BRIDGE as u8;
        let request = Body::new(&head).attribute(NDA_MASTER, &bridge.to_ne_bytes());
        let mut stations = Vec::new();
        is_whole &= socket.dump_decoded(
            libc::RTM_GETNEIGH,
            request.octets(),
            &mut stations,
            Vec::clear,
            |stations, frame| {
                stations.extend(station(frame.payload)?);
                Ok(())
            },
        )?;
        found.stations.extend(stations);
    }
    Ok((found, is_whole))
}

/// Takes away the VLANs that have a state of their own (`bridge vlan set ... state`) in which no frames pass; false if changes
/// interrupted it.
fn remove_stopped(
    ports: &mut BTreeMap<u32, BridgePort>,
    socket: &mut Netlink,
) -> Result<bool, KernelError> {
    const RTM_GETVLAN: u16 = 114;
    let mut head = [0; 8];
    head[0] = libc::AF_BRIDGE as u8;
    let mut found = Vec::new();
    let is_whole = socket.dump_decoded(
        RTM_GETVLAN,
        &head,
        &mut found,
        Vec::clear,
        |found, frame| {
            found.extend(stopped(frame.payload)?);
            Ok(())
        },
    )?;
    for (index, stopped) in found {
        if let Some(port) = ports.get_mut(&index) {
            port.vlans.retain(|vlan, _| !stopped.contains(vlan));
        }
    }
    Ok(is_whole)
}

/// The bridges that any of these interfaces belong to, ascending.
pub(crate) fn of_ports<'a>(
    ports: impl Iterator<Item = u32>,
    link: impl Fn(u32) -> Option<&'a Link>,
) -> Vec<u32> {
    let masters = ports.filter_map(|port| Some(link(port)?.master));
    let is_bridge = |&master: &u32| link(master).is_some_and(|link| link.bridge.is_some());
    let mut bridges: Vec<u32> = masters.filter(is_bridge).collect();
    bridges.sort_unstable();
    bridges.dedup();
    bridges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::bridge::{BR_STATE_FORWARDING, BridgeVlan};

    fn known() -> Bridges {
        let port = BridgePort {
            bridge: 7,
            state: BR_STATE_FORWARDING,
            is_plain: true,
            vlans: [10, 20].map(|vlan| (vlan, BridgeVlan::default())).into(),
        };
        Bridges {
            ports: BTreeMap::from([(3, port)]),
            stations: BTreeMap::from([((7, 10, [9; 6]), 3)]),
        }
    }

    #[test]
    fn what_an_event_contradicts_is_taken_away_at_once() {
        let station = (7, 10, [9; 6]);
        for (event, doubted) in [
            (BridgeEvent::Station(station, Some(3)), false),
            (BridgeEvent::Station(station, Some(4)), true),
            (BridgeEvent::Station(station, None), true),
            (BridgeEvent::Station((7, 20, [9; 6]), None), false),
        ] {
            let mut bridges = known();
            assert_eq!(bridges.doubt(event.clone()), doubted, "{event:?}");
            assert_eq!(bridges.stations.is_empty(), doubted, "{event:?}");
        }
        let mut bridges = known();
        assert!(bridges.doubt(BridgeEvent::PortGone(3)) && bridges.ports.is_empty());
        assert!(!bridges.doubt(BridgeEvent::PortGone(3)));
    }

    #[test]
    fn a_port_loses_what_an_event_says_it_has_not() {
        let now = |change: fn(&mut BridgePort)| {
            let mut port = known().ports[&3].clone();
            change(&mut port);
            BridgeEvent::Port(3, port)
        };
        let mut bridges = known();
        // what is new waits for a reading
        assert!(!bridges.doubt(now(|port| {
            port.vlans.insert(30, BridgeVlan::default());
        })));
        assert_eq!(bridges, known());
        assert!(bridges.doubt(now(|port| port.vlans.clear())));
        assert!(bridges.ports[&3].vlans.is_empty() && bridges.ports[&3].forwards());
        assert!(bridges.doubt(now(|port| port.state = 0)) && !bridges.ports[&3].forwards());
        assert!(bridges.doubt(now(|port| port.is_plain = false)) && !bridges.ports[&3].is_plain);
        assert!(bridges.doubt(now(|port| port.bridge = 8)) && bridges.ports.is_empty());
        let mut bridges = known();
        assert!(bridges.doubt(BridgeEvent::Stopped(vec![(2, 1..=99), (3, 15..=20)])));
        assert_eq!(bridges.ports[&3].vlans.keys().collect::<Vec<_>>(), [&10]);
    }

    #[test]
    fn a_change_is_not_forgotten_before_it_is_read() {
        let mut watch = BridgeWatch::new();
        assert!(watch.want(vec![7]) && watch.want(Vec::new()));
        watch.note_changes(vec![BridgeEvent::Other]);
        assert!(watch.due().is_some());
    }
}
