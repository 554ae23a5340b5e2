//! Fourth stage: longest-prefix match; and what the next hop says.

use bora_buffer::Packet;
use bora_fib::{Adjacency, Encapsulation, FibReader, Group, NextHop, NextHopId, PortId};
use bora_wire::{EtherType, ethernet, ipv4, ipv6};

use crate::wrap::outer_hash;
use crate::{Batch, Context, Family, Meta, Reason, Verdict, policy};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// Finds the next hop of every packet that `parse` left pending.
pub fn lookup(batch: &mut Batch, context: &Context<'_>) {
    let (keys, found) = batch.v4.look_up();
    match keys {
        [] => {}
        // such as those of tunnels
        [first, others @ ..] if are_all(others, *first) => {
            context.fib.lookup4(&keys[..1], &mut found[..1]);
            let first = found[0];
            found.fill(first);
        }
        _ => context.fib.lookup4(keys, found),
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

/// Whether all keys are this one.
#[inline]
fn are_all(keys: &[u32], key: u32) -> bool {
    // mostly the last one says it
    keys.last().is_none_or(|&last| last == key)
        && keys.iter().fold(0, |any, other| any | (other ^ key)) == 0
}

/// Whether an address leads to the router itself.
pub(crate) fn is_local(fib: &FibReader, id: NextHopId) -> bool {
    let local = Reason::Local;
    matches!(fib.next_hop(id), NextHop::Punt { reason, .. } if *reason == local)
}

/// Whether the packet in a frame without tags is for an address of the router, in whichever VRF: the main table has them all.
/// Link-local addresses are not in it; every frame that comes to one is for the router.
pub fn is_for_router(frame: &[u8], fib: &FibReader) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else {
        return false;
    };
    let mut found = [NextHopId::NO_ROUTE];
    match frame.ethertype() {
        EtherType::IPV4 => {
            let Ok(packet) = ipv4::Packet::new_checked(frame.payload()) else {
                return false;
            };
            fib.lookup4(&[packet.dst().to_bits()], &mut found);
        }
        EtherType::IPV6 => {
            let Ok(packet) = ipv6::Packet::new_checked(frame.payload()) else {
                return false;
            };
            if packet.dst().is_unicast_link_local() {
                return true;
            }
            fib.lookup6(&[packet.dst().octets()], &mut found);
        }
        _ => return false,
    }
    is_local(fib, found[0])
}

/// A way out.
pub(crate) enum Way<'a> {
    /// To a neighbour.
    Neighbour(&'a Adjacency),
    /// Through a tunnel; and the neighbour that its outer packets go to.
    Tunnel(&'a Encapsulation, &'a Adjacency),
}

/// The way out for one packet, or why there is none.
pub(crate) fn resolve<'a>(
    packet: &Packet,
    meta: Meta,
    id: NextHopId,
    context: &Context<'a>,
) -> Result<Way<'a>, Verdict> {
    let found = match context.fib.next_hop(id) {
        NextHop::Group(group) => {
            let member = choose(packet, meta, group, context)?;
            context.fib.next_hop(member)
        }
        other => other,
    };
    match found {
        NextHop::Forward(adjacency) => {
            check(packet, meta, (adjacency.port, adjacency.mtu), context)?;
            if let Some(neighbour) = adjacency.unconfirmed {
                context.fib.note_use(neighbour);
            }
            Ok(Way::Neighbour(adjacency))
        }
        NextHop::Tunnel(tunnel) => {
            check(packet, meta, (tunnel.port, tunnel.mtu), context)?;
            let outer = outer_way(packet, meta, tunnel, context)?;
            let length = tunnel.headers.octets().len() + usize::from(meta.l3_length());
            if length > usize::from(outer.mtu) {
                return Err(Verdict::Punt(too_big(packet, meta, context)));
            }
            if let Some(neighbour) = tunnel.unconfirmed {
                context.fib.note_use(neighbour);
            }
            Ok(Way::Tunnel(tunnel, outer))
        }
        NextHop::Punt { reason, .. } => Err(Verdict::Punt(*reason)),
        NextHop::Blackhole => Err(Verdict::Drop(Reason::Blackhole)),
        // the control side makes groups of single next hops only
        NextHop::Group(_) => Err(Verdict::Punt(Reason::Unsupported)),
    }
}

