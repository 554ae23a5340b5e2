//! What must hold for arbitrary bytes, one function a header. The property tests call these with
//! shaped and random input, the fuzz targets with whatever the fuzzer finds.
//!
//! Each asks every question a view answers, builds the packet again from its values, and panics
//! if something does not agree. An error says that the header was refused.

use bora_wire::checksum::{self, Transport};
use bora_wire::ethernet::Frame;
use bora_wire::vlan::{self, Untagged};
use bora_wire::{Error, EtherType, Flow, Protocol};
use bora_wire::{arp, ethernet, icmp, icmpv6, ipv4, ipv6, ndisc, tcp, udp};

/// An Ethernet header, and the tags behind it.
pub fn ethernet(data: &[u8]) -> Result<(), Error> {
    let _ = Frame::new_unchecked(data).to_string();
    let frame = Frame::new_checked(data)?;
    assert_eq!(frame.payload(), &data[ethernet::HEADER_LEN..]);
    let mut out = [0; ethernet::HEADER_LEN];
    ethernet::Repr::parse(&frame).emit(&mut out).unwrap();
    assert_eq!(out, data[..ethernet::HEADER_LEN]);
    if let Ok(untagged) = Untagged::find(&frame) {
        assert!(untagged.offset <= data.len());
        assert_eq!(
            data[untagged.offset - 2..untagged.offset],
            untagged.ethertype.0.to_be_bytes()
        );
    }
    Ok(())
}

/// A VLAN tag.
pub fn vlan(data: &[u8]) -> Result<(), Error> {
    let _ = vlan::Packet::new_unchecked(data).to_string();
    let packet = vlan::Packet::new_checked(data)?;
    let tci = packet.tci();
    assert_eq!(vlan::Tci::new(tci.pcp(), tci.dei(), tci.vid()), tci);
    assert_eq!(packet.payload(), &data[vlan::HEADER_LEN..]);
    let mut out = [0; vlan::HEADER_LEN];
    vlan::Repr::parse(&packet).emit(&mut out).unwrap();
    assert_eq!(out, data[..vlan::HEADER_LEN]);
    Ok(())
}

/// An ARP packet.
pub fn arp(data: &[u8]) -> Result<(), Error> {
    let _ = arp::Packet::new_unchecked(data).to_string();
    let packet = arp::Packet::new_checked(data)?;
    let mut out = [0; arp::LEN];
    arp::Repr::parse(&packet).emit(&mut out).unwrap();
    assert_eq!(out, data[..arp::LEN]);
    Ok(())
}

/// An IPv4 packet, its options, its checksum and the step a router does.
pub fn ipv4(data: &[u8]) -> Result<(), Error> {
    let cut_short = ipv4::Packet::new_unchecked(data);
    let _ = (
        cut_short.to_string(),
        cut_short.options().count(),
        cut_short.payload().len(),
    );
    let _ = (cut_short.verify_checksum(), Flow::of_ipv4(&cut_short));

    let mut packet = ipv4::Packet::new_checked(data.to_vec())?;
    let (header_len, total_len) = (packet.header_len(), usize::from(packet.total_len()));
    assert_eq!(packet.payload(), &data[header_len..total_len]);
    let bytes: usize = packet
        .options()
        .flatten()
        .map(|option| option.bytes.len())
        .sum();
    assert!(bytes <= packet.option_bytes().len());
    assert!(packet.options().count() <= 41);

    packet.fill_checksum();
    assert_eq!(packet.verify_checksum(), Ok(()));
    let ttl = packet.ttl();
    packet.decrement_ttl();
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert_eq!(packet.ttl(), ttl.saturating_sub(1));

    // The reserved flag is not ours to send (RFC 791 3.1): everything else comes back.
    let mut bytes = packet.into_inner();
    bytes[6] &= 0x7f;
    let mut packet = ipv4::Packet::new_checked(bytes)?;
    packet.fill_checksum();
    let repr = ipv4::Repr::parse(&packet)?;
    let mut out = vec![0xa5; total_len];
    repr.emit(&mut out).unwrap();
    assert_eq!(
        ipv4::Repr::parse(&ipv4::Packet::new_checked(&out)?),
        Ok(repr)
    );
    assert_eq!(out[..header_len], packet.into_inner()[..header_len]);
    Ok(())
}

/// An IPv6 packet and the walk over its extension headers.
pub fn ipv6(data: &[u8]) -> Result<(), Error> {
    let cut_short = ipv6::Packet::new_unchecked(data);
    let _ = (
        cut_short.to_string(),
        cut_short.upper_layer(),
        Flow::of_ipv6(&cut_short),
    );

    let packet = ipv6::Packet::new_checked(data)?;
    let total_len = packet.total_len();
    assert_eq!(packet.payload(), &data[ipv6::HEADER_LEN..total_len]);
    let repr = ipv6::Repr::parse(&packet);
    let mut out = vec![0xa5; total_len];
    repr.emit(&mut out).unwrap();
    assert_eq!(out[..ipv6::HEADER_LEN], data[..ipv6::HEADER_LEN]);
    let upper = packet.upper_layer()?;
    assert!(upper.offset <= packet.payload().len());
    assert!(
        upper
            .fragment
            .is_none_or(|fragment| fragment.offset.is_multiple_of(8))
    );
    assert_eq!(Flow::of_ipv6(&packet)?.protocol, upper.protocol);
    Ok(())
}

