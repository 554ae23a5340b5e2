//! Devices on ports: VLAN devices, bonds, VLAN devices on bonds, and macvlans on any of these.
//!
//! What comes in by a port with a VLAN device's tags is that device's, and leaves by the port with its tags. As in Linux, a packet loses its tags when it comes in, goes through the stages as one without tags that
//! came in by the device, and gets tags as the last thing before it leaves. So no stage knows of tags.
//! A bond's packets come in by any of its ports, and leave by one that their hash chooses. A macvlan's are those for its address.

use bora_buffer::{Packet, Region};
use bora_contract::MAX_PORTS;
use bora_fib::PortId;
use bora_wire::{MacAddr, ethernet, vlan};

use crate::Ingress;
use crate::bond::Ports;
use crate::tunnel::{Arrival, Endpoint};

/// Octets of both Ethernet addresses.
const ADDRESSES: usize = 12;
const TAG: usize = vlan::HEADER_LEN;
/// Of a tag as on the wire: its EtherType and the VLAN, without priority and drop eligibility.
const IDENTITY: u32 = 0xffff_0fff;
/// In the mark of a packet that has lost its tags; its priority is below.
pub(crate) const TAGGED: u8 = 8;

/// One tag or two, the outer one first, with priority 0; or none, as a bond's packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tags {
    /// 0: there is none.
    outer: u32,
    /// 0: there is none.
    inner: u32,
}

impl Tags {
    /// No tag.
    pub const NONE: Self = Self { outer: 0, inner: 0 };

    /// One tag: EtherType and VLAN, 0 to 4095.
    pub fn one(protocol: u16, id: u16) -> Self {
        Self {
            outer: u32::from(protocol) << 16 | u32::from(id),
            inner: 0,
        }
    }

    /// The same with another tag inside; `None` if it has one.
    #[must_use]
    pub fn with_inner(self, protocol: u16, id: u16) -> Option<Self> {
        let inner = Self::one(protocol, id).outer;
        (self.inner == 0).then_some(Self { inner, ..self })
    }

    /// Octets on the wire.
    #[inline]
    pub fn len(self) -> usize {
        TAG * (usize::from(self.outer != 0) + usize::from(self.inner != 0))
    }

    /// Whether there is no tag.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.outer == 0
    }

    /// As on the wire; [`Tags::len`] octets count.
    pub fn octets(self) -> [u8; 2 * TAG] {
        (u64::from(self.outer) << 32 | u64::from(self.inner)).to_be_bytes()
    }

    /// All tags of a frame; `None` if it has more than two.
    #[inline]
    fn of(frame: &[u8]) -> Option<Self> {
        let Some(outer) = tag_at(frame, 0) else {
            return Some(Self::NONE);
        };
        let inner = tag_at(frame, 1);
        if inner.is_some() && tag_at(frame, 2).is_some() {
            return None;
        }
        Some(Self {
            outer: outer & IDENTITY,
            inner: inner.unwrap_or(0) & IDENTITY,
        })
    }
}

/// The tag at this place of a frame, which an EtherType must follow.
#[inline]
fn tag_at(frame: &[u8], number: usize) -> Option<u32> {
    let at = ADDRESSES + number * TAG;
    let (tag, _) = frame.get(at..)?.split_first_chunk()?;
    frame.get(at + TAG..at + TAG + 2)?;
    let tag = u32::from_be_bytes(*tag);
    let protocol = ethernet::EtherType((tag >> 16) as u16);
    let is_tag = matches!(
        protocol,
        ethernet::EtherType::VLAN | ethernet::EtherType::QINQ
    );
    is_tag.then_some(tag)
}

/// Which priorities (PCP) the tags of a VLAN device's packets get: its `egress-qos-map`, of the priorities that Linux gives
/// forwarded packets (`ip_forward()` in net/ipv4/ip_forward.c; IPv6 packets have 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priorities(u32);

/// The priorities of socket buffers (linux/pkt_sched.h) by bits 3 and 4 of the TOS octet (`ip_tos2prio` in net/ipv4/route.c).
const OF_TOS: [usize; 4] = [0, 2, 6, 4];
/// Classes of packets: four of IPv4, and IPv6.
const CLASSES: usize = OF_TOS.len() + 1;

impl Priorities {
    /// Those of an outer tag and an inner one, each by the socket buffer's priority. `by_tos`: whether Linux gives IPv4 packets
    /// one by their TOS octet (`net.ipv4.ip_forward_update_priority`).
    pub fn new(tags: [[u8; 8]; 2], by_tos: bool) -> Self {
        let of_class = |class: usize| match OF_TOS.get(class) {
            Some(&priority) if by_tos => priority,
            _ => 0,
        };
        let mut bits = 0;
        for (number, tag) in tags.iter().enumerate() {
            for class in 0..CLASSES {
                let priority = u32::from(tag[of_class(class)] & 7);
                bits |= priority << (3 * (number * CLASSES + class));
            }
        }
        Self(bits)
    }

