//! The packets a generator repeats.

use std::net::{Ipv4Addr, Ipv6Addr};

use bora_wire::checksum::{fill_transport_v4, fill_transport_v6};
use bora_wire::{EtherType, MacAddr, Protocol, ethernet, ipv4, ipv6};

/// UDP header and signature (see `xdp/tester.bpf.c`).
const UDP: usize = 8;
const SIGNATURE: usize = 18;
const ETHERNET: usize = 14;
const FCS: usize = 4;

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub enum Addresses {
    /// IPv4 source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 source and destination.
    V6(Ipv6Addr, Ipv6Addr),
}

/// Packets of one size.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The router's address on the link.
    pub next_hop: MacAddr,
    /// The sender's own.
    pub source: MacAddr,
    /// Internet addresses.
    pub addresses: Addresses,
    /// Frame length in octets, FCS included, as RFC 2544 counts; raised to what the headers need.
    pub frame_size: usize,
}

impl Stream {
    /// The frame without FCS. The UDP checksum is right and stays so whatever the signature says.
    pub fn frame(&self) -> Vec<u8> {
        let (ip_header, ethertype) = match self.addresses {
            Addresses::V4(..) => (20, EtherType::IPV4),
            Addresses::V6(..) => (40, EtherType::IPV6),
        };
        let least = ETHERNET + ip_header + UDP + SIGNATURE;
        let mut frame = vec![0; (self.frame_size.saturating_sub(FCS)).max(least)];
        let mut link = ethernet::Frame::new_unchecked(&mut frame[..]);
        link.set_dst(self.next_hop);
        link.set_src(self.source);
        link.set_ethertype(ethertype);
        let l3 = link.payload_mut();
        let l3_length = l3.len();
        fill_udp(&mut l3[ip_header..]);
        match self.addresses {
            Addresses::V4(source, destination) => {
                // a segment of the right length cannot be too short for its checksum
                let _ = fill_transport_v4(source, destination, Protocol::UDP, &mut l3[ip_header..]);
                let mut packet = ipv4::Packet::new_unchecked(l3);
                packet.set_header_len(ip_header);
                packet.set_total_len(l3_length as u16);
                packet.set_ttl(64);
                packet.set_protocol(Protocol::UDP);
                packet.set_src(source);
                packet.set_dst(destination);
                packet.fill_checksum();
            }
            Addresses::V6(source, destination) => {
                let _ = fill_transport_v6(source, destination, Protocol::UDP, &mut l3[ip_header..]);
                let mut packet = ipv6::Packet::new_unchecked(l3);
                packet.set_traffic_class_and_flow_label(0, 0);
                packet.set_payload_len((l3_length - ip_header) as u16);
                packet.set_next_header(Protocol::UDP);
                packet.set_hop_limit(64);
                packet.set_src(source);
                packet.set_dst(destination);
            }
        }
        frame
    }
}

/// UDP header with its checksum to come, and a signature whose words sum to 0xffff, as the
/// generator's balance keeps them.
fn fill_udp(segment: &mut [u8]) {
    let length = segment.len() as u16;
    segment[2..4].copy_from_slice(&9u16.to_be_bytes());
    segment[4..6].copy_from_slice(&length.to_be_bytes());
    segment[UDP..UDP + 2].copy_from_slice(&0xb07au16.to_be_bytes());
    segment[UDP + 2..UDP + 4].copy_from_slice(&0xffffu16.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(addresses: Addresses, frame_size: usize) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        Stream {
            next_hop: mac,
            source: mac,
            addresses,
            frame_size,
        }
        .frame()
    }

    #[test]
    fn frames_are_valid_packets() {
        let v4 = Addresses::V4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let frame = stream(v4, 64);
        assert_eq!(frame.len(), 60);
        let packet = ipv4::Packet::new_checked(&frame[14..]).unwrap();
        packet.verify_checksum().unwrap();

        let v6 = Addresses::V6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let frame = stream(v6, 64);
        assert_eq!(frame.len(), 80, "the least an IPv6 test packet can be");
        ipv6::Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!(stream(v6, 1518).len(), 1514);
    }
}
