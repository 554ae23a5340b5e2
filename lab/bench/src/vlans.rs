//! A VLAN device (IEEE 802.1Q) for the engine's benchmarks, on the first port, and its packets.

use bora_fib::PortId;
use bora_forward::{Device, Devices, Ports, Tags};
use bora_wire::ipv4;

use crate::devices;
use crate::packets::{self, FRAME, MAC};

const TAG: [u8; 4] = [0x81, 0x00, 0, 100];

/// The device, by which packets come in and leave.
pub fn devices() -> Devices {
    Devices::new([Device {
        ports: Ports::one(PortId(0)),
        tags: Tags::one(0x8100, 100),
        ..devices::device(MAC)
    }])
}

/// [`packets::flows`] with its tag; the IP packets are as much shorter as a tag is long.
pub fn tagged(count: u32) -> Vec<[u8; FRAME]> {
    const IP: usize = 14 + TAG.len();
    let put = |frame: [u8; FRAME]| {
        let mut octets = [0; FRAME];
        octets[..12].copy_from_slice(&frame[..12]);
        octets[12..16].copy_from_slice(&TAG);
        octets[16..].copy_from_slice(&frame[12..FRAME - TAG.len()]);
        for (at, length) in [(IP + 2, FRAME - IP), (IP + 24, FRAME - IP - 20)] {
            octets[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        }
        ipv4::Packet::new_unchecked(&mut octets[IP..IP + 20]).fill_checksum();
        octets
    };
    packets::flows(count, 0, 0).into_iter().map(put).collect()
}
