//! First stage: reads the headers, and sorts out what is not plain transit.

use std::net::IpAddr;

use bora_buffer::Packet;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::class::Planes;
use crate::headers::{GROUP, destination6};
use crate::lookup::is_for_router;
use crate::simd::Loop;
use crate::{Batch, Context, Family, Ingress, Meta, Reason, Verdict};

#[cfg(test)]
mod tests;

/// Fills `batch.meta`, which has the inputs, from the packets. What is broken is dropped by name (RFC 1812 5.2.2), what
/// is not plain transit is punted; for the rest, length, destination and the class of the DSCP are set.
pub fn parse(batch: &mut Batch, context: &Context<'_>) {
    batch.v4.clear();
    batch.v6.clear();
    debug_assert_eq!(batch.meta.len(), batch.packets.len(), "inputs are known");
    if let Some(input) = batch.input {
        batch.headers.take(context.inputs.row(input).ours);
    }
    batch.simd.run(Groups { batch, context });
}

/// The packets of a batch, group by group.
struct Groups<'a> {
    batch: &'a mut Batch,
    context: &'a Context<'a>,
}

impl Loop for Groups<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { batch, context } = self;
        let dscp = *context.classifier.dscp();
        for start in (0..batch.packets.len()).step_by(GROUP) {
            let Batch {
                packets,
                meta,
                v4,
                headers,
                input,
                ..
            } = &mut *batch;
            let count = GROUP.min(packets.len() - start);
            let meta = &mut meta[start..start + count];
            headers.read(packets, start, context.region);
            if input.is_none() {
                headers.take_each(meta, context.inputs);
            }
            if headers.check4(meta, dscp) {
                v4.push_group(start, &headers.destinations()[..count]);
                continue;
            }
            batch.simd.run(Mixed {
                batch,
                context,
                start,
            });
        }
    }
}

/// A group of packets that are not all plain IPv4, whose headers are read and checked.
struct Mixed<'a> {
    batch: &'a mut Batch,
    context: &'a Context<'a>,
    start: usize,
}

impl Loop for Mixed<'_> {
    #[inline(always)]
    fn run(self) {
        let Self {
            batch,
            context,
            start,
        } = self;
        let Batch {
            packets,
            meta,
            v4,
            v6,
            headers,
            ..
        } = batch;
        let dscp = *context.classifier.dscp();
        let count = GROUP.min(packets.len() - start);
        let range = start..start + count;
        if headers.check6(&mut meta[range.clone()], dscp)
            && let Some(destinations) = headers.destinations6(&packets[range], context.region)
        {
            return v6.push_group(start, destinations);
        }
        let group = packets.iter().zip(meta).enumerate();
        for (at, (place, (packet, meta))) in group.skip(start).take(GROUP).enumerate() {
            if let Some(destination) = headers.plain4(at) {
                v4.push(place, destination);
            } else if headers.may_be_plain6(at)
                && let Some(destination) = destination6(context.region.octets(packet))
            {
                v6.push(place, destination);
            } else {
                parse_any(packet, meta, context, |destination| match destination {
                    IpAddr::V4(destination) => v4.push(place, destination.to_bits()),
                    IpAddr::V6(destination) => v6.push(place, destination.octets()),
                });
            }
        }
    }
}

/// Any packet; `found` gets the destination of transit.
#[inline(never)]
fn parse_any(packet: &Packet, meta: &mut Meta, context: &Context<'_>, found: impl FnOnce(IpAddr)) {
    let octets = context.region.octets(packet);
    *meta = meta.unread();
    let ingress = context.inputs.get(meta.input());
    match parse_one(octets, ingress, context.classifier.dscp(), meta) {
        Ok(destination) => found(destination),
        // an exception is what Linux does not forward; what is for the router itself is no such thing
        Err(Verdict::Punt(reason)) if reason.has_budget() && is_for_router(octets, context.fib) => {
            meta.decide(Verdict::Punt(Reason::Local));
        }
        Err(verdict) => meta.decide(verdict),
    }
}

/// A transit packet's destination, or what becomes of any other packet. `meta` gets what else is known.
fn parse_one(
    octets: &[u8],
    ingress: &Ingress,
    dscp: &Planes,
    meta: &mut Meta,
) -> Result<IpAddr, Verdict> {
    let frame = ethernet::Frame::new_checked(octets)?;
    let gate = ingress.gate();
    match frame.ethertype() {
        _ if !gate.up => Err(Verdict::Drop(Reason::PortDown)),
        _ if frame.dst() != ingress.mac => Err(match gate.promiscuous || frame.dst().is_group() {
            true => Verdict::Punt(Reason::ForeignMac),
            false => Verdict::Drop(Reason::OtherHost),
        }),
        EtherType::IPV4 if gate.kernel4 => Err(Verdict::Punt(Reason::Guard)),
        EtherType::IPV6 if gate.kernel6 => Err(Verdict::Punt(Reason::Guard)),
        EtherType::IPV4 => parse_ipv4(frame.payload(), ingress, dscp, meta),
        EtherType::IPV6 => parse_ipv6(frame.payload(), ingress, dscp, meta),
        _ => Err(Verdict::Punt(Reason::NotIp)),
    }
}

fn parse_ipv4(
    octets: &[u8],
    ingress: &Ingress,
    dscp: &Planes,
    meta: &mut Meta,
) -> Result<IpAddr, Verdict> {
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
    let (length, class) = (packet.total_len().into(), dscp.class(packet.tos().into()));
    *meta = meta.pending(length, class, Family::V4);
    Ok(packet.dst().into())
}

fn parse_ipv6(
    octets: &[u8],
    ingress: &Ingress,
    dscp: &Planes,
    meta: &mut Meta,
) -> Result<IpAddr, Verdict> {
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
    if is_discovery(&packet) {
        return Err(Verdict::Punt(Reason::SpecialAddress));
    }
    let length =
        u16::try_from(packet.total_len()).map_err(|_| Verdict::Drop(Reason::BadTotalLength))?;
    let class = dscp.class(packet.traffic_class().into());
    *meta = meta.pending(length.into(), class, Family::V6);
    Ok(packet.dst().into())
}

/// Neighbour discovery, which Linux may answer although it is for another (`proxy_ndp`, ip6_forward_proxy_check()).
fn is_discovery(packet: &ipv6::Packet<&[u8]>) -> bool {
    let Ok(upper) = packet.upper_layer() else {
        return false; // what hides its upper layer is for the rules to judge
    };
    let kind = packet.payload().get(upper.offset);
    upper.protocol == Protocol::ICMPV6
        && upper.fragment_offset.is_none_or(|offset| offset == 0)
        && kind.is_some_and(|kind| (133..=137).contains(kind))
}

/// 0.0.0.0, loopback, multicast, limited broadcast: Linux decides.
fn is_special4(address: u32) -> bool {
    (address == 0) | (address >> 24 == 127) | (address >> 28 == 0xe) | (address == u32::MAX)
}

/// Multicast, link-local, and ::/64 with ::, ::1 and the mapped addresses: Linux decides.
fn is_special6(address: u128) -> bool {
    address >> 120 == 0xff || address >> 118 == 0x3fa || address >> 64 == 0
}
