//! Fifth stage: make the packet ready to leave.

use bora_buffer::Packet;
use bora_fib::{Adjacency, NextHopId};
use bora_wire::{checksum, ipv4, ipv6};

use crate::batch::{Batch, Family, Meta};
use crate::lookup::resolve;
use crate::partial::{complete_ipv4, complete_ipv6};
use crate::{Context, Verdict};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;
/// Ethernet, and IPv4 without options.
const PLAIN_IPV4: usize = ETHERNET + 20;

/// Takes each packet to its next hop's output: decrements TTL or hop limit, writes the new Ethernet
/// header, trims the padding of the old frame and pads to the output's minimum; completes a
/// checksum that the sender left to us.
pub fn rewrite(batch: &mut Batch, context: &Context<'_>) {
    let Batch {
        packets,
        meta,
        v4,
        v6,
    } = batch;
    // mostly all packets are of one version, and then each is where its next hop is
    if v4.len() == packets.len() {
        let packets = packets.iter_mut().zip(meta).zip(v4.found());
        packets.for_each(|((packet, meta), &found)| rewrite_one(packet, meta, found, context));
        return;
    }
    for (place, found) in v4.results().chain(v6.results()) {
        rewrite_one(&mut packets[place], &mut meta[place], found, context);
    }
}

#[inline(always)]
fn rewrite_one(packet: &mut Packet, meta: &mut Meta, found: NextHopId, context: &Context<'_>) {
    if meta.verdict != Verdict::Pending {
        return;
    }
    let adjacency = match resolve(packet, meta, found, context) {
        Ok(adjacency) => adjacency,
        Err(verdict) => return meta.verdict = verdict,
    };
    packet.truncate(ETHERNET + usize::from(meta.l3_length));
    let octets = context.region.octets_mut(packet);
    let partial = context.ingress.partial_checksum;
    match octets.first_chunk_mut() {
        Some(headers) if meta.family == Family::V4 && !partial => plain_ipv4(headers, adjacency),
        _ => rewrite_headers(octets, meta.family, adjacency, partial),
    }
    let port = usize::from(adjacency.port.0);
    let min_frame = usize::from(context.min_frames.get(port).copied().unwrap_or(0));
    if packet.length() < min_frame {
        packet.pad(context.region, min_frame);
    }
    meta.verdict = Verdict::Forward(adjacency.port);
}

/// The short way of nearly every packet: what [`rewrite_headers`] does, at fixed places.
#[inline(always)]
fn plain_ipv4(headers: &mut [u8; PLAIN_IPV4], adjacency: &Adjacency) {
    headers[..12].copy_from_slice(&adjacency.l2[..12]);
    let sum = checksum::decrement_ttl(u16::from_be_bytes([headers[24], headers[25]]));
    // parse has seen a TTL of 2 or more, but a memif peer that shares the memory may have changed it
    headers[22] = headers[22].wrapping_sub(1);
    headers[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[inline(never)]
fn rewrite_headers(octets: &mut [u8], family: Family, adjacency: &Adjacency, partial: bool) {
    let Some((l2, l3)) = octets.split_first_chunk_mut::<ETHERNET>() else {
        return;
    };
    // the EtherType stays what it was: parse found it to be the packet's own
    l2[..12].copy_from_slice(&adjacency.l2[..12]);
    match family {
        Family::V4 => {
            let mut packet = ipv4::Packet::new_unchecked(l3);
            packet.decrement_ttl();
            if partial {
                complete_ipv4(packet);
            }
        }
        Family::V6 => {
            let mut packet = ipv6::Packet::new_unchecked(l3);
            packet.decrement_hop_limit();
            if partial {
                complete_ipv6(packet);
            }
        }
    }
}
