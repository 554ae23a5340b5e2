//! First stage: reads the headers, and sorts out what is not plain transit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::batch::{Batch, Family, Meta};
use crate::{Context, Gate, Ingress, Reason, Verdict};

mod plain;

use plain::Ours;

/// Packets between the one that is parsed and the one that is fetched into the cache.
const AHEAD: usize = 8;

/// Checks that let everything pass, because the XDP program has made them.
const PASSED: Gate = Gate {
    up: true,
    kernel4: false,
    kernel6: false,
};

/// Fills `batch.meta` from the packets. What is broken is dropped by name (RFC 1812 5.2.2), what
/// is not plain transit is punted; for the rest, length and destination are set.
pub fn parse(batch: &mut Batch, context: &Context<'_>) {
    let Batch {
        packets,
        meta,
        v4,
        v6,
    } = batch;
    meta.clear();
    v4.clear();
    v6.clear();
    let ours = Ours::new(context.ingress);
    // the fields are written in place: a copy of the struct would wait for all of them
    meta.resize(packets.len(), Meta::default());
    for (place, (packet, meta)) in packets.iter().zip(meta).enumerate() {
        if let Some(next) = packets.get(place + AHEAD) {
            context.region.prefetch(next);
        }
        let octets = context.region.octets(packet);
        match plain::ipv4(octets, &ours, meta) {
            Some(destination) => v4.push(place, destination),
            None => match parse_one(octets, context.ingress, meta) {
                Ok(IpAddr::V4(destination)) => v4.push(place, destination.to_bits()),
                Ok(IpAddr::V6(destination)) => v6.push(place, destination.octets()),
                Err(verdict) => meta.verdict = verdict,
            },
        }
    }
}

/// The destination of a transit packet, or what becomes of any other.
#[inline(never)]
fn parse_one(octets: &[u8], ingress: &Ingress, meta: &mut Meta) -> Result<IpAddr, Verdict> {
    let frame = ethernet::Frame::new_checked(octets)?;
    let gate = ingress.gate.unwrap_or(PASSED);
    match frame.ethertype() {
        _ if !gate.up => Err(Verdict::Drop(Reason::PortDown)),
        _ if frame.dst() != ingress.mac => Err(Verdict::Punt(Reason::ForeignMac)),
        EtherType::IPV4 if gate.kernel4 => Err(Verdict::Punt(Reason::Guard)),
        EtherType::IPV6 if gate.kernel6 => Err(Verdict::Punt(Reason::Guard)),
        EtherType::IPV4 => parse_ipv4(frame.payload(), ingress, meta).map(IpAddr::V4),
        EtherType::IPV6 => parse_ipv6(frame.payload(), ingress, meta).map(IpAddr::V6),
        _ => Err(Verdict::Punt(Reason::NotIp)),
    }
}

fn parse_ipv4(octets: &[u8], ingress: &Ingress, meta: &mut Meta) -> Result<Ipv4Addr, Verdict> {
    let packet = ipv4::Packet::new_checked(octets)?;
    packet.verify_checksum()?;
    if !ingress.forward4 {
        return Err(Verdict::Punt(Reason::ForwardingOff));
    }
    let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
    if is_special4(source) || is_special4(destination) {
        return Err(Verdict::Punt(Reason::SpecialAddress));
    }
    if packet.has_options() {
        return Err(Verdict::Punt(Reason::Options));
    }
    if packet.ttl() <= 1 {
        return Err(Verdict::Punt(Reason::TtlExceeded));
    }
    meta.family = Family::V4;
    meta.l3_length = packet.total_len();
    meta.tos = packet.tos();
    Ok(packet.dst())
}

fn parse_ipv6(octets: &[u8], ingress: &Ingress, meta: &mut Meta) -> Result<Ipv6Addr, Verdict> {
    let packet = ipv6::Packet::new_checked(octets)?;
    if !ingress.forward6 {
        return Err(Verdict::Punt(Reason::ForwardingOff));
    }
    let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
    if is_special6(source) || is_special6(destination) {
        return Err(Verdict::Punt(Reason::SpecialAddress));
    }
    if packet.next_header() == Protocol::HOP_BY_HOP {
        return Err(Verdict::Punt(Reason::Options));
    }
    if packet.hop_limit() <= 1 {
        return Err(Verdict::Punt(Reason::TtlExceeded));
    }
    meta.family = Family::V6;
    meta.l3_length =
        u16::try_from(packet.total_len()).map_err(|_| Verdict::Drop(Reason::BadTotalLength))?;
    meta.tos = packet.traffic_class();
    Ok(packet.dst())
}

/// 0.0.0.0, loopback, multicast, limited broadcast: Linux decides.
fn is_special4(address: u32) -> bool {
    (address == 0) | (address >> 24 == 127) | (address >> 28 == 0xe) | (address == u32::MAX)
}

/// Multicast, link-local, and ::/64 with ::, ::1 and the mapped addresses: Linux decides.
fn is_special6(address: u128) -> bool {
    address >> 120 == 0xff || address >> 118 == 0x3fa || address >> 64 == 0
}
