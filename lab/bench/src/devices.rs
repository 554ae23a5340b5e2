//! A device of the engine's benchmarks, the only one.

use bora_contract::MAX_PORTS;
use bora_fib::PortId;
use bora_forward::{Device, Gate, Ingress, Ports, Priorities, Tags};
use bora_wire::MacAddr;

/// Its number.
pub const DEVICE: PortId = PortId(MAX_PORTS as u16);

/// It is up, on no ports and without tags.
pub fn device(mac: MacAddr) -> Device {
    let gate = Gate {
        up: true,
        ..Gate::default()
    };
    Device {
        ingress: Ingress {
            gate: Some(gate),
            ..Ingress::new(DEVICE, mac)
        },
        ports: Ports::default(),
        tags: Tags::NONE,
        priorities: Priorities::default(),
        is_station: false,
        endpoints: Vec::new(),
        only_from: None,
    }
}
