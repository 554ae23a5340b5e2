//! Second stage: the reverse-path check of IPv4 sources (RFC 3704).

use bora_buffer::MAX_BATCH;
use bora_fib::{FibReader, NextHop, NextHopId, PortId};

use bora_wire::ipv4;

use crate::batch::Batch;
use crate::lookup::is_local;
use crate::{Context, Reason, RpFilter, Verdict, policy};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// Drops packets whose source the ingress port must not bring, as `rp_filter` says. IPv6 has no
/// such setting in Linux. Without an XDP program in front, packets that claim to come from the
/// router itself go to Linux, which decides by `accept_local`.
pub fn source_check(batch: &mut Batch, context: &Context<'_>) {
    let mode = context.ingress.rp_filter;
    let has_xdp = context.ingress.has_xdp();
    if mode == RpFilter::Off && has_xdp {
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
    let lists = context.policies.of(context.ingress.port);
    if let Some(list) = lists.and_then(|lists| lists.back4.as_ref()) {
        for ((place, _), id) in v4.results().zip(&mut found) {
            *id = policy::way_back(list, &packets[place], *id, context);
        }
    }
    let port = (mode == RpFilter::Strict).then_some(context.ingress.port);
    for ((place, _), &id) in v4.results().zip(&found) {
        if !has_xdp && is_local(context.fib, id) {
            meta[place].decide(Verdict::Punt(Reason::Local));
        } else if mode != RpFilter::Off {
            match way_back(context.fib, id, port) {
                WayBack::Yes => {}
                WayBack::No => meta[place].decide(Verdict::Drop(Reason::SourceCheck)),
                WayBack::OnlyLinuxKnows => meta[place].decide(Verdict::Punt(Reason::Unsupported)),
            }
        }
    }
}

/// Whether packets to a source would leave by the interface it came from; the better one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WayBack {
    No,
    OnlyLinuxKnows,
    Yes,
}

/// Whether a next hop is a way back, through `port` if one is given. Any path of a group will do.
fn way_back(fib: &FibReader, id: NextHopId, port: Option<PortId>) -> WayBack {
    let through = |out: Option<PortId>| match port {
        Some(port) if out != Some(port) => WayBack::No,
        _ => WayBack::Yes,
    };
    match fib.next_hop(id) {
        NextHop::Forward(adjacency) => through(Some(adjacency.port)),
        NextHop::Tunnel(tunnel) => through(Some(tunnel.port)),
        NextHop::Group(group) => {
            let members = group.members().map(|member| way_back(fib, member, port));
            members.max().unwrap_or(WayBack::No)
        }
        NextHop::Punt {
            reason: Reason::Unsupported,
            port: None,
        } if port.is_some() => WayBack::OnlyLinuxKnows,
        NextHop::Punt {
            reason: Reason::NoNeighbour | Reason::Unsupported | Reason::Shaped,
            port: out,
        } => through(*out),
        NextHop::Punt { .. } | NextHop::Blackhole => WayBack::No,
    }
}
