//! Fourth stage: longest-prefix match; and what the next hop says.

use bora_buffer::Packet;
use bora_fib::{Adjacency, NextHop, NextHopId};

use crate::batch::{Batch, Family, Meta};
use crate::hash::hash_of;
use crate::{Context, Drop, Punt, Verdict};

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
}

/// The way out for one packet, or why there is none.
#[inline]
pub(crate) fn resolve<'a>(
    packet: &Packet,
    meta: &Meta,
    found: NextHopId,
    context: &Context<'a>,
) -> Result<&'a Adjacency, Verdict> {
    let by_rule = meta.output != NextHopId::NO_ROUTE;
    let mut next_hop = context
        .fib
        .next_hop(if by_rule { meta.output } else { found });
    if let NextHop::Group(group) = next_hop {
        let policy = match meta.family {
            Family::V4 => context.hash4,
            Family::V6 => context.hash6,
        };
        let hash = hash_of(context.region.octets(packet), meta.family, policy);
        next_hop = context.fib.next_hop(group.select(hash));
    }
    let adjacency = match next_hop {
        NextHop::Forward(adjacency) => adjacency,
        NextHop::Punt { reason, .. } => return Err(Verdict::Punt(Punt::from(*reason))),
        NextHop::Blackhole => return Err(Verdict::Drop(Drop::Blackhole)),
        // the control side makes groups of single next hops only
        NextHop::Group(_) => return Err(Verdict::Punt(Punt::Unsupported)),
    };
    if meta.l3_length > adjacency.mtu {
        return Err(Verdict::Punt(Punt::TooBig));
    }
    let redirects = meta.family == Family::V6 || context.ingress.send_redirects4;
    if adjacency.port == context.ingress.port && redirects {
        return Err(Verdict::Punt(Punt::Redirect));
    }
    Ok(adjacency)
}
