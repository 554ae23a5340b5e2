//! Devices of the engine's benchmarks.

use bora_contract::MAX_PORTS;
use bora_fib::PortId;
use bora_forward::{Device, Ingress, Ports, Priorities, Tags};
use bora_wire::MacAddr;

/// The number of the first one.
pub const DEVICE: PortId = PortId(MAX_PORTS as u16);

/// The device with this number, the first one being 0. It is on no ports and without tags, and what is below it has an XDP
/// program, as the ports of the benchmarks have.
pub fn device(number: u16, mac: MacAddr) -> Device {
    Device {
        ingress: Ingress::new(PortId(DEVICE.0 + number), mac),
        ports: Ports::default(),
        tags: Tags::NONE,
        priorities: Priorities::default(),
        is_station: false,
        endpoints: Vec::new(),
        only_from: None,
    }
}
