//! VLAN devices of Linux on the ports: Bora forwards by them as by ports. Linux's configuration is the only one.

use std::collections::BTreeMap;

use bora_contract::{MAX_INTERFACES, MAX_PORTS, Path, PortSettings};
use bora_fib::PortId;
use bora_forward::{Tags, Vlan, Vlans};
use bora_kernel::Mirror;
use bora_kernel::message::Link;
use bora_wire::vlan;
use bora_worker::WorkerCounters;

use crate::port_table::PortTable;
use crate::ports::{Port, with_sysctls};

/// Most devices that Linux allows on each other (MAX_NEST_DEV in include/linux/netdevice.h).
const MAX_NESTED: usize = 8;

/// A VLAN device on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VlanDevice {
    pub(crate) id: PortId,
    pub(crate) link: Link,
    pub(crate) trunk: PortId,
    pub(crate) trunk_ifindex: u32,
    pub(crate) tags: Tags,
    pub(crate) settings: PortSettings,
    /// Longest packet that leaves by it without Linux: Linux's virtual devices and some drivers take no frames with more tags
    /// than one, unless their MTU has room.
    mtu: u32,
    /// Whether packets can leave by its port.
    is_output: bool,
}

/// A VLAN device that is left to Linux, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftAlone {
    pub(crate) name: String,
    pub(crate) why: &'static str,
}

/// The VLAN devices on the ports.
#[derive(Debug, Default)]
pub(crate) struct VlanTable {
    devices: Vec<VlanDevice>,
    left_alone: Vec<LeftAlone>,
    /// What the number of each device had counted for others before.
    before: BTreeMap<PortId, VlanTotals>,
}

/// What has changed.
#[derive(Debug, Default)]
pub(crate) struct VlanChanges {
    /// Devices that are new or other than before.
    pub(crate) set: Vec<VlanDevice>,
    pub(crate) removed: Vec<VlanDevice>,
}

impl VlanTable {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &VlanDevice> {
        self.devices.iter()
    }

    pub(crate) fn left_alone(&self) -> &[LeftAlone] {
        &self.left_alone
    }

    /// Takes the devices as Linux has them now. A device keeps its number as long as it exists.
    pub(crate) fn follow(&mut self, mirror: &Mirror, ports: &PortTable) -> VlanChanges {
        let before = std::mem::take(&mut self.devices);
        self.left_alone.clear();
        for link in mirror.links().values() {
            match find_trunk(link, mirror, ports) {
                Found::Nothing => {}
                Found::LeftAlone(why) => self.leave_alone(link, why),
                Found::On(port, tags) => {
                    let same = |device: &&VlanDevice| device.link.index == link.index;
                    let known = before.iter().find(same).map(|device| device.id);
                    match known.or_else(|| self.free_number(&before)) {
                        Some(id) => self.devices.push(device(id, link, (port, tags), mirror)),
                        None => self.leave_alone(link, "there are too many VLAN devices"),
                    }
                }
            }
        }
        let is_old = |device: &&VlanDevice| before.contains(device);
        let is_there = |gone: &VlanDevice| self.devices.iter().any(|device| device.id == gone.id);
        self.before
            .retain(|id, _| self.devices.iter().any(|device| device.id == *id));
        VlanChanges {
            set: self
                .iter()
                .filter(|device| !is_old(device))
                .cloned()
                .collect(),
            removed: before
                .iter()
                .filter(|gone| !is_there(gone))
                .cloned()
                .collect(),
        }
    }

    fn leave_alone(&mut self, link: &Link, why: &'static str) {
        let name = link.name.clone();
        self.left_alone.push(LeftAlone { name, why });
    }

    /// The lowest number that no device has, nor had before.
    fn free_number(&self, before: &[VlanDevice]) -> Option<PortId> {
        let in_use = |id| {
            self.devices
                .iter()
                .chain(before)
                .any(|device| device.id == id)
        };
        let mut numbers = (MAX_PORTS..MAX_INTERFACES).map(|number| PortId(number as u16));
        numbers.find(|&id| !in_use(id))
    }

    /// Whether [`VlanTable::begin`] was called for a device.
    pub(crate) fn has_begun(&self, id: PortId) -> bool {
        self.before.contains_key(&id)
    }

    /// Counts of a new device start from here.
    pub(crate) fn begin(&mut self, id: PortId, counted: VlanTotals) {
        self.before.insert(id, counted);
    }

    pub(crate) fn before(&self, id: PortId) -> VlanTotals {
        self.before.get(&id).copied().unwrap_or_default()
    }

