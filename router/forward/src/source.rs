//! Second stage: the reverse-path check of IPv4 sources (RFC 3704).

use bora_buffer::Packet;
use bora_fib::{FibReader, NextHop, NextHopId, PortId, TableId};

use bora_wire::ipv4;

use crate::batch::Batch;
use crate::lookup::is_local;
use crate::{Context, Family, Ingress, Reason, RpFilter, Verdict, policy};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// Drops packets whose source their input must not bring, as its `rp_filter` says. IPv6 has no such setting in Linux. Without
/// an XDP program in front, packets that claim to come from the router itself go to Linux, which decides by `accept_local`.
pub fn source_check(batch: &mut Batch, context: &Context<'_>) {
    let inputs = context.inputs;
    if !inputs.check_sources(batch.input) {
        return;
    }
    let Batch {
        packets,
        meta,
        v4,
        sources,
        ..
    } = batch;
    sources.clear();
    for (place, _) in v4.results() {
        if inputs.row(meta[place].input()).checks_sources() {
            let octets = context.region.octets(&packets[place]);
            let octets = octets.get(ETHERNET..).unwrap_or_default();
            let source = ipv4::Packet::new_unchecked(octets).src();
            sources.push(place, source.to_bits());
        }
    }
    let (keys, found) = sources.look_up();
    if !keys.is_empty() {
        context.fib.lookup4(keys, found);
    }
    for (place, id) in sources.results() {
        let input = meta[place].input();
        let lists = context.policies.of(input);
        let id = match lists.and_then(|lists| lists.back4.as_ref()) {
            Some(list) => policy::way_back(list, &packets[place], id, context),
            None => id,
        };
        if let Some(verdict) = judge(inputs.get(input), id, context.fib) {
            let verdict = match verdict {
                Verdict::Drop(_) => answer(&packets[place], input, context).unwrap_or(verdict),
                other => other,
            };
            meta[place].decide(verdict);
        }
    }
}

/// Linux looks for the destination first (ip_route_input_slow()), and tells even an impossible source that there is no
/// way to it.
#[cold]
fn answer(packet: &Packet, input: PortId, context: &Context<'_>) -> Option<Verdict> {
    let octets = context.region.octets(packet).get(ETHERNET..)?;
    let dst = ipv4::Packet::new_unchecked(octets).dst().to_bits();
    let main = context.fib.find4(TableId::MAIN, dst);
    let main = main.unwrap_or(NextHopId::NO_ROUTE);
    let lists = context.policies.of(input);
    let id = match lists.and_then(|lists| lists.v4.as_ref()) {
        Some(list) => policy::decide(list, packet, main, Family::V4, context),
        None => main,
    };
    match context.fib.next_hop(id) {
        NextHop::Punt {
            reason: reason @ (Reason::NoRoute | Reason::Unreachable | Reason::Prohibit),
            ..
        } => Some(Verdict::Punt(*reason)),
        _ => None,
    }
}

/// What becomes of a packet to whose source this next hop leads; `None` if its input may bring it.
#[inline]
fn judge(ingress: &Ingress, id: NextHopId, fib: &FibReader) -> Option<Verdict> {
    if !ingress.has_xdp() && is_local(fib, id) {
        return Some(Verdict::Punt(Reason::Local));
    }
    let port = match ingress.rp_filter {
        RpFilter::Off => return None,
        RpFilter::Loose => None,
        RpFilter::Strict => Some(ingress.port),
    };
    match way_back(fib, id, port) {
        WayBack::Yes => None,
        WayBack::No => Some(Verdict::Drop(Reason::SourceCheck)),
        WayBack::OnlyLinuxKnows => Some(Verdict::Punt(Reason::Unsupported)),
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
