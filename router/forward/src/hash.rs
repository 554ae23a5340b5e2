//! The hash that spreads flows over workers. Paths are chosen by another ([`crate::multipath`]), so that
//! the flows of one worker still use all paths.

use bora_wire::{Protocol, ipv4, ipv6};

use crate::Family;

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// The hash of addresses, protocol and ports; fragments without ports, so that all of a packet's
/// fragments go to one worker.
pub(crate) fn hash_of(octets: &[u8], family: Family) -> u32 {
    let octets = octets.get(ETHERNET..).unwrap_or_default();
    match family {
        Family::V4 => {
            let packet = ipv4::Packet::new_unchecked(octets);
            let protocol = packet.protocol();
            let ports = match packet.is_fragment() {
                true => 0,
                false => flow_ports(protocol, packet.payload()),
            };
            let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
            flow_hash(source.into(), destination.into(), protocol, ports)
        }
        Family::V6 => {
            let packet = ipv6::Packet::new_unchecked(octets);
            let protocol = packet.next_header();
            let ports = flow_ports(protocol, packet.payload());
            let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
            flow_hash(source, destination, protocol, ports)
        }
    }
}

/// Source and destination port as one number, where the protocol has them.
fn flow_ports(protocol: Protocol, payload: &[u8]) -> u32 {
    match payload {
        &[a, b, c, d, ..] if protocol.has_ports() => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Hashes a flow's fields to 32 bits; equal fields give equal hashes on every worker.
#[inline]
pub fn flow_hash(source: u128, destination: u128, protocol: Protocol, ports: u32) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = K;
    for word in [
        source as u64,
        (source >> 64) as u64,
        destination as u64,
        (destination >> 64) as u64,
        u64::from(protocol.0),
        u64::from(ports),
    ] {
        // one round of "folded multiply": both halves of the 128-bit product matter
        let product = u128::from(state ^ word) * u128::from(K ^ state.rotate_left(32) | 1);
        state = (product as u64) ^ (product >> 64) as u64;
    }
    (state >> 32) as u32 ^ state as u32
}
