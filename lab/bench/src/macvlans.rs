//! Macvlans on the first port, for the engine's benchmarks, and their packets.

use bora_fib::PortId;
use bora_forward::{Device, Devices, Ports};
use bora_wire::MacAddr;

use crate::devices;
use crate::packets::{self, FRAME};

fn mac(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// `count` macvlans.
pub fn devices(count: u16) -> Devices {
    Devices::new((0..count).map(|number| Device {
        ports: Ports::one(PortId(0)),
        is_station: true,
        ..devices::device(number, mac(number))
    }))
}

/// [`packets::flows`], for this many macvlans in turn.
pub fn addressed(count: u32, macvlans: u16) -> Vec<[u8; FRAME]> {
    let mut all = packets::flows(count, 0, 0);
    for (number, octets) in all.iter_mut().enumerate() {
        octets[..6].copy_from_slice(&mac((number % usize::from(macvlans)) as u16).0);
    }
    all
}
