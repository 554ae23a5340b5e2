//! VLAN devices of Linux on the ports: Bora forwards by them as by ports. Linux's configuration is the only one.

use std::collections::{BTreeMap, BTreeSet};

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
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    pub(crate) trunk: PortId,
    pub(crate) trunk_ifindex: u32,
    tags: Tags,
    pub(crate) settings: PortSettings,
    /// Longest packet that leaves by it without Linux, octets: Linux's virtual devices and some drivers
    /// take no frames with more tags than one, unless their MTU has room.
    longest: u32,
    /// Whether packets can leave by its port.
    is_output: bool,
    /// What its number had counted for others before.
    pub(crate) before: VlanTotals,
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
    /// By ifindex.
    devices: BTreeMap<u32, VlanDevice>,
    left_alone: Vec<LeftAlone>,
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
        self.devices.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    pub(crate) fn left_alone(&self) -> &[LeftAlone] {
        &self.left_alone
    }

    /// Takes the devices as Linux has them now. A device keeps its number as long as it exists; a new one gets
    /// one that no device had before. `counted`: everything that was ever counted under a number.
    pub(crate) fn follow(
        &mut self,
        mirror: &Mirror,
        ports: &PortTable,
        counted: impl Fn(PortId) -> VlanTotals,
    ) -> VlanChanges {
        let before = std::mem::take(&mut self.devices);
        let in_use: BTreeSet<PortId> = before.values().map(|device| device.id).collect();
        let numbers = (MAX_PORTS..MAX_INTERFACES).map(|number| PortId(number as u16));
        let mut free = numbers.filter(|number| !in_use.contains(number));
        self.left_alone.clear();
        for link in mirror.links().values() {
            let (port, tags) = match find_trunk(link, mirror, ports) {
                Found::Nothing => continue,
                Found::LeftAlone(why) => {
                    self.leave_alone(link, why);
                    continue;
                }
                Found::On(port, tags) => (port, tags),
            };
            let known = before.get(&link.index).map(|old| (old.id, old.before));
            let Some(kept) = known.or_else(|| free.next().map(|id| (id, counted(id)))) else {
                self.leave_alone(link, "there are too many VLAN devices");
                continue;
            };
            let device = device(kept, link, (port, tags), mirror);
            self.devices.insert(link.index, device);
        }
        let set = self.iter();
        let set = set.filter(|device| before.get(&device.ifindex) != Some(device));
        let removed = before.values();
        let place = |device: &VlanDevice| (device.trunk_ifindex, device.tags);
        let removed = removed.filter(|old| {
            // an ifindex may be another device's at once
            let now = self.devices.get(&old.ifindex);
            now.is_none_or(|now| place(now) != place(old))
        });
        VlanChanges {
            set: set.cloned().collect(),
            removed: removed.cloned().collect(),
        }
    }

    fn leave_alone(&mut self, link: &Link, why: &'static str) {
        let name = link.name.clone();
        self.left_alone.push(LeftAlone { name, why });
    }

    /// The devices that the FIB may lead to.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (u32, bora_kernel::Port)> {
        let outputs = self.iter().filter(|device| device.is_output);
        outputs.map(|device| {
            let info = bora_kernel::Port {
                id: device.id,
                mac: device.settings.mac,
                mtu: device.longest,
            };
            (device.ifindex, info)
        })
    }

    /// As the workers want them.
    pub(crate) fn of_workers(&self) -> Vlans {
        Vlans::new(self.iter().map(|device| Vlan {
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

fn device(
    (id, before): (PortId, VlanTotals),
    link: &Link,
    (port, tags): (&Port, Tags),
    mirror: &Mirror,
) -> VlanDevice {
    let more_tags = (tags.len() - vlan::HEADER_LEN) as u32;
    VlanDevice {
        id,
        name: link.name.clone(),
        ifindex: link.index,
        mtu: link.mtu,
        trunk: port.id,
        trunk_ifindex: port.ifindex,
        tags,
        longest: link.mtu.min(port.link.mtu.saturating_sub(more_tags)),
        before,
        settings: PortSettings {
            index: id.0,
            path: if link.up {
                port.settings.path
            } else {
                Path::Kernel
            },
            trunk: port.id.0,
            tags: tags.octets(),
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
