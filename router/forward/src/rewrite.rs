//! Fifth stage: make the packet ready to leave.

use bora_buffer::{Packet, Region};
use bora_fib::{Adjacency, NextHop, NextHopId, NextHops, PortId};
use bora_wire::{checksum, ipv4, ipv6};

use crate::lookup::{Way, resolve};
use crate::partial::{complete_ipv4, complete_ipv6};
use crate::simd::{Loop, Simd};
use crate::tunnel::wrap;
use crate::{Batch, Context, Family, Meta, Reason, Verdict};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;
/// Ethernet, and IPv4 without options.
const PLAIN_IPV4: usize = ETHERNET + 20;
/// Ethernet and IPv6.
const PLAIN_IPV6: usize = ETHERNET + 40;

/// Takes each packet to its next hop's output: decrements TTL or hop limit, writes the new Ethernet
/// header, trims the padding of the old frame and pads to the output's minimum; completes a
/// checksum that the sender left to us. The mark of a packet that leaves is its class.
pub fn rewrite(batch: &mut Batch, context: &Context<'_>) {
    let Batch {
        packets,
        meta,
        v4,
        v6,
        simd,
        leaves,
        ..
    } = batch;
    let plain = Plain::new(context);
    // mostly all packets are of one version, and then each is where its next hop is
    if context.ingress.partial_checksum {
        // the sender may have left checksums to the receiver
        for (place, found) in v4.results().chain(v6.results()) {
            rewrite_one(&mut packets[place], &mut meta[place], found, context);
        }
    } else if v4.len() == packets.len() {
        if let Some(next_hop) = v4.next_hop_of_all() {
            *leaves = plain.rewrite4_alike(*simd, packets, meta, next_hop);
            if leaves.is_some() {
                return;
            }
        }
        let packets = packets.iter_mut().zip(&mut *meta).zip(v4.found());
        packets.for_each(|((packet, meta), &found)| plain.rewrite4(packet, meta, found));
    } else if v6.len() == packets.len() {
        if let Some(next_hop) = v6.next_hop_of_all() {
            *leaves = plain.rewrite6_alike(*simd, packets, meta, next_hop);
            if leaves.is_some() {
                return;
            }
        }
        let packets = packets.iter_mut().zip(&mut *meta).zip(v6.found());
        packets.for_each(|((packet, meta), &found)| plain.rewrite6(packet, meta, found));
    } else {
        for (place, found) in v4.results() {
            plain.rewrite4(&mut packets[place], &mut meta[place], found);
        }
        for (place, found) in v6.results() {
            plain.rewrite6(&mut packets[place], &mut meta[place], found);
        }
    }
    *leaves = Meta::one_port(meta);
}

/// The short way of nearly every packet, to a neighbour, and what it needs for all packets of a batch.
struct Plain<'a> {
    context: &'a Context<'a>,
    region: &'a Region,
    next_hops: NextHops<'a>,
    /// Shorter frames may have to be padded.
    min_frame: usize,
    /// The ingress port, if Linux would send an IPv4 redirect to those whose packets leave there; else no
    /// port.
    way_back4: u32,
    way_back6: u32,
}

impl<'a> Plain<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        let ingress = context.ingress;
        let port = u32::from(ingress.port.0);
        Self {
            context,
            region: context.region,
            next_hops: context.fib.next_hops(),
            min_frame: context.min_frames.iter().copied().max().unwrap_or(0).into(),
            way_back4: if ingress.send_redirects4 {
                port
            } else {
                u32::MAX
            },
            way_back6: port,
        }
    }

    #[inline(always)]
    fn rewrite4(&self, packet: &mut Packet, meta: &mut Meta, found: NextHopId) {
        if !self.rewrite((packet, meta), found, self.way_back4, plain_ipv4) {
            rewrite_one(packet, meta, found, self.context);
        }
    }

    #[inline(always)]
    fn rewrite6(&self, packet: &mut Packet, meta: &mut Meta, found: NextHopId) {
        if !self.rewrite((packet, meta), found, self.way_back6, plain_ipv6) {
            rewrite_one(packet, meta, found, self.context);
        }
    }

    /// All packets of a batch, which have one next hop; returns the port they leave by. `None` if one of
    /// them needs more; nothing is changed then.
    fn rewrite4_alike(
        &self,
        simd: Simd,
        packets: &mut [Packet],
        metas: &mut [Meta],
        found: NextHopId,
    ) -> Option<PortId> {
        self.rewrite_alike(simd, (packets, metas), (found, self.way_back4), plain_ipv4)
    }

    fn rewrite6_alike(
        &self,
        simd: Simd,
        packets: &mut [Packet],
        metas: &mut [Meta],
        found: NextHopId,
    ) -> Option<PortId> {
        self.rewrite_alike(simd, (packets, metas), (found, self.way_back6), plain_ipv6)
    }

    #[inline(always)]
    fn rewrite_alike<const HEADERS: usize>(
        &self,
        simd: Simd,
        (packets, metas): (&mut [Packet], &mut [Meta]),
        (found, way_back): (NextHopId, u32),
        write: impl Fn(&mut [u8; HEADERS], &Adjacency),
    ) -> Option<PortId> {
        let NextHop::Forward(adjacency) = self.next_hops.get(found) else {
            return None;
        };
        let port = adjacency.port;
        if u32::from(port.0) == way_back || adjacency.unconfirmed.is_some() {
            return None;
        }
        let mut done = false;
        simd.run(Alike::<HEADERS, _> {
            plain: self,
            packets,
            metas,
            // a copy: the compiler sees that no packet overwrites it
            adjacency: *adjacency,
            write,
            done: &mut done,
        });
        done.then_some(port)
    }

    /// False if it is anything else; nothing is changed then.
    #[inline(always)]
    fn rewrite<const HEADERS: usize>(
        &self,
        (packet, meta): (&mut Packet, &mut Meta),
        found: NextHopId,
        way_back: u32,
        write: impl Fn(&mut [u8; HEADERS], &Adjacency),
    ) -> bool {
        let NextHop::Forward(adjacency) = self.next_hops.get(found) else {
            return false;
        };
        let (port, length) = (adjacency.port, meta.l3_length());
        let is_other = !meta.is_pending()
            | (length > adjacency.mtu)
            | (u32::from(port.0) == way_back)
            | adjacency.unconfirmed.is_some();
        if is_other {
            return false;
        }
        packet.truncate(ETHERNET + usize::from(length));
        let Some(headers) = self.region.octets_mut(packet).first_chunk_mut() else {
            return false;
        };
        write(headers, adjacency);
        if packet.length() < self.min_frame {
            pad(packet, port, self.context);
        }
        packet.set_mark(meta.class().0);
        meta.decide(Verdict::Forward(port));
        true
    }
}