    /// As the XDP program wants them.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// For the packet of a frame without tags: what is added to the first octet of each tag's TCI.
    #[inline]
    fn of_packet(self, packet: &[u8]) -> [u8; 2] {
        let class = match *packet {
            [0x08, 0x00, _, tos, ..] => usize::from(tos >> 3 & 3),
            _ => OF_TOS.len(),
        };
        [0, CLASSES].map(|tag| ((self.0 >> (3 * (tag + class)) & 7) << 5) as u8)
    }
}

/// A VLAN device, a bond, a macvlan, or a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number, [`MAX_PORTS`] or more, and what it takes.
    pub ingress: Ingress,
    /// The ports below; none of a tunnel.
    pub ports: Ports,
    /// What its packets have on the ports.
    pub tags: Tags,
    /// What these tags say of priority.
    pub priorities: Priorities,
    /// Whether it has an Ethernet address beside that of what it is on: a macvlan.
    pub is_station: bool,
    /// Of a tunnel: how its packets are known. All have equally many octets of headers.
    pub endpoints: Vec<Endpoint>,
    /// Of a tunnel: the only far end whose packets are taken; others are Linux's.
    pub only_from: Option<u32>,
}

/// All devices (control side: makes it; workers: read it).
#[derive(Debug, Default)]
pub struct Devices {
    /// By number, from [`MAX_PORTS`] on.
    devices: Vec<Option<Device>>,
    /// Of each port by its number.
    trunks: Vec<Trunk>,
    /// Of tunnels, ascending; with places in `devices`.
    endpoints: Vec<(Endpoint, u16)>,
}

/// The devices on a port, ascending; the number is the place in [`Devices::devices`].
#[derive(Debug, Default)]
struct Trunk {
    tags: Vec<(Tags, u16)>,
    /// Those with an address of their own.
    stations: Vec<((Tags, MacAddr), u16)>,
}

impl Devices {
    /// The devices, each with a number of its own.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Self {
        let mut table = Self::default();
        for device in devices {
            let Some(place) = place_of(device.ingress.port) else {
                continue;
            };
            let endpoints = device.endpoints.iter();
            let endpoints = endpoints.map(|&endpoint| (endpoint, place as u16));
            table.endpoints.extend(endpoints);
            for port in &device.ports.all {
                let trunk = usize::from(port.0);
                if table.trunks.len() <= trunk {
                    table.trunks.resize_with(trunk + 1, Trunk::default);
                }
                let (trunk, place) = (&mut table.trunks[trunk], place as u16);
                match device.is_station {
                    true => trunk
                        .stations
                        .push(((device.tags, device.ingress.mac), place)),
                    false => trunk.tags.push((device.tags, place)),
                }
            }
            if table.devices.len() <= place {
                table.devices.resize_with(place + 1, || None);
            }
            table.devices[place] = Some(device);
        }
        table.endpoints.sort_unstable();
        for trunk in &mut table.trunks {
            trunk.tags.sort_unstable();
            trunk.stations.sort_unstable();
        }
        table
    }

    /// Whether there are devices on a port.
    #[inline]
    pub fn is_trunk(&self, port: PortId) -> bool {
        let trunk = self.trunks.get(usize::from(port.0));
        trunk.is_some_and(|trunk| !trunk.tags.is_empty() || !trunk.stations.is_empty())
    }

    /// Makes the packet inside a frame, if it has come through a tunnel; returns the tunnel. `partial_checksum`: as of
    /// [`Ingress`].
    pub fn unwrap(
        &self,
        region: &Region,
        packet: &mut Packet,
        partial_checksum: bool,
    ) -> Option<&Device> {
        if self.endpoints.is_empty() {
            return None;
        }
        let arrival = Arrival::of(region.octets(packet), partial_checksum)?;
        let endpoints = &self.endpoints;
        let at = endpoints.binary_search_by_key(&arrival.endpoint, |&(endpoint, _)| endpoint);
        let device = self.devices[usize::from(endpoints[at.ok()?].1)].as_ref()?;
        let is_expected = device.only_from.is_none_or(|far| far == arrival.source);
        let loops = arrival.comes_from(device.ingress.mac, region.octets(packet));
        (is_expected && !loops && arrival.unwrap(region, packet, device.ingress.mac))
            .then_some(device)
    }

    /// The device with this number.
    #[inline]
    pub fn get(&self, number: PortId) -> Option<&Device> {
        self.devices.get(place_of(number)?)?.as_ref()
    }

    /// The device that a frame belongs to that came in by a port.
    #[inline]
    pub fn device_of(&self, trunk: PortId, frame: &[u8]) -> Option<&Device> {
        let tags = Tags::of(frame)?;
        let trunk = self.trunks.get(usize::from(trunk.0))?;
        let place = match trunk.station(tags, frame) {
            Some(place) => place,
            None => {
                let at = trunk.tags.binary_search_by_key(&tags, |&(tags, _)| tags);
                trunk.tags[at.ok()?].1
            }
        };
        self.devices.get(usize::from(place))?.as_ref()
    }
}

