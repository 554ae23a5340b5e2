//! VLAN devices (IEEE 802.1Q) on the first port, for the engine's benchmarks, and their packets.

use bora_fib::PortId;
use bora_forward::{Device, Devices, Ports, Tags};
use bora_wire::ipv4;

use crate::devices;
use crate::packets::{self, FRAME, MAC};

/// The VLAN of the first device.
const FIRST: u16 = 100;
const TAG: usize = 4;

/// `count` devices of consecutive VLANs.
pub fn devices(count: u16) -> Devices {
    Devices::new((0..count).map(|number| Device {
        ports: Ports::one(PortId(0)),
        tags: Tags::one(0x8100, FIRST + number),
        ..devices::device(number, MAC)
    }))
}

/// [`packets::flows`] with tags of this many devices in turn; the IP packets are as much shorter as a tag is long.
pub fn tagged(count: u32, vlans: u16) -> Vec<[u8; FRAME]> {
    const IP: usize = 14 + TAG;
    let put = |(number, frame): (usize, [u8; FRAME])| {
        let [high, low] = (FIRST + (number % usize::from(vlans)) as u16).to_be_bytes();
        let mut octets = [0; FRAME];
        octets[..12].copy_from_slice(&frame[..12]);
        octets[12..16].copy_from_slice(&[0x81, 0x00, high, low]);
        octets[16..].copy_from_slice(&frame[12..FRAME - TAG]);
        for (at, length) in [(IP + 2, FRAME - IP), (IP + 24, FRAME - IP - 20)] {
            octets[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        }
        ipv4::Packet::new_unchecked(&mut octets[IP..IP + 20]).fill_checksum();
        octets
    };
    let flows = packets::flows(count, 0, 0).into_iter();
    flows.enumerate().map(put).collect()
}
