//! The packets of the engine's benchmarks, 64 octets with FCS: UDP over IPv4, or IPv6 with nothing in it.

use std::net::Ipv4Addr;

use bora_wire::{MacAddr, udp};

/// Octets without FCS.
pub const FRAME: usize = 60;
/// The Ethernet address of all ports. testpmd's flowgen always sends to it.
pub const MAC: MacAddr = MacAddr([0, 1, 2, 3, 4, 1]);
/// DSCP of expedited forwarding (RFC 3246), a high class without configuration.
pub const EXPEDITED: u8 = 46;

/// Offset of the UDP source port.
const SOURCE_PORT: usize = 34;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// IPv4 destination.
    pub destination: u32,
    /// Number of the input it is for; it is the UDP source port.
    pub input: u16,
    /// Differentiated services code point.
    pub dscp: u8,
}

impl Packet {
    /// Its octets. There is no UDP checksum (RFC 768), so that the payload may change.
    pub fn octets(&self) -> [u8; FRAME] {
        let mut octets = [0; FRAME];
        let frame = udp::Frame {
            dst_mac: MAC,
            src_mac: MacAddr([2, 0, 0, 0, 0, 9]),
            tos: self.dscp << 2,
            src_port: self.input,
            dst_port: 9, // discard
            ..udp::Frame::new([198, 18, 0, 1], Ipv4Addr::from(self.destination))
        };
        frame.emit(&mut octets).expect("a frame holds its headers");
        octets
    }
}

/// One IPv6 packet to each of `count` consecutive destinations.
pub fn flows6(count: u32) -> Vec<[u8; FRAME]> {
    const NO_NEXT_HEADER: u8 = 59; // RFC 8200 4.7
    let packet = |number: u32| {
        let mut octets = [0; FRAME];
        octets[..6].copy_from_slice(&MAC.0);
        octets[12..14].copy_from_slice(&[0x86, 0xdd]);
        let header = &mut octets[14..54];
        header[0] = 6 << 4;
        header[4..8].copy_from_slice(&[0, (FRAME - 54) as u8, NO_NEXT_HEADER, 64]);
        header[8..10].copy_from_slice(&[0x20, 0x01]);
        header[24..26].copy_from_slice(&[0x20, 0x01]);
        header[36..40].copy_from_slice(&number.to_be_bytes());
        octets
    };
    (0..count).map(packet).collect()
}

/// The input a packet was for.
#[inline]
pub fn input_of(octets: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([
        octets[SOURCE_PORT],
        octets[SOURCE_PORT + 1],
    ]))
}

/// One packet for each of `count` flows of an input, with consecutive destinations from 10.0.0.0
/// on.
pub fn flows(count: u32, input: u16, dscp: u8) -> Vec<[u8; FRAME]> {
    let packet = |number| Packet {
        destination: 0x0a00_0000 + number,
        input,
        dscp,
    };
    (0..count).map(|number| packet(number).octets()).collect()
}
