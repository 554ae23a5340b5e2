//! Devices on ports: VLAN devices, bonds, VLAN devices on bonds, and macvlans on any of these.
//!
//! What comes in by a port with a VLAN device's tags is that device's, and leaves by the port with its tags. As in Linux, a packet
//! loses its tags when it comes in, and goes through the stages as one without tags that came in by the device.
//! [`crate::rewrite()`] gives it those of the device that it leaves by; no other stage knows of tags.
//! A bond's packets come in by any of its ports, and leave by one that their hash chooses. A macvlan's are those for its address.

use std::iter::{Flatten, Map};
use std::slice::Iter;

use bora_buffer::{Packet, Region};
use bora_contract::MAX_PORTS;
use bora_fib::PortId;
use bora_wire::{ethernet, vlan};

use crate::Ingress;
use crate::bond::Ports;
use crate::places::Places;
use crate::tunnel::Endpoint;

/// Octets of both Ethernet addresses.
const ADDRESSES: usize = 12;
const TAG: usize = vlan::HEADER_LEN;
/// What tells a tag from others, as on the wire: EtherType and VLAN, without priority and drop eligibility.
const IDENTITY: u32 = 0xffff_0fff;
/// In the mark of a packet that has lost its tags; its priority is below.
pub(crate) const TAGGED: u8 = 8;
/// Stands for any Ethernet address.
const ANY_MAC: u64 = 0;

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

    /// These tags with another one inside; `None` if they have one.
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

    /// The key of frames with these tags for an Ethernet address, or for any.
    #[inline(always)]
    fn key(self, mac: u64) -> u128 {
        u128::from(self.outer) << 96 | u128::from(self.inner) << 64 | u128::from(mac)
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

/// Whether a frame has a tag.
#[inline(always)]
pub(crate) fn has_tag(frame: &[u8]) -> bool {
    let kind = frame.get(ADDRESSES..).and_then(|rest| rest.first_chunk());
    kind.is_some_and(|&kind| is_tag(kind))
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
    /// Priorities of an outer tag and an inner one, each by the socket buffer's priority. `by_tos`: whether
    /// Linux gives IPv4 packets one by their TOS octet (`net.ipv4.ip_forward_update_priority`).
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
    /// How a tunnel's packets are known. All have equally many octets of headers.
    pub endpoints: Vec<Endpoint>,
    /// The only far end whose packets a tunnel takes; others are Linux's.
    pub only_from: Option<u32>,
}

/// All devices (control side: makes it; workers: read it).
#[derive(Debug, Default)]
pub struct Devices {
    /// By number, from [`MAX_PORTS`] on.
    devices: Vec<Option<Device>>,
    /// The trunk of each port by its number.
    trunks: Vec<Option<Trunk>>,
    /// Tunnels by [`Endpoint::key`].
    tunnels: Places,
}

/// The devices on a port.
#[derive(Debug, Default)]
pub(crate) struct Trunk {
    /// By [`Tags::key`].
    places: Places,
    /// Those with one tag of 802.1Q, by VLAN, if all are told by tags alone.
    vlans: Vec<Option<PortId>>,
    /// What frames without tags are of; nothing if the port itself takes them.
    untagged: Option<PortId>,
    /// Whether some have an Ethernet address of their own.
    has_stations: bool,
}

impl Devices {
    /// The devices, each with a number of its own.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Self {
        let mut table = Self::default();
        let (mut on_ports, mut tunnels) = (Vec::new(), Vec::new());
        for device in devices {
            let number = device.ingress.port;
            let Some(place) = place_of(number) else {
                continue;
            };
            let endpoints = device.endpoints.iter();
            tunnels.extend(endpoints.map(|endpoint| (endpoint.key(), number)));
            for port in &device.ports.all {
                let trunk = usize::from(port.0);
                if on_ports.len() <= trunk {
                    on_ports.resize_with(trunk + 1, Vec::new);
                }
                on_ports[trunk].push((device.tags, device.station(), number));
            }
            if table.devices.len() <= place {
                table.devices.resize_with(place + 1, || None);
            }
            table.devices[place] = Some(device);
        }
        table.tunnels = Places::new(&tunnels);
        table.trunks = on_ports.iter().map(|all| Trunk::new(all)).collect();
        table
    }

    /// The devices on a port, if there are some.
    #[inline]
    pub(crate) fn on(&self, port: PortId) -> Option<&Trunk> {
        self.trunks.get(usize::from(port.0))?.as_ref()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Whether there are tunnels.
    pub(crate) fn has_tunnels(&self) -> bool {
        !self.tunnels.is_empty()
    }

    /// The tunnel whose endpoint has this [`Endpoint::key`].
    #[inline(always)]
    pub(crate) fn tunnel(&self, key: u128) -> Option<&Device> {
        self.get(self.tunnels.find(key)?)
    }

    /// The device with this number.
    #[inline]
    pub fn get(&self, number: PortId) -> Option<&Device> {
        self.devices.get(place_of(number)?)?.as_ref()
    }
}

/// What packets come in by.
impl<'a> IntoIterator for &'a Devices {
    type Item = &'a Ingress;
    type IntoIter = Map<Flatten<Iter<'a, Option<Device>>>, fn(&'a Device) -> &'a Ingress>;

    fn into_iter(self) -> Self::IntoIter {
        self.devices.iter().flatten().map(|device| &device.ingress)
    }
}

