//! First stage: read the headers, sort out what is not plain transit.

use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::batch::{Batch, Family, Meta};
use crate::{Context, Drop, Gate, Ingress, Punt, Verdict};

/// The XDP program has seen to it.
const OPEN: Gate = Gate {
    up: true,
    kernel4: false,
    kernel6: false,
};

/// Fills `batch.meta` from the packets. What is broken is dropped by name (RFC 1812 5.2.2), what
/// is not plain transit is punted; for the rest, length and addresses are set.
pub fn parse(batch: &mut Batch, context: &Context<'_>) {
    batch.meta.clear();
    for packet in &batch.packets {
        let mut meta = Meta::default();
        if let Err(verdict) = parse_one(context.region.octets(packet), context, &mut meta) {
            meta.verdict = verdict;
        }
        batch.meta.push(meta);
    }
}

fn parse_one(octets: &[u8], context: &Context<'_>, meta: &mut Meta) -> Result<(), Verdict> {
    let frame = ethernet::Frame::new_checked(octets).map_err(dropped)?;
    let ingress = context.ingress;
    let gate = ingress.gate.unwrap_or(OPEN);
    match frame.ethertype() {
        _ if !gate.up => Err(Verdict::Drop(Drop::PortDown)),
        _ if frame.dst() != ingress.mac => Err(Verdict::Punt(Punt::ForeignMac)),
        EtherType::IPV4 if gate.kernel4 => Err(Verdict::Punt(Punt::Guard)),
        EtherType::IPV6 if gate.kernel6 => Err(Verdict::Punt(Punt::Guard)),
        EtherType::IPV4 => parse_ipv4(frame.payload(), ingress, meta),
        EtherType::IPV6 => parse_ipv6(frame.payload(), ingress, meta),
        _ => Err(Verdict::Punt(Punt::NotIp)),
    }
}

fn dropped(error: bora_wire::Error) -> Verdict {
    Verdict::Drop(Drop::from(error))
}

fn parse_ipv4(octets: &[u8], ingress: &Ingress, meta: &mut Meta) -> Result<(), Verdict> {
    let packet = ipv4::Packet::new_checked(octets).map_err(dropped)?;
    packet.verify_checksum().map_err(dropped)?;
    if !ingress.forward4 {
        return Err(Verdict::Punt(Punt::ForwardingOff));
    }
    let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
    if is_special4(source) || is_special4(destination) {
        return Err(Verdict::Punt(Punt::SpecialAddress));
    }
    if packet.has_options() {
        return Err(Verdict::Punt(Punt::Options));
    }
    if packet.ttl() <= 1 {
        return Err(Verdict::Punt(Punt::TtlExceeded));
    }
    meta.family = Family::V4;
    meta.l3_length = packet.total_len();
    meta.source4 = source;
    meta.destination4 = destination;
    Ok(())
}

fn parse_ipv6(octets: &[u8], ingress: &Ingress, meta: &mut Meta) -> Result<(), Verdict> {
    let packet = ipv6::Packet::new_checked(octets).map_err(dropped)?;
    if !ingress.forward6 {
        return Err(Verdict::Punt(Punt::ForwardingOff));
    }
    let (source, destination) = (packet.src().to_bits(), packet.dst().to_bits());
    if is_special6(source) || is_special6(destination) {
        return Err(Verdict::Punt(Punt::SpecialAddress));
    }
    if packet.next_header() == Protocol::HOP_BY_HOP {
        return Err(Verdict::Punt(Punt::Options));
    }
    if packet.hop_limit() <= 1 {
        return Err(Verdict::Punt(Punt::TtlExceeded));
    }
    meta.family = Family::V6;
    meta.l3_length =
        u16::try_from(packet.total_len()).map_err(|_| Verdict::Drop(Drop::BadTotalLength))?;
    meta.destination6 = packet.dst().octets();
    Ok(())
}

/// 0.0.0.0, loopback, multicast, limited broadcast: Linux decides.
fn is_special4(address: u32) -> bool {
    address == 0 || address >> 24 == 127 || address >> 28 == 0xe || address == u32::MAX
}

/// Multicast, link-local, and ::/64 with ::, ::1 and the mapped addresses: Linux decides.
fn is_special6(address: u128) -> bool {
    address >> 120 == 0xff || address >> 118 == 0x3fa || address >> 64 == 0
}
