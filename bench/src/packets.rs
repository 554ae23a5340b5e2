//! The packets of the engine's benchmarks: UDP over IPv4, 64 octets with FCS.

use bora_wire::MacAddr;

/// Octets without FCS.
pub const FRAME: usize = 60;
/// The Ethernet address of all ports: where testpmd's flowgen sends, which has no option for it.
pub const MAC: MacAddr = MacAddr([0, 1, 2, 3, 4, 1]);
/// DSCP of expedited forwarding (RFC 3246), a high class without configuration.
pub const EXPEDITED: u8 = 46;

/// Where the UDP source port is.
const SOURCE_PORT: usize = 34;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// IPv4 destination.
    pub destination: u32,
    /// Which input it is for: the UDP source port.
    pub input: u16,
    /// Differentiated services code point.
    pub dscp: u8,
}

impl Packet {
    /// Its octets. UDP goes without checksum (RFC 768), so that the payload may change.
    pub fn octets(&self) -> [u8; FRAME] {
        let mut octets = [0; FRAME];
        octets[..6].copy_from_slice(&MAC.0);
        octets[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        octets[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        octets[15] = self.dscp << 2;
        octets[16..18].copy_from_slice(&((FRAME - 14) as u16).to_be_bytes());
        octets[22..24].copy_from_slice(&[64, 17]);
        octets[26..30].copy_from_slice(&[198, 18, 0, 1]);
        octets[30..34].copy_from_slice(&self.destination.to_be_bytes());
        octets[SOURCE_PORT..SOURCE_PORT + 2].copy_from_slice(&self.input.to_be_bytes());
        octets[36..38].copy_from_slice(&9u16.to_be_bytes()); // discard
        octets[38..40].copy_from_slice(&((FRAME - 34) as u16).to_be_bytes());
        let sum: u32 = octets[14..34]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        octets[24..26].copy_from_slice(&sum.to_be_bytes());
        octets
    }
}

/// The input a packet was for.
#[inline]
pub fn input_of(octets: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([
        octets[SOURCE_PORT],
        octets[SOURCE_PORT + 1],
    ]))
}

/// As many flows of one input: destinations one after the other from 10.0.0.0 on.
pub fn flows(count: u32, input: u16, dscp: u8) -> Vec<[u8; FRAME]> {
    let packet = |number| Packet {
        destination: 0x0a00_0000 + number,
        input,
        dscp,
    };
    (0..count).map(|number| packet(number).octets()).collect()
}