impl Trunk {
    /// These devices, by tags and address; `None` if there are none.
    fn new(devices: &[(Tags, u64, PortId)]) -> Option<Self> {
        let keys = devices
            .iter()
            .map(|&(tags, mac, number)| (tags.key(mac), number));
        let places = Places::new(&keys.collect::<Vec<_>>());
        let has_stations = devices.iter().any(|&(_, mac, _)| mac != ANY_MAC);
        let vlans = match has_stations {
            true => 0..0,
            false => 0..4096,
        };
        let of_vlan = |id| places.find(Tags::one(0x8100, id).key(ANY_MAC));
        let vlans = vlans.map(of_vlan).collect();
        (!devices.is_empty()).then(|| Self {
            untagged: places.find(Tags::NONE.key(ANY_MAC)),
            vlans,
            has_stations,
            places,
        })
    }

    /// Whether some have an Ethernet address of their own.
    #[inline]
    pub(crate) fn has_stations(&self) -> bool {
        self.has_stations
    }

    /// What frames without tags are of, if not of the port itself.
    #[inline]
    pub(crate) fn untagged(&self) -> Option<PortId> {
        self.untagged
    }

    /// The device that a frame belongs to, which loses the device's tags. They stay in front of it, for
    /// [`Device::restore`]; their priority is in the packet's mark, for [`crate::classify()`].
    #[inline(always)]
    pub(crate) fn take(&self, region: &Region, packet: &mut Packet) -> Option<PortId> {
        let octets = region.octets_mut(packet);
        let Some(start) = octets.first_chunk_mut::<{ ADDRESSES + TAG + 2 }>() else {
            return self.take_any(region, packet);
        };
        let [tag @ .., third, fourth] = *start;
        // in one word, as the CPU reads it best
        let tag = tag.last_chunk().map_or(0, |tag| u32::from_be_bytes(*tag));
        let kind = ((tag >> 16) as u16).to_be_bytes();
        match (kind, [third, fourth]) {
            ([0x81, 0x00], next) if !self.has_stations && !is_tag(next) => {
                let vlan = tag as usize & 0xfff;
                let device = (*self.vlans.get(vlan)?)?;
                rotate_one(start);
                packet.pull(TAG);
                packet.set_mark(TAGGED | (tag >> 13) as u8 & 7);
                Some(device)
            }
            (kind, _) if self.has_stations && !is_tag(kind) => {
                let [a, b, c, d, e, f, ..] = *start;
                let key = Tags::NONE.key(number_of([a, b, c, d, e, f]));
                self.places.find(key).or(self.untagged)
            }
            _ => self.take_any(region, packet),
        }
    }