/// Why a packet cannot leave by an output with this MTU without Linux.
#[inline]
fn check(
    packet: &Packet,
    meta: Meta,
    (port, mtu): (PortId, u16),
    context: &Context<'_>,
) -> Result<(), Verdict> {
    if meta.l3_length() > mtu {
        return Err(Verdict::Punt(too_big(packet, meta, context)));
    }
    let input = context.inputs.row(meta.input());
    if u32::from(port.0) == input.way_back(meta.family()) {
        return Err(Verdict::Punt(Reason::Redirect));
    }
    Ok(())
}

/// The neighbour that a packet's outer packet goes to.
#[inline(never)]
fn outer_way<'a>(
    packet: &Packet,
    meta: Meta,
    tunnel: &Encapsulation,
    context: &Context<'a>,
) -> Result<&'a Adjacency, Verdict> {
    let id = context.tunnelling.find(tunnel.destination(), context.fib);
    match context.fib.next_hop(id) {
        NextHop::Group(group) if group.only().is_none() => {
            let hash = outer_hash(octets(packet, meta, context), meta, tunnel, context);
            let member = group.select(hash.ok_or(Verdict::Punt(Reason::Unsupported))?);
            neighbour_of(context.fib.next_hop(member), tunnel, context)
        }
        _ => only_outer_way(tunnel, context),
    }
}

/// The neighbour that all outer packets of a tunnel go to. Several paths, as other things that depend on the packet, are
/// [`Reason::Unsupported`].
pub(crate) fn only_outer_way<'a>(
    tunnel: &Encapsulation,
    context: &Context<'a>,
) -> Result<&'a Adjacency, Verdict> {
    let id = context.tunnelling.find(tunnel.destination(), context.fib);
    let found = match context.fib.next_hop(id) {
        NextHop::Group(group) => {
            let only = group.only().ok_or(Verdict::Punt(Reason::Unsupported))?;
            context.fib.next_hop(only)
        }
        other => other,
    };
    neighbour_of(found, tunnel, context)
}

/// The neighbour that outer packets of a tunnel go to by this next hop. Tunnels in tunnels are Linux's.
fn neighbour_of<'a>(
    found: &'a NextHop,
    tunnel: &Encapsulation,
    context: &Context<'a>,
) -> Result<&'a Adjacency, Verdict> {
    let adjacency = match found {
        NextHop::Forward(adjacency) => adjacency,
        NextHop::Punt {
            reason: Reason::NoNeighbour,
            ..
        } => return Err(Verdict::Punt(Reason::NoNeighbour)),
        _ => return Err(Verdict::Punt(Reason::Unsupported)),
    };
    if tunnel.link.is_some_and(|link| link != adjacency.port) {
        return Err(Verdict::Punt(Reason::Unsupported)); // Linux looks up routes by the tunnel's link
    }
    if let Some(neighbour) = adjacency.unconfirmed {
        context.fib.note_use(neighbour);
    }
    Ok(adjacency)
}

/// The IP packet in a frame.
fn octets<'a>(packet: &'a Packet, meta: Meta, context: &Context<'a>) -> &'a [u8] {
    let end = ETHERNET + usize::from(meta.l3_length());
    let octets = context.region.octets(packet).get(ETHERNET..end);
    octets.unwrap_or_default()
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

/// The member of a group that the packet's flow takes.
#[inline(never)]
fn choose(
    packet: &Packet,
    meta: Meta,
    group: &Group,
    context: &Context<'_>,
) -> Result<NextHopId, Verdict> {
    if let Some(only) = group.only() {
        return Ok(only);
    }
    let flow = match meta.family() {
        Family::V4 => &context.hash4,
        Family::V6 => &context.hash6,
    };
    let hash = flow.of(octets(packet, meta, context), meta.family());
    let hash = hash.ok_or(Verdict::Punt(Reason::Unsupported))?;
    Ok(group.select(hash))
}
