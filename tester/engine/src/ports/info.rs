//! What reports say of a port.

use bora_linux::interface::Interface;
use bora_wire::MacAddr;

use super::spec::PortSpec;
use crate::result;

/// Bits a second of a link that exists only in memory, where the plan does not say otherwise.
pub const VIRTUAL_SPEED: f64 = 10e9;
/// Drivers that name a bus though their links exist only in memory.
const VIRTUAL_DRIVERS: [&str; 2] = ["tun", "virtio_net"];

/// A port as it was opened.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Its name in the plan.
    pub name: String,
    /// What it is: `af_xdp e0`.
    pub kind: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// How packets pass: `zero-copy`, `copy`, `copy, generic XDP`, …
    pub mode: &'static str,
    /// Receive queues.
    pub queues: usize,
    /// Longest frame, octets with Ethernet header and FCS, without VLAN tag.
    pub longest_frame: usize,
    /// Nominal speed, bits a second.
    pub speed: f64,
    /// Whether the link exists only in memory, so that its speed means nothing.
    pub is_virtual: bool,
    /// Linux's driver; empty where there is none.
    pub driver: String,
    /// The device's firmware; empty where there is none.
    pub firmware: String,
    /// Where the device is; empty where there is none.
    pub bus: String,
    /// Network namespace.
    pub netns: Option<String>,
    /// CPU of its thread, if it was chosen.
    pub cpu: Option<u32>,
}

impl PortInfo {
    /// A port without an interface of Linux; `index` makes its Ethernet address.
    pub(super) fn without_interface(spec: &PortSpec, index: usize, mode: &'static str) -> Self {
        let [.., high, low] = (index as u64).to_be_bytes();
        Self {
            name: spec.name.clone(),
            kind: spec.kind.to_string(),
            // locally administered
            mac: MacAddr([0x02, 0xb0, 0x7a, 0, high, low]),
            mode,
            queues: 1,
            longest_frame: 0,
            speed: spec.speed.unwrap_or(VIRTUAL_SPEED),
            is_virtual: true,
            driver: String::new(),
            firmware: String::new(),
            bus: String::new(),
            netns: None,
            cpu: spec.cpu,
        }
    }

    /// A port on an interface of Linux.
    pub(super) fn on_interface(spec: &PortSpec, device: Interface, mode: &'static str) -> Self {
        let is_virtual = device.bus.is_empty() || VIRTUAL_DRIVERS.contains(&device.driver.as_str());
        let nominal = device.speed.map_or(VIRTUAL_SPEED, |speed| speed as f64);
        Self {
            mac: MacAddr(device.mac),
            queues: device.queues as usize,
            longest_frame: device.mtu as usize + super::ETHERNET_AND_FCS,
            speed: spec.speed.unwrap_or(nominal),
            is_virtual,
            driver: device.driver,
            firmware: device.firmware,
            bus: device.bus,
            netns: spec.netns.clone(),
            ..Self::without_interface(spec, 0, mode)
        }
    }

    /// The record that reports keep in JSON.
    pub fn record(&self) -> result::Port {
        let mut details = vec![
            ("mode".to_owned(), self.mode.to_owned()),
            ("queues".to_owned(), self.queues.to_string()),
            ("address".to_owned(), self.mac.to_string()),
        ];
        let known = [
            ("driver", &self.driver),
            ("firmware", &self.firmware),
            ("bus", &self.bus),
        ];
        let known = known.into_iter().filter(|(_, value)| !value.is_empty());
        details.extend(known.map(|(name, value)| (name.to_owned(), value.clone())));
        if let Some(netns) = &self.netns {
            details.push(("namespace".to_owned(), netns.clone()));
        }
        if let Some(cpu) = self.cpu {
            details.push(("CPU".to_owned(), cpu.to_string()));
        }
        result::Port {
            name: self.name.clone(),
            kind: self.kind.clone(),
            details,
            speed: self.speed,
            is_virtual: self.is_virtual,
        }
    }
}