    /// What [`Self::take`] does, with any frame.
    #[inline(never)]
    fn take_any(&self, region: &Region, packet: &mut Packet) -> Option<PortId> {
        let frame = region.octets(packet);
        let tags = Tags::of(frame)?;
        let station = match self.has_stations {
            true => self.places.find(tags.key(number_of(*frame.first_chunk()?))),
            false => None,
        };
        let found = station.or_else(|| self.places.find(tags.key(ANY_MAC)))?;
        match tags.len() {
            0 => {}
            TAG => untag::<TAG>(region, packet),
            _ => untag::<{ 2 * TAG }>(region, packet),
        }
        Some(found)
    }
}

/// Whether this is the EtherType of a tag.
#[inline(always)]
fn is_tag(kind: [u8; 2]) -> bool {
    matches!(kind, [0x81, 0x00] | [0x88, 0xa8])
}

/// Moves the only tag of a frame in front of its addresses.
#[inline(always)]
fn rotate_one(start: &mut [u8; ADDRESSES + TAG + 2]) {
    if let Some(octets) = start.first_chunk_mut() {
        *octets = u128::from_le_bytes(*octets).rotate_left(32).to_le_bytes();
    }
}

/// An Ethernet address as a number.
#[inline(always)]
fn number_of([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Where a device is among the devices; `None` for a port.
#[inline]
fn place_of(number: PortId) -> Option<usize> {
    usize::from(number.0).checked_sub(MAX_PORTS)
}

impl Device {
    /// The Ethernet address that tells its packets, if it has one beside that of what it is on.
    fn station(&self) -> u64 {
        match self.is_station {
            true => number_of(self.ingress.mac.0),
            false => ANY_MAC,
        }
    }

    /// Gives a packet that is otherwise as it came the tags back that [`crate::find_inputs`] took.
    pub fn restore(&self, region: &Region, packet: &mut Packet) {
        let length = self.tags.len();
        packet.push(region, length);
        let octets = region.octets_mut(packet);
        if let Some(headers) = octets.get_mut(..ADDRESSES + length) {
            headers.rotate_left(length);
        }
    }

    /// Gives a packet the tags; false if its frame has no room.
    #[inline]
    pub fn tag(&self, region: &Region, packet: &mut Packet) -> bool {
        match self.tags.len() {
            0 => true,
            TAG => self.put::<TAG>(region, packet),
            _ => self.put::<{ 2 * TAG }>(region, packet),
        }
    }

    /// The tag that all its packets get, if it is one.
    #[inline]
    pub(crate) fn only_tag(&self) -> Option<[u8; TAG]> {
        let is_fixed = self.tags.len() == TAG && self.priorities == Priorities::default();
        is_fixed.then(|| self.tags.outer.to_be_bytes())
    }

    /// Puts tags of `LENGTH` octets into a packet; false if its frame has no room.
    #[inline(always)]
    fn put<const LENGTH: usize>(&self, region: &Region, packet: &mut Packet) -> bool {
        if !packet.push(region, LENGTH) {
            return false;
        }
        let octets = region.octets_mut(packet);
        let Some(addresses) = octets[LENGTH..].first_chunk::<ADDRESSES>().copied() else {
            return false;
        };
        let mut tags = self.tags.octets();
        if self.priorities != Priorities::default() {
            let [outer, inner] = self.priorities.of_packet(&octets[ADDRESSES + LENGTH..]);
            tags[2] |= outer;
            tags[TAG + 2] |= inner;
        }
        octets[..ADDRESSES].copy_from_slice(&addresses);
        octets[ADDRESSES..ADDRESSES + LENGTH].copy_from_slice(&tags[..LENGTH]);
        true
    }
}

/// Takes tags of `LENGTH` octets out of a packet.
#[inline(always)]
fn untag<const LENGTH: usize>(region: &Region, packet: &mut Packet) {
    if let Some(priority) = rotate::<LENGTH>(region.octets_mut(packet)) {
        packet.pull(LENGTH);
        packet.set_mark(TAGGED | priority);
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