impl Trunk {
    /// The device that a frame is for by its address.
    #[inline]
    fn station(&self, tags: Tags, frame: &[u8]) -> Option<u16> {
        if self.stations.is_empty() {
            return None;
        }
        let key = (tags, MacAddr(*frame.first_chunk()?));
        let at = self.stations.binary_search_by_key(&key, |&(key, _)| key);
        at.ok().map(|at| self.stations[at].1)
    }
}

/// Where a device is among the devices; `None` for a port.
#[inline]
fn place_of(number: PortId) -> Option<usize> {
    usize::from(number.0).checked_sub(MAX_PORTS)
}

impl Device {
    /// Takes the tags out of a packet. They stay in front of it, for [`Device::restore`]; the priority is in
    /// the packet's mark, for [`crate::classify()`].
    #[inline]
    pub fn untag(&self, region: &Region, packet: &mut Packet) {
        if self.tags.is_empty() {
            return;
        }
        let length = self.tags.len();
        let octets = region.octets_mut(packet);
        let priority = match length {
            TAG => rotate::<TAG>(octets),
            _ => rotate::<{ 2 * TAG }>(octets),
        };
        let Some(priority) = priority else {
            return; // [`Devices::device_of`] has seen its tags
        };
        packet.pull(length);
        packet.set_mark(TAGGED | priority);
    }

    /// Undoes [`Device::untag`] for a packet that is otherwise as it came.
    pub fn restore(&self, region: &Region, packet: &mut Packet) {
        let length = self.tags.len();
        packet.push(region, length);
        let octets = region.octets_mut(packet);
        if let Some(headers) = octets.get_mut(..ADDRESSES + length) {
            headers.rotate_left(length);
        }
    }

    /// Undoes [`Devices::unwrap`] for a packet that is otherwise as it came.
    pub fn rewrap(&self, region: &Region, packet: &mut Packet) {
        if let Some(endpoint) = self.endpoints.first() {
            endpoint.rewrap(region, packet);
        }
    }

    /// Gives a packet the tags, and pads it to what the port sends; false if its frame has no room.
    #[inline]
    pub fn tag(&self, region: &Region, packet: &mut Packet, min_frame: u16) -> bool {
        let length = self.tags.len();
        if length == 0 {
            return packet.pad(region, min_frame.into());
        }
        if !packet.push(region, length) {
            return false;
        }
        let octets = region.octets_mut(packet);
        let Some(addresses) = octets[length..].first_chunk::<ADDRESSES>().copied() else {
            return false;
        };
        let mut tags = self.tags.octets();
        if self.priorities != Priorities::default() {
            let [outer, inner] = self.priorities.of_packet(&octets[ADDRESSES + length..]);
            tags[2] |= outer;
            tags[TAG + 2] |= inner;
        }
        octets[..ADDRESSES].copy_from_slice(&addresses);
        let (outer, inner) = tags.split_at(TAG);
        octets[ADDRESSES..ADDRESSES + TAG].copy_from_slice(outer);
        if length > TAG {
            octets[ADDRESSES + TAG..ADDRESSES + 2 * TAG].copy_from_slice(inner);
        }
        packet.pad(region, min_frame.into())
    }
}

/// Moves the tags of a frame, which have `LENGTH` octets, in front of its addresses; returns the outer one's priority.
#[inline]
fn rotate<const LENGTH: usize>(octets: &mut [u8]) -> Option<u8> {
    let addresses = *octets.first_chunk::<ADDRESSES>()?;
    let tags = *octets[ADDRESSES..].first_chunk::<LENGTH>()?;
    octets[..LENGTH].copy_from_slice(&tags);
    octets[LENGTH..LENGTH + ADDRESSES].copy_from_slice(&addresses);
    Some(tags[2] >> 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_those_of_linux() {
        // ip link set DEV type vlan egress-qos-map 0:5 2:1 4:7 6:3, and 0:2 6:4 inside
        let maps = [[5, 0, 1, 0, 7, 0, 3, 0], [2, 0, 0, 0, 0, 0, 4, 0]];
        let of = |priorities: Priorities, start: [u8; 4]| {
            priorities.of_packet(&start).map(|octet| octet >> 5)
        };
        let by_tos = Priorities::new(maps, true);
        for (tos, wanted) in [
            (0, [5, 2]),
            (0x02, [5, 2]), // ECN
            (0x08, [1, 0]),
            (0x10, [3, 4]),
            (0xb8, [7, 0]), // EF
            (0xe4, [5, 2]),
        ] {
            assert_eq!(of(by_tos, [8, 0, 0x45, tos]), wanted, "{tos:#x}");
            let fixed = Priorities::new(maps, false);
            assert_eq!(of(fixed, [8, 0, 0x45, tos]), [5, 2], "{tos:#x}");
        }
        assert_eq!(of(by_tos, [0x86, 0xdd, 0x6b, 0x80]), [5, 2], "IPv6");
        assert_eq!(Priorities::new([[0; 8]; 2], true), Priorities::default());
    }
}
