//! Tables, settings and packets for workers on memory ports.
#![allow(dead_code)] // each test uses its part

pub(crate) mod everything;

use bora_fib::{Adjacency, FibConfig, FibHandle, FibWriter, NextHop, PortId};
use bora_forward::{Ingress, RpFilter};
use bora_wire::{MacAddr, ipv4};

/// The Ethernet address of all ports.
pub(crate) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Tables of these prefixes and the ports they lead to.
pub(crate) fn tables(routes: &[(&str, u16)]) -> (FibWriter, FibHandle) {
    let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
    for &(prefix, port) in routes {
        let hop = NextHop::Forward(Adjacency {
            port: PortId(port),
            mtu: 1500,
            l2: [2; 14],
            unconfirmed: false,
        });
        let hop = writer.add_next_hop(hop).unwrap();
        match prefix.contains(':') {
            true => writer.insert6(prefix.parse().unwrap(), hop).unwrap(),
            false => writer.insert4(prefix.parse().unwrap(), hop).unwrap(),
        };
    }
    (writer, handle)
}

/// The settings of a port that forwards everything.
pub(crate) fn ingress(port: u16) -> Ingress {
    Ingress {
        port: PortId(port),
        mac: MAC,
        forward4: true,
        forward6: true,
        rp_filter: RpFilter::Off,
        partial_checksum: false,
        send_redirects4: false,
        gate: None,
    }
}

/// A UDP packet of 60 octets from 198.18.0.1.
pub(crate) fn ipv4_packet(destination: u32, tos: u8, destination_port: u16) -> Vec<u8> {
    let mut octets = vec![0; 60];
    octets[..6].copy_from_slice(&MAC.0);
    octets[12..16].copy_from_slice(&[0x08, 0x00, 0x45, tos]);
    octets[16..18].copy_from_slice(&46u16.to_be_bytes());
    octets[22..24].copy_from_slice(&[64, 17]);
    octets[26..30].copy_from_slice(&[198, 18, 0, 1]);
    octets[30..34].copy_from_slice(&destination.to_be_bytes());
    octets[36..38].copy_from_slice(&destination_port.to_be_bytes());
    octets[38..40].copy_from_slice(&26u16.to_be_bytes());
    ipv4::Packet::new_unchecked(&mut octets[14..]).fill_checksum();
    octets
}

/// A UDP packet of 62 octets from 2001:db8::1 to 2001:db8::2.
pub(crate) fn ipv6_packet(traffic_class: u8, destination_port: u16) -> Vec<u8> {
    let mut octets = vec![0; 62];
    octets[..6].copy_from_slice(&MAC.0);
    octets[12..14].copy_from_slice(&[0x86, 0xdd]);
    octets[14..16].copy_from_slice(&(0x6000 | u16::from(traffic_class) << 4).to_be_bytes());
    octets[18..22].copy_from_slice(&[0, 8, 17, 64]);
    for (at, last) in [(22, 1), (38, 2)] {
        octets[at..at + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        octets[at + 15] = last;
    }
    octets[56..58].copy_from_slice(&destination_port.to_be_bytes());
    octets[58..60].copy_from_slice(&8u16.to_be_bytes());
    octets
}