/// An ICMP message.
pub fn icmp(data: &[u8]) -> Result<(), Error> {
    let _ = icmp::Packet::new_unchecked(data).to_string();
    let mut packet = icmp::Packet::new_checked(data.to_vec())?;
    packet.fill_checksum();
    let repr = icmp::Repr::parse(&packet)?;
    let mut out = vec![0xa5; repr.len()];
    repr.emit(&mut out).unwrap();
    assert_eq!(
        icmp::Repr::parse(&icmp::Packet::new_checked(&out)?),
        Ok(repr)
    );
    Ok(())
}

/// An ICMPv6 message between two addresses that are all zero.
pub fn icmpv6(data: &[u8]) -> Result<(), Error> {
    let _ = icmpv6::Packet::new_unchecked(data).to_string();
    let mut bytes = data.to_vec();
    let pseudo = checksum::Sum::ZERO.add_u16(58).add_u32(data.len() as u32);
    icmpv6::Packet::new_checked(data)?;
    checksum::fill_transport(pseudo, Protocol::ICMPV6, &mut bytes)?;
    let packet = icmpv6::Packet::new_checked(&bytes)?;
    let repr = icmpv6::Repr::parse(&packet, pseudo)?;
    let mut out = vec![0xa5; repr.len()];
    repr.emit(&mut out, pseudo).unwrap();
    assert_eq!(
        icmpv6::Repr::parse(&icmpv6::Packet::new_checked(&out)?, pseudo),
        Ok(repr)
    );
    Ok(())
}

/// A neighbour discovery message.
pub fn ndisc(data: &[u8]) -> Result<(), Error> {
    let questions = |packet: ndisc::Packet<&[u8]>| {
        let _ = (packet.to_string(), packet.target(), packet.destination());
        let _ = (packet.neighbour_flags(), packet.router_flags());
        let _ = (packet.advertised_hop_limit(), packet.router_lifetime());
        assert!(packet.options().count() <= data.len() / 8 + 1);
    };
    questions(ndisc::Packet::new_unchecked(data));
    questions(ndisc::Packet::new_checked(data)?);
    Ok(())
}

/// A UDP datagram.
pub fn udp(data: &[u8]) -> Result<(), Error> {
    let _ = udp::Packet::new_unchecked(data).to_string();
    let packet = udp::Packet::new_checked(data)?;
    let len = usize::from(packet.len());
    assert_eq!(packet.payload(), &data[udp::HEADER_LEN..len]);
    let mut out = data[..len].to_vec();
    udp::Repr::parse(&packet).emit(&mut out).unwrap();
    assert_eq!((&out[..6], &out[8..]), (&data[..6], &data[8..len]));
    transport(Protocol::UDP, &mut out);
    Ok(())
}

/// A TCP segment.
pub fn tcp(data: &[u8]) -> Result<(), Error> {
    let _ = tcp::Packet::new_unchecked(data).to_string();
    let packet = tcp::Packet::new_checked(data)?;
    let header_len = packet.header_len();
    assert_eq!(packet.payload(), &data[header_len..]);
    let repr = tcp::Repr::parse(&packet);
    let mut out = data.to_vec();
    repr.emit(&mut out).unwrap();
    assert_eq!(tcp::Repr::parse(&tcp::Packet::new_checked(&out)?), repr);
    transport(Protocol::TCP, &mut out);
    Ok(())
}

/// From a partial checksum to a valid one.
fn transport(protocol: Protocol, segment: &mut [u8]) {
    let pseudo = checksum::Sum::ZERO
        .add_u16(u16::from(protocol.0))
        .add_u32(segment.len() as u32);
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

/// A whole frame, from the Ethernet header to the flow; an error is that of the first header
/// refused.
pub fn frame(data: &[u8]) -> Result<(), Error> {
    let flow = Flow::of_frame(data);
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
    let flow = flow?.expect("an IP packet has a flow");
    assert_eq!(flow.protocol, protocol);
    let _ = flow.to_string();
    match protocol {
        Protocol::TCP => tcp(&segment),
        Protocol::UDP => udp(&segment),
        Protocol::ICMP => icmp(&segment),
        Protocol::ICMPV6 if ndisc(&segment).is_ok() => Ok(()),
        Protocol::ICMPV6 => icmpv6(&segment),
        _ => Ok(()),
    }
}
