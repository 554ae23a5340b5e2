//! GRE tunnels (RFC 2784) for the engine's benchmarks: the ways into them, their devices, and what comes out of one.

use bora_fib::Encapsulation;
use bora_forward::{Device, Devices, Endpoint};
use bora_wire::{MacAddr, ipv4};

use crate::devices;
use crate::packets::{FRAME, MAC};

/// The near end, 192.0.2.1; behind the port.
pub const NEAR: u32 = 0xc000_0201;
/// The far ends, 192.0.2.2 and 192.0.2.3.
pub const FAR: [u32; 2] = [0xc000_0202, 0xc000_0203];
const GRE: u8 = 47;
/// The header of GRE without options, around IPv4.
const HEADER: [u8; 4] = [0, 0, 0x08, 0x00];

/// An IPv4 header between the ends, without lengths and checksum.
fn outer(from: u32, to: u32, ttl: u8) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, ttl, GRE, 0, 0];
    header.extend(from.to_be_bytes());
    header.extend(to.to_be_bytes());
    header
}

/// The way into the first or the second tunnel.
pub fn way(number: u16) -> Encapsulation {
    let outer = outer(NEAR, FAR[usize::from(number)], 64);
    let headers = [outer, HEADER.to_vec()].concat();
    let device = devices::device(number, MacAddr::ZERO).ingress.port;
    Encapsulation::new(device, 1476, &headers, None).expect("headers that begin with IPv4")
}

/// Both tunnels.
pub fn devices() -> Devices {
    Devices::new([0, 1].map(|number| Device {
        endpoints: vec![Endpoint::Addresses {
            protocol: GRE,
            source: FAR[usize::from(number)],
            destination: NEAR,
            key: None,
        }],
        ..devices::device(number, MacAddr::ZERO)
    }))
}

/// One packet of the first tunnel around each of `count` packets to consecutive destinations from 10.0.0.0 on.
pub fn wrapped(count: u32) -> Vec<[u8; FRAME]> {
    const INSIDE: usize = 14 + 20 + HEADER.len();
    const NO_PROTOCOL: u8 = 59;
    let packet = |number: u32| {
        let mut octets = [0; FRAME];
        octets[..6].copy_from_slice(&MAC.0);
        octets[12..14].copy_from_slice(&[0x08, 0x00]);
        octets[14..34].copy_from_slice(&outer(FAR[0], NEAR, 64));
        octets[34..INSIDE].copy_from_slice(&HEADER);
        let header = [
            0x45,
            0,
            0,
            0,
            0,
            0,
            0x40,
            0,
            64,
            NO_PROTOCOL,
            0,
            0,
            198,
            18,
            0,
            1,
        ];
        octets[INSIDE..INSIDE + 16].copy_from_slice(&header);
        octets[INSIDE + 16..INSIDE + 20].copy_from_slice(&(0x0a00_0000 + number).to_be_bytes());
        for (start, end) in [(14, 34), (INSIDE, INSIDE + 20)] {
            let length = (FRAME - start) as u16;
            octets[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
            ipv4::Packet::new_unchecked(&mut octets[start..end]).fill_checksum();
        }
        octets
    };
    (0..count).map(packet).collect()
}
