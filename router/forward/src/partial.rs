//! Checksums that a sender left to others (Linux CHECKSUM_PARTIAL): the field holds just the sum of the
//! pseudo-header.

use bora_wire::ethernet::{EtherType, Frame};
use bora_wire::{Protocol, checksum, ipv4, ipv6};

/// Completes the TCP or UDP checksum of an Ethernet frame, if its sender left it.
pub fn complete_checksum(frame: &mut [u8]) {
    let mut frame = Frame::new_unchecked(frame);
    match frame.ethertype() {
        EtherType::IPV4 => ipv4::Packet::new_checked(frame.payload_mut()).map_or((), complete_ipv4),
        EtherType::IPV6 => ipv6::Packet::new_checked(frame.payload_mut()).map_or((), complete_ipv6),
        _ => {}
    }
}

pub(crate) fn complete_ipv4(mut packet: ipv4::Packet<&mut [u8]>) {
    if !packet.is_fragment() {
        let (protocol, length) = (packet.protocol(), packet.payload().len() as u16);
        let pseudo = checksum::pseudo_v4(packet.src(), packet.dst(), protocol, length);
        complete(pseudo, protocol, packet.payload_mut());
    }
}

pub(crate) fn complete_ipv6(mut packet: ipv6::Packet<&mut [u8]>) {
    let (protocol, length) = (packet.next_header(), packet.payload().len() as u32);
    let pseudo = checksum::pseudo_v6(packet.src(), packet.dst(), protocol, length);
    complete(pseudo, protocol, packet.payload_mut());
}

/// One right checksum in 65536 looks like an incomplete one, so it is verified before it is changed.
fn complete(pseudo: checksum::Sum, protocol: Protocol, segment: &mut [u8]) {
    if checksum::looks_partial(pseudo, protocol, segment)
        && checksum::transport(pseudo, protocol, segment) == checksum::Transport::Partial
    {
        // a segment too short for its own header is left as it is
        let _ = checksum::fill_transport(pseudo, protocol, segment);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Ethernet, IPv4, UDP with four octets.
    fn udp(checksum: [u8; 2]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([
            8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1,
        ]);
        frame.extend([
            0x12,
            0x34,
            0x56,
            0x78,
            0,
            12,
            checksum[0],
            checksum[1],
            1,
            2,
            3,
            4,
        ]);
        frame
    }

    fn state(frame: &[u8]) -> checksum::Transport {
        let hosts = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1));
        checksum::transport_v4(hosts.0, hosts.1, Protocol::UDP, &frame[34..])
    }

    #[test]
    fn a_checksum_that_was_left_is_completed_and_no_other() {
        // 10.0.0.1 + 10.0.1.1 + protocol 17 + length 12, folded
        let mut left = udp([0x15, 0x1f]);
        assert_eq!(state(&left), checksum::Transport::Partial);
        complete_checksum(&mut left);
        assert_eq!(state(&left), checksum::Transport::Valid);
        let mut wrong = udp([0xde, 0xad]);
        complete_checksum(&mut wrong);
        assert_eq!(wrong, udp([0xde, 0xad]), "Linux counts it");
        for length in 0..left.len() {
            complete_checksum(&mut left[..length].to_vec());
        }
    }
}
