//! PPPoE sessions (RFC 2516) of Linux on ports and on VLAN devices: the way to the Internet of many access lines, and what access
//! concentrators end. Express forwards by them; with the engine they are Linux's.

use std::collections::BTreeMap;

use bora_contract::Path;
use bora_forward::Tags;
use bora_mirror::Mirror;
use bora_mirror::message::Link;
use bora_xdp::pppoe::{Channel, Reader, Session};

use super::lower::{Found, Lower};
use super::{Device, Kind};
use crate::policy::has_other_master;
use crate::ports::table::PortTable;

/// Octets of the headers of PPPoE and PPP in front of a packet.
const HEADERS: u32 = 8;
const KIND: &str = "ppp";

/// What PPP interfaces are on. Linux tells of no change.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// The interfaces, by index.
    interfaces: Vec<u32>,
    /// What reads of them, or why it could not be loaded; loaded anew when there are others.
    reader: Option<Result<Reader, String>>,
    /// By ifindex.
    known: BTreeMap<u32, Channel>,
    /// Why nothing is known of them.
    trouble: Option<String>,
}

impl Channels {
    /// Looks at Linux's PPP interfaces; returns whether any is another than it was.
    pub(crate) fn look(&mut self, mirror: &Mirror) -> bool {
        let links = mirror.links().values().filter(|link| is_ppp(link));
        let interfaces: Vec<u32> = links.map(|link| link.index).collect();
        if interfaces != self.interfaces {
            self.interfaces = interfaces;
            let wanted = !self.interfaces.is_empty();
            self.reader = wanted.then(|| Reader::load().map_err(|error| error.to_string()));
        }
        let found = match &self.reader {
            None => Ok(BTreeMap::new()),
            Some(Ok(reader)) => { reader.channels(&self.interfaces) }.map_err(|e| e.to_string()),
            Some(Err(why)) => Err(why.clone()),
        };
        let (known, trouble) = match found {
            Ok(known) => (known, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        let changed = (&known, &trouble) != (&self.known, &self.trouble);
        (self.known, self.trouble) = (known, trouble);
        changed
    }

    /// The session of an interface, or why Bora does not forward by it.
    fn session(&self, ifindex: u32) -> Result<Session, String> {
        if let Some(trouble) = &self.trouble {
            return Err(format!("Linux does not show its session: {trouble}"));
        }
        let why = match self.known.get(&ifindex) {
            Some(Channel::Session(session)) => return Ok(*session),
            Some(Channel::Changed) => "PPP compresses its packets, dials for them or spreads them",
            Some(Channel::Filtered) => "pppd's filters see its packets",
            Some(Channel::Other) | None => "it has no PPPoE session",
        };
        Err(why.into())
    }
}

/// Whether a link is an interface of PPP, over whatever.
pub(super) fn is_ppp(link: &Link) -> bool {
    link.kind == KIND
}

/// A VLAN device as what is below a session, whose frames go by the port with its tag.
fn on_vlan(vlan: &Device) -> Lower {
    let of_port = &vlan.lower;
    Lower {
        id: of_port.id,
        ifindex: of_port.ifindex,
        ..Lower::device(vlan)
    }
}

/// What a PPP interface is to Bora. `devices` holds at least the VLAN devices that Bora forwards by.
pub(super) fn find(
    link: &Link,
    channels: &Channels,
    mirror: &Mirror,
    ports: &PortTable,
    devices: &BTreeMap<u32, Device>,
) -> Found {
    let session = match channels.session(link.index) {
        Ok(session) => session,
        Err(why) => return Found::LeftAlone(why),
    };
    let port = ports.at(session.lower);
    let device = devices.get(&session.lower);
    let (lower, tags) = match (port, device) {
        (Some(port), _) => (Lower::port(port), Tags::NONE),
        (None, Some(device)) => (on_vlan(device), device.tags),
        (None, None) => return Found::Nothing,
    };
    let is_plain_vlan = |device: &Device| {
        device.kind == Kind::Vlan && device.tags.len() == 4 && device.lower.ports.len() == 1
    };
    let why = if lower.settings.path == Path::Engine {
        "the engine knows no PPPoE, express does (`path = \"express\"`)"
    } else if device.is_some_and(|device| !is_plain_vlan(device)) || lower.bridged.is_some() {
        "it is neither on a port nor on a VLAN device with one tag on a port"
    } else if has_other_master(mirror, link)
        || port.is_some_and(|it| has_other_master(mirror, &it.link))
    {
        "it, or its port, belongs to a bridge or a bond"
    } else if lower.settings.generic {
        "its port has generic XDP"
    } else {
        let mut lower = lower;
        let [passes4, passes6] = session.passes;
        lower.settings.kernel4 |= !passes4;
        lower.settings.kernel6 |= !passes6;
        lower.settings.peer = session.peer;
        lower.settings.session = session.number;
        lower.mtu = lower.mtu.saturating_sub(HEADERS);
        return Found::On(lower.into(), tags);
    };
    Found::LeftAlone(why.into())
}
