//! Fourth stage: longest-prefix match; and what the next hop says.

use bora_buffer::Packet;
use bora_fib::{Adjacency, NextHop, NextHopId};
use bora_wire::ipv4;

use crate::{Batch, Context, Family, Meta, Reason, Verdict, policy};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// Finds the next hop of every packet that `parse` left pending.
pub fn lookup(batch: &mut Batch, context: &Context<'_>) {
    let (keys, found) = batch.v4.look_up();
    if !keys.is_empty() {
        context.fib.lookup4(keys, found);
    }
    let (keys, found) = batch.v6.look_up();
    if !keys.is_empty() {
        context.fib.lookup6(keys, found);
    }
    policy::apply(batch, context);
    for (place, next_hop) in batch.by_rule.drain(..) {
        batch.v4.set(place, next_hop);
        batch.v6.set(place, next_hop);
    }
}

/// The way out for one packet, or why there is none.
pub(crate) fn resolve<'a>(
    packet: &Packet,
    meta: Meta,
    id: NextHopId,
    context: &Context<'a>,
) -> Result<&'a Adjacency, Verdict> {
    let (id, adjacency) = match context.fib.next_hop(id) {
        NextHop::Forward(adjacency) => (id, adjacency),
        other => choose(packet, meta, (id, other), context)?,
    };
    if meta.l3_length() > adjacency.mtu {
        return Err(Verdict::Punt(too_big(packet, meta, context)));
    }
    let redirects = meta.family() == Family::V6 || context.ingress.send_redirects4;
    if adjacency.port == context.ingress.port && redirects {
        return Err(Verdict::Punt(Reason::Redirect));
    }
    if adjacency.unconfirmed {
        context.fib.note_use(id);
    }
    Ok(adjacency)
}

/// Whether Linux fragments the packet, or answers that it is too big.
#[cold]
fn too_big(packet: &Packet, meta: Meta, context: &Context<'_>) -> Reason {
    let octets = context.region.octets(packet).get(ETHERNET..);
    match octets.map(ipv4::Packet::new_unchecked) {
        Some(packet) if meta.family() == Family::V4 && !packet.dont_fragment() => {
            Reason::Fragmentation
        }
        _ => Reason::TooBig,
    }
}

/// What a next hop that is not just a way out leads to.
#[inline(never)]
fn choose<'a>(
    packet: &Packet,
    meta: Meta,
    (id, next_hop): (NextHopId, &'a NextHop),
    context: &Context<'a>,
) -> Result<(NextHopId, &'a Adjacency), Verdict> {
    let (id, chosen) = match next_hop {
        NextHop::Group(group) => {
            if let Some(only) = group.only() {
                return Ok((only, leaf(context.fib.next_hop(only))?));
            }
            let flow = match meta.family() {
                Family::V4 => &context.hash4,
                Family::V6 => &context.hash6,
            };
            let end = ETHERNET + usize::from(meta.l3_length());
            let octets = context.region.octets(packet).get(ETHERNET..end);
            let hash = octets.and_then(|octets| flow.of(octets, meta.family()));
            let hash = hash.ok_or(Verdict::Punt(Reason::Unsupported))?;
            let member = group.select(hash);
            (member, context.fib.next_hop(member))
        }
        other => (id, other),
    };
    Ok((id, leaf(chosen)?))
}

/// What a next hop leads to that is no group.
fn leaf(next_hop: &NextHop) -> Result<&Adjacency, Verdict> {
    match next_hop {
        NextHop::Forward(adjacency) => Ok(adjacency),
        NextHop::Punt { reason, .. } => Err(Verdict::Punt(*reason)),
        NextHop::Blackhole => Err(Verdict::Drop(Reason::Blackhole)),
        // the control side makes groups of single next hops only
        NextHop::Group(_) => Err(Verdict::Punt(Reason::Unsupported)),
    }
}
