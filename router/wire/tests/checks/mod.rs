//! What must hold for arbitrary bytes, one function a header. The property tests call these with
//! shaped and random input, the fuzz targets with whatever the fuzzer finds.
//!
//! Each asks every question a view answers, and panics if two answers do not agree. An error says
//! that the header was refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use bora_wire::checksum::{self, Transport};
use bora_wire::ethernet::{self, Frame};
use bora_wire::vlan::{self, Untagged};
use bora_wire::{Error, EtherType, Protocol, arp, ipv4, ipv6, ndisc, udp};

/// An Ethernet header, and the tags behind it.
pub fn ethernet(data: &[u8]) -> Result<(), Error> {
    let frame = Frame::new_checked(data)?;
    assert_eq!(frame.payload(), &data[ethernet::HEADER_LEN..]);
    let tag = match frame.ethertype() {
        EtherType::VLAN => vlan::Packet::new_checked(frame.payload()).ok(),
        _ => None,
    };
    let repr = ethernet::Repr {
        dst: frame.dst(),
        src: frame.src(),
        tag: tag.map(|tag| tag.tci()),
        ethertype: tag.map_or(frame.ethertype(), |tag| tag.ethertype()),
    };
    let mut out = vec![0xa5; repr.header_len()];
    repr.emit(&mut out)?;
    assert_eq!(out, data[..out.len()]);
    if let Ok(untagged) = Untagged::find(&frame) {
        assert!(untagged.offset <= data.len());
        assert_eq!(
            untagged.tci.is_some(),
            untagged.offset > ethernet::HEADER_LEN
        );
        assert_eq!(
            data[untagged.offset - 2..untagged.offset],
            untagged.ethertype.0.to_be_bytes()
        );
    }
    Ok(())
}

/// An ARP packet.
pub fn arp(data: &[u8]) -> Result<(), Error> {
    let repr = arp::Repr::parse(data)?;
    let mut out = [0; arp::LEN];
    repr.emit(&mut out).unwrap();
    assert_eq!(out, data[..arp::LEN]);
    Ok(())
}

/// An IPv4 packet, its checksum and the step a router does.
pub fn ipv4(data: &[u8]) -> Result<(), Error> {
    let cut_short = ipv4::Packet::new_unchecked(data);
    let _ = (cut_short.payload().len(), cut_short.verify_checksum());

    let mut packet = ipv4::Packet::new_checked(data.to_vec())?;
    let (header_len, total_len) = (packet.header_len(), usize::from(packet.total_len()));
    assert_eq!(packet.payload(), &data[header_len..total_len]);
    packet.fill_checksum();
    assert_eq!(packet.verify_checksum(), Ok(()));
    let ttl = packet.ttl();
    packet.decrement_ttl();
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert_eq!(packet.ttl(), ttl.saturating_sub(1));
    Ok(())
}

/// An IPv6 packet and the walk over its extension headers.
pub fn ipv6(data: &[u8]) -> Result<(), Error> {
    let _ = ipv6::Packet::new_unchecked(data).upper_layer();
    let packet = ipv6::Packet::new_checked(data)?;
    assert_eq!(
        packet.payload(),
        &data[ipv6::HEADER_LEN..packet.total_len()]
    );
    let upper = packet.upper_layer()?;
    assert!(upper.offset <= packet.payload().len());
    assert!(
        upper
            .fragment_offset
            .is_none_or(|offset| offset.is_multiple_of(8))
    );
    Ok(())
}

/// A neighbour discovery message between two addresses that are all zero, once its checksum is
/// right.
pub fn ndisc(data: &[u8]) -> Result<(), Error> {
    let nobody = Ipv6Addr::UNSPECIFIED;
    let mut bytes = data.to_vec();
    checksum::fill_transport_v6(nobody, nobody, Protocol::ICMPV6, &mut bytes)?;
    let repr = ndisc::Repr::parse(nobody, nobody, &bytes)?;
    let mut out = [0xa5; ndisc::LEN];
    repr.emit(nobody, nobody, &mut out).unwrap();
    assert_eq!(ndisc::Repr::parse(nobody, nobody, &out), Ok(repr));
    Ok(())
}

/// A UDP datagram.
pub fn udp(data: &[u8]) -> Result<(), Error> {
    let packet = udp::Packet::new_checked(data)?;
    let len = usize::from(packet.len());
    assert_eq!(packet.payload(), &data[udp::HEADER_LEN..len]);
    let mut out = data[..len].to_vec();
    let repr = udp::Repr {
        src_port: packet.src_port(),
        dst_port: packet.dst_port(),
    };
    repr.emit(&mut out).unwrap();
    assert_eq!((&out[..6], &out[8..]), (&data[..6], &data[8..len]));
    transport(Protocol::UDP, &mut out);
    Ok(())
}

/// From a partial checksum to a valid one.
fn transport(protocol: Protocol, segment: &mut [u8]) {
    let nobody = Ipv4Addr::UNSPECIFIED;
    let pseudo = checksum::pseudo_v4(nobody, nobody, protocol, segment.len() as u16);
    let at = checksum::transport_offset(protocol).unwrap();
    segment[at..at + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
    assert!(checksum::looks_partial(pseudo, protocol, segment));
    let seen = checksum::transport(pseudo, protocol, segment);
    assert!(
        matches!(seen, Transport::Partial | Transport::Valid),
        "{seen:?}"
    );
    checksum::fill_transport(pseudo, protocol, segment).unwrap();
    assert_eq!(
        checksum::transport(pseudo, protocol, segment),
        Transport::Valid
    );
}

/// A whole frame, from the Ethernet header inwards; an error is that of the first header refused.
pub fn frame(data: &[u8]) -> Result<(), Error> {
    ethernet(data)?;
    let untagged = Untagged::find(&Frame::new_checked(data)?)?;
    let payload = &data[untagged.offset..];
    let (protocol, segment) = match untagged.ethertype {
        EtherType::ARP => return arp(payload),
        EtherType::IPV4 => {
            ipv4(payload)?;
            let packet = ipv4::Packet::new_checked(payload)?;
            (packet.protocol(), packet.payload().to_vec())
        }
        EtherType::IPV6 => {
            ipv6(payload)?;
            let packet = ipv6::Packet::new_checked(payload)?;
            let upper = packet.upper_layer()?;
            (upper.protocol, packet.payload()[upper.offset..].to_vec())
        }
        _ => return Ok(()),
    };
    match protocol {
        Protocol::UDP => udp(&segment),
        Protocol::ICMPV6 => ndisc(&segment),
        _ => Ok(()),
    }
}
