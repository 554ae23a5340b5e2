//! Second stage: the reverse-path check of IPv4 sources (RFC 3704).

use bora_buffer::MAX_BATCH;
use bora_fib::{FibReader, NextHop, NextHopId, PortId, PuntReason};

use bora_wire::ipv4;

use crate::batch::Batch;
use crate::{Context, Drop, Punt, RpFilter, Verdict};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// Drops packets whose source the ingress port must not bring, as `rp_filter` says. IPv6 has no
/// such setting in Linux. Without an XDP program in front, packets that claim to come from the
/// router itself go to Linux, which decides by `accept_local`.
pub fn source_check(batch: &mut Batch, context: &Context<'_>) {
    let mode = context.ingress.rp_filter;
    let gated = context.ingress.gate.is_some();
    if mode == RpFilter::Off && !gated {
        return;
    }
    let Batch {
        packets, meta, v4, ..
    } = batch;
    let mut sources = [0; MAX_BATCH];
    let mut found = [NextHopId::NO_ROUTE; MAX_BATCH];
    let mut count = 0;
    for ((place, _), source) in v4.results().zip(&mut sources) {
        let octets = context.region.octets(&packets[place]);
        let octets = octets.get(ETHERNET..).unwrap_or_default();
        *source = ipv4::Packet::new_unchecked(octets).src().to_bits();
        count += 1;
    }
    if count == 0 {
        return;
    }
    context.fib.lookup4(&sources[..count], &mut found[..count]);
    let port = (mode == RpFilter::Strict).then_some(context.ingress.port);
    for ((place, _), &id) in v4.results().zip(&found) {
        if gated && is_local(context.fib, id) {
            meta[place].verdict = Verdict::Punt(Punt::Local);
        } else if mode != RpFilter::Off && !leads_back(context.fib, id, port) {
            meta[place].verdict = Verdict::Drop(Drop::SourceCheck);
        }
    }
}

/// Whether an address is the router's own.
fn is_local(fib: &FibReader, id: NextHopId) -> bool {
    let reason = PuntReason::Local;
    matches!(fib.next_hop(id), NextHop::Punt { reason: found, .. } if *found == reason)
}

/// Whether a next hop is a way back, through `port` if one is given. Any path of a group will do.
fn leads_back(fib: &FibReader, id: NextHopId, port: Option<PortId>) -> bool {
    match fib.next_hop(id) {
        NextHop::Forward(adjacency) => port.is_none_or(|port| adjacency.port == port),
        NextHop::Group(group) => group.members().any(|member| leads_back(fib, member, port)),
        NextHop::Punt {
            reason: PuntReason::NoNeighbour | PuntReason::Unsupported,
            port: out,
        } => port.is_none() || *out == port,
        NextHop::Punt { .. } | NextHop::Blackhole => false,
    }
}
