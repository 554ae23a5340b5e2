//! What tells one flow from another: addresses, protocol, ports.

use std::net::IpAddr;

use bora_capture::ip_offset;
use bora_wire::{EtherType, Protocol, ipv4, ipv6, udp};
use serde::{Deserialize, Serialize};

/// What tells one conversation from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol, or what follows IPv6's fixed header.
    pub protocol: u8,
    /// Source and destination port (TCP, UDP and those like them).
    pub ports: Option<(u16, u16)>,
}

/// Addresses and ports of a frame with up to two tags; `None` if it is no IP or too short.
pub(crate) fn flow_of(frame: &[u8]) -> Option<Flow> {
    let at = ip_offset(frame)?;
    let (packet, kind) = (
        frame.get(at..)?,
        u16::from_be_bytes([frame[at - 2], frame[at - 1]]),
    );
    let (source, destination, protocol, payload): (IpAddr, IpAddr, u8, usize);
    if kind == EtherType::IPV4.0 {
        let ip = ipv4::Packet::new_unchecked(packet);
        let first = packet.get(..20)?;
        (source, destination) = (ip.src().into(), ip.dst().into());
        protocol = ip.protocol().0;
        let is_later_fragment = u16::from_be_bytes([first[6], first[7]]) & 0x1fff != 0;
        payload = match is_later_fragment {
            true => packet.len(),
            false => usize::from(first[0] & 0xf) * 4,
        };
    } else {
        packet.get(..40)?;
        let ip = ipv6::Packet::new_unchecked(packet);
        (source, destination) = (ip.src().into(), ip.dst().into());
        protocol = ip.next_header().0;
        payload = 40;
    }
    let has_ports = [Protocol::TCP, Protocol::UDP, Protocol(132), Protocol(136)]
        .iter()
        .any(|one| one.0 == protocol);
    let ports = packet.get(payload..payload + 4).filter(|_| has_ports);
    Some(Flow {
        source,
        destination,
        protocol,
        ports: ports.map(|octets| {
            let header = udp::Packet::new_unchecked(octets);
            (header.src_port(), header.dst_port())
        }),
    })
}