    /// The devices that the FIB may lead to.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (u32, bora_kernel::Port)> {
        let outputs = self.devices.iter().filter(|device| device.is_output);
        outputs.map(|device| {
            let info = bora_kernel::Port {
                id: device.id,
                mac: device.settings.mac,
                mtu: device.mtu,
            };
            (device.link.index, info)
        })
    }

    /// As the workers want them.
    pub(crate) fn of_workers(&self) -> Vlans {
        Vlans::new(self.devices.iter().map(|device| Vlan {
            ingress: (&device.settings).into(),
            trunk: device.trunk,
            tags: device.tags,
        }))
    }
}

impl VlanChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

/// What a link is.
enum Found<'a> {
    /// No VLAN device, or not on a port.
    Nothing,
    LeftAlone(&'static str),
    On(&'a Port, Tags),
}

fn find_trunk<'a>(link: &Link, mirror: &Mirror, ports: &'a PortTable) -> Found<'a> {
    let Some(Stack {
        port,
        tags,
        maps,
        masters,
    }) = Stack::of(link, mirror, ports)
    else {
        return Found::Nothing;
    };
    let tags = match tags[..] {
        [(protocol, id)] => Some(Tags::one(protocol, id)),
        [inner, (protocol, id)] => Tags::one(protocol, id).with_inner(inner.0, inner.1),
        _ => None,
    };
    if ports
        .iter()
        .any(|port| port.ifindex == link.index && !port.is_gone)
    {
        Found::LeftAlone("it is a port itself")
    } else if masters {
        Found::LeftAlone("it belongs to a bridge, a bond or a VRF")
    } else if maps {
        Found::LeftAlone("it sets priorities (egress-qos-map)")
    } else if port.settings.generic {
        Found::LeftAlone("its port has generic XDP, which does not see all tags")
    } else if link.mac.is_none() {
        Found::LeftAlone("it has no Ethernet address")
    } else {
        let too_many = Found::LeftAlone("it has more than two tags");
        tags.map_or(too_many, |tags| Found::On(port, tags))
    }
}

/// A VLAN device and those below it, down to a port.
struct Stack<'a> {
    port: &'a Port,
    /// EtherType and VLAN of each, innermost first.
    tags: Vec<(u16, u16)>,
    /// Whether one of them sets priorities.
    maps: bool,
    /// Whether one of them belongs to a bridge, a bond or a VRF.
    masters: bool,
}

impl<'a> Stack<'a> {
    fn of(link: &Link, mirror: &Mirror, ports: &'a PortTable) -> Option<Self> {
        let (mut tags, mut maps, mut masters, mut at) = (Vec::new(), false, false, link);
        while tags.len() < MAX_NESTED {
            let vlan = at.vlan?;
            tags.push((vlan.protocol, vlan.id));
            maps |= vlan.maps_priority;
            masters |= at.master != 0;
            let is_below = |port: &&Port| port.ifindex == vlan.below && !port.is_gone;
            if let Some(port) = ports.iter().find(is_below) {
                return Some(Self {
                    port,
                    tags,
                    maps,
                    masters,
                });
            }
            at = mirror.links().get(&vlan.below)?;
        }
        None
    }
}

fn device(id: PortId, link: &Link, (port, tags): (&Port, Tags), mirror: &Mirror) -> VlanDevice {
    let mut octets = tags.octets();
    octets[tags.len()..].fill(0);
    VlanDevice {
        id,
        link: link.clone(),
        trunk: port.id,
        trunk_ifindex: port.ifindex,
        tags,
        mtu: link.mtu.min(
            port.link
                .mtu
                .saturating_sub((tags.len() - vlan::HEADER_LEN) as u32),
        ),
        settings: PortSettings {
            index: id.0,
            path: if link.up {
                port.settings.path
            } else {
                Path::Kernel
            },
            trunk: port.id.0,
            tags: octets,
            mac: link.mac.unwrap_or_default(),
            up: port.settings.up && link.up && link.carrier,
            enabled: port.settings.enabled && link.up,
            ..with_sysctls(port.settings.clone(), mirror, link.index)
        },
        is_output: port.is_output(),
    }
}

/// What workers and program have counted of a device: frames, and octets with tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VlanTotals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
}

impl VlanTotals {
    pub(crate) fn of<'a>(
        id: PortId,
        workers: impl Iterator<Item = &'a WorkerCounters>,
        program: [u64; 4],
    ) -> Self {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] = program;
        let mut total = Self {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
        };
        for counted in workers.filter_map(|worker| worker.vlan(id)) {
            total.rx_packets += counted.rx_packets.get();
            total.rx_bytes += counted.rx_bytes.get();
            total.tx_packets += counted.tx_packets.get();
            total.tx_bytes += counted.tx_bytes.get();
        }
        total
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            rx_packets: self.rx_packets - before.rx_packets,
            rx_bytes: self.rx_bytes - before.rx_bytes,
            tx_packets: self.tx_packets - before.tx_packets,
            tx_bytes: self.tx_bytes - before.tx_bytes,
        }
    }
}