/// Packets that all go to one neighbour, so that what it says is read and checked once.
struct Alike<'a, const HEADERS: usize, W> {
    plain: &'a Plain<'a>,
    packets: &'a mut [Packet],
    metas: &'a mut [Meta],
    adjacency: Adjacency,
    write: W,
    /// Set if none of them needed more.
    done: &'a mut bool,
}

impl<const HEADERS: usize, W: Fn(&mut [u8; HEADERS], &Adjacency)> Loop for Alike<'_, HEADERS, W> {
    #[inline(always)]
    fn run(self) {
        let Self {
            plain,
            packets,
            metas,
            adjacency,
            ..
        } = self;
        if !Meta::may_all_leave(metas, adjacency.mtu) {
            return;
        }
        let region = plain.region;
        for (packet, meta) in packets.iter_mut().zip(&*metas) {
            packet.truncate(ETHERNET + usize::from(meta.l3_length()));
            packet.set_mark(meta.class().0);
            // parse has seen the headers, so they are there
            if let Some(headers) = region.octets_mut(packet).first_chunk_mut() {
                (self.write)(headers, &adjacency);
            }
        }
        if Meta::any_shorter(metas, plain.min_frame.saturating_sub(ETHERNET)) {
            for packet in packets {
                pad(packet, adjacency.port, plain.context);
            }
        }
        Meta::forward_all(metas, adjacency.port);
        *self.done = true;
    }
}

#[inline(never)]
fn rewrite_one(packet: &mut Packet, meta: &mut Meta, found: NextHopId, context: &Context<'_>) {
    if !meta.is_pending() {
        return;
    }
    let (tunnel, adjacency) = match resolve(packet, *meta, found, context) {
        Ok(Way::Neighbour(adjacency)) => (None, adjacency),
        Ok(Way::Tunnel(tunnel, outer)) => (Some(tunnel), outer),
        Err(verdict) => return meta.decide(verdict),
    };
    packet.truncate(ETHERNET + usize::from(meta.l3_length()));
    let octets = context.region.octets_mut(packet);
    rewrite_headers(
        octets,
        meta.family(),
        adjacency,
        context.ingress.partial_checksum,
    );
    if let Some(tunnel) = tunnel
        && !wrap(packet, *meta, (tunnel, adjacency), context)
    {
        return meta.decide(Verdict::Drop(Reason::NoOutput));
    }
    pad(packet, adjacency.port, context);
    packet.set_mark(meta.class().0);
    meta.decide(Verdict::Forward(adjacency.port));
}

/// Pads a packet to the least that its output sends.
#[inline(never)]
fn pad(packet: &mut Packet, output: PortId, context: &Context<'_>) {
    let min_frame = context.min_frames.get(usize::from(output.0)).copied();
    packet.pad(context.region, min_frame.unwrap_or(0).into());
}

/// What [`rewrite_headers`] does, at fixed places.
#[inline(always)]
fn plain_ipv4(headers: &mut [u8; PLAIN_IPV4], adjacency: &Adjacency) {
    headers[..12].copy_from_slice(&adjacency.l2[..12]);
    // parse has seen a TTL of 2 or more, but a memif peer that shares the memory may have changed it
    let octets = [headers[22], headers[23], headers[24], headers[25]];
    headers[22..26].copy_from_slice(&checksum::decrement_ttl(octets));
}

/// As [`plain_ipv4`].
#[inline(always)]
fn plain_ipv6(headers: &mut [u8; PLAIN_IPV6], adjacency: &Adjacency) {
    headers[..12].copy_from_slice(&adjacency.l2[..12]);
    headers[21] = headers[21].wrapping_sub(1);
}

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
