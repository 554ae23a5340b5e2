//! Third stage: longest-prefix match, path choice, and what the next hop says.

use bora_buffer::{MAX_BATCH, Packet};
use bora_fib::{FibReader, NextHop, NextHopId};

use crate::batch::{Batch, Family, Meta};
use crate::hash::hash_of;
use crate::{Context, Drop, Punt, Verdict};

/// Sets `next_hop` of every pending packet to a rewrite, or decides it otherwise.
pub fn lookup(batch: &mut Batch, context: &Context<'_>) {
    lookup_v4(batch, context.fib);
    lookup_v6(batch, context.fib);
    let Batch { packets, meta } = batch;
    for (packet, meta) in packets.iter().zip(meta) {
        if meta.verdict == Verdict::Pending
            && let Err(verdict) = resolve(packet, meta, context)
        {
            meta.verdict = verdict;
        }
    }
}

fn lookup_v4(batch: &mut Batch, fib: &FibReader) {
    let mut keys = [0; MAX_BATCH];
    let mut found = [NextHopId::NO_ROUTE; MAX_BATCH];
    let mut count = 0;
    for (_, meta) in batch
        .pending()
        .filter(|(_, meta)| meta.family == Family::V4)
    {
        keys[count] = meta.destination4;
        count += 1;
    }
    if count == 0 {
        return;
    }
    fib.lookup4(&keys[..count], &mut found[..count]);
    let packets = batch
        .pending()
        .filter(|(_, meta)| meta.family == Family::V4);
    for ((_, meta), &id) in packets.zip(&found[..count]) {
        meta.next_hop = id;
    }
}

fn lookup_v6(batch: &mut Batch, fib: &FibReader) {
    let mut keys = [[0; 16]; MAX_BATCH];
    let mut found = [NextHopId::NO_ROUTE; MAX_BATCH];
    let mut count = 0;
    for (_, meta) in batch
        .pending()
        .filter(|(_, meta)| meta.family == Family::V6)
    {
        keys[count] = meta.destination6;
        count += 1;
    }
    if count == 0 {
        return;
    }
    fib.lookup6(&keys[..count], &mut found[..count]);
    let packets = batch
        .pending()
        .filter(|(_, meta)| meta.family == Family::V6);
    for ((_, meta), &id) in packets.zip(&found[..count]) {
        meta.next_hop = id;
    }
}

fn resolve(packet: &Packet, meta: &mut Meta, context: &Context<'_>) -> Result<(), Verdict> {
    if meta.output != NextHopId::NO_ROUTE {
        meta.next_hop = meta.output;
    }
    if let NextHop::Group(group) = context.fib.next_hop(meta.next_hop) {
        let policy = match meta.family {
            Family::V4 => context.hash4,
            Family::V6 => context.hash6,
        };
        meta.next_hop = group.select(hash_of(context.region.octets(packet), meta.family, policy));
    }
    let adjacency = match context.fib.next_hop(meta.next_hop) {
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
    Ok(())
}
