//! Fifth stage: make the packet ready to leave.

use bora_buffer::{Packet, Region};
use bora_fib::{Adjacency, Encapsulation, NextHop, NextHopId, NextHops, PortId};
use bora_wire::{checksum, ipv4, ipv6};

use crate::input::{Input, is_device};
use crate::lookup::{Way, only_outer_way, resolve};
use crate::partial::{complete_ipv4, complete_ipv6};
use crate::simd::{Loop, Simd};
use crate::wrap::Wrapper;
use crate::{Batch, Context, Family, Meta, Reason, Verdict};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;
/// Both Ethernet addresses.
const ADDRESSES: usize = 12;
/// Both, and one VLAN tag.
const TAGGED: usize = ADDRESSES + 4;
/// EtherType, and IPv4 without options.
const PLAIN_IPV4: usize = 2 + 20;
/// EtherType and IPv6.
const PLAIN_IPV6: usize = 2 + 40;

/// Takes each packet to its next hop's output: decrements TTL or hop limit, writes the new Ethernet
/// header with the tags of a device, trims the padding of the old frame and pads to a port's minimum; completes a
/// checksum that the sender left to us. The mark of a packet that leaves is its class.
pub fn rewrite(batch: &mut Batch, context: &Context<'_>) {
    match batch.input.map(|input| context.inputs.row(input)) {
        // the sender may have left checksums to the receiver
        Some(input) if input.partial_checksum() => rewrite_slowly(batch, context),
        Some(input) => Plain::new(context, Some(input), |_| input).rewrite_all(batch),
        None => {
            let input = |meta: Meta| context.inputs.row(meta.input());
            Plain::new(context, None, input).rewrite_all(batch);
        }
    }
}

/// All packets one by one.
#[inline(never)]
fn rewrite_slowly(batch: &mut Batch, context: &Context<'_>) {
    for (place, found) in batch.v4.results().chain(batch.v6.results()) {
        let (packet, meta) = (&mut batch.packets[place], &mut batch.meta[place]);
        rewrite_one(packet, meta, found, context);
    }
    batch.leaves = Meta::one_port(&batch.meta);
}

/// The short way of nearly every packet, to a neighbour, and what it needs for all packets of a batch.
struct Plain<'a, I> {
    context: &'a Context<'a>,
    region: &'a Region,
    next_hops: NextHops<'a>,
    /// Shorter frames may have to be padded.
    min_frame: usize,
    /// The input of all packets, if it is one.
    only: Option<&'a Input>,
    /// The input of a packet.
    input: I,
}

impl<'a, I: Fn(Meta) -> &'a Input> Plain<'a, I> {
    fn new(context: &'a Context<'a>, only: Option<&'a Input>, input: I) -> Self {
        Self {
            context,
            region: context.region,
            next_hops: context.fib.next_hops(),
            min_frame: context.min_frames.iter().copied().max().unwrap_or(0).into(),
            only,
            input,
        }
    }

    #[inline(always)]
    fn rewrite_all(&self, batch: &mut Batch) {
        let Batch {
            packets,
            meta,
            v4,
            v6,
            simd,
            leaves,
            ..
        } = batch;
        // mostly all packets are of one version, and then each is where its next hop is
        if v4.len() == packets.len() {
            if let Some(next_hop) = v4.next_hop_of_all()
                && let Some(port) = self.rewrite_alike(*simd, packets, meta, next_hop, plain_ipv4)
            {
                *leaves = port;
                return;
            }
            let packets = packets.iter_mut().zip(&mut *meta).zip(v4.found());
            packets.for_each(|((packet, meta), &found)| self.rewrite4(packet, meta, found));
        } else if v6.len() == packets.len() {
            if let Some(next_hop) = v6.next_hop_of_all()
                && let Some(port) = self.rewrite_alike(*simd, packets, meta, next_hop, plain_ipv6)
            {
                *leaves = port;
                return;
            }
            let packets = packets.iter_mut().zip(&mut *meta).zip(v6.found());
            packets.for_each(|((packet, meta), &found)| self.rewrite6(packet, meta, found));
        } else {
            for (place, found) in v4.results() {
                self.rewrite4(&mut packets[place], &mut meta[place], found);
            }
            for (place, found) in v6.results() {
                self.rewrite6(&mut packets[place], &mut meta[place], found);
            }
        }
        *leaves = Meta::one_port(meta);
    }

    #[inline(always)]
    fn rewrite4(&self, packet: &mut Packet, meta: &mut Meta, found: NextHopId) {
        if !self.rewrite((packet, meta), found, Family::V4, plain_ipv4) {
            rewrite_one(packet, meta, found, self.context);
        }
    }

    #[inline(always)]
    fn rewrite6(&self, packet: &mut Packet, meta: &mut Meta, found: NextHopId) {
        if !self.rewrite((packet, meta), found, Family::V6, plain_ipv6) {
            rewrite_one(packet, meta, found, self.context);
        }
    }

    /// Whether a packet may leave by a port without a closer look, as far as its input goes.
    #[inline(always)]
    fn may_leave(&self, meta: Meta, family: Family, port: PortId) -> bool {
        (self.input)(meta).may_leave(family, port)
    }

    /// All packets of a batch, which have one next hop; returns the port that they leave by, if it is one. `None` if one of
    /// them needs more; nothing is changed then.
    #[inline(always)]
    fn rewrite_alike<const HEADERS: usize>(
        &self,
        simd: Simd,
        packets: &mut [Packet],
        metas: &mut [Meta],
        found: NextHopId,
        write: impl Fn(&mut [u8; HEADERS]),
    ) -> Option<Option<PortId>> {
        match self.next_hops.get(found) {
            NextHop::Forward(adjacency) => {
                let done = self.may_all_leave(metas, adjacency.port)
                    && adjacency.unconfirmed.is_none()
                    && self.forward_alike(simd, packets, metas, adjacency, write);
                done.then_some(Some(adjacency.port))
            }
            NextHop::Tunnel(tunnel) => {
                let done = self.may_all_leave(metas, tunnel.port)
                    && wrap_alike(packets, metas, tunnel, self.context, write);
                done.then(|| Meta::one_port(metas))
            }
            NextHop::Punt { reason, .. } => {
                let undecided = metas.iter_mut().filter(|meta| meta.is_pending());
                undecided.for_each(|meta| meta.decide(Verdict::Punt(*reason)));
                Some(None)
            }
            NextHop::Group(_) | NextHop::Blackhole => None,
        }
    }

    /// Whether all packets may leave by a port without a closer look, as far as their inputs go.
    #[inline(always)]
    fn may_all_leave(&self, metas: &[Meta], port: PortId) -> bool {
        let family = metas.first().map_or(Family::V4, |meta| meta.family());
        match self.only {
            Some(input) => input.may_leave(family, port),
            None => metas.iter().all(|&meta| self.may_leave(meta, family, port)),
        }
    }

    #[inline(always)]
    fn forward_alike<const HEADERS: usize>(
        &self,
        simd: Simd,
        packets: &mut [Packet],
        metas: &mut [Meta],
        adjacency: &Adjacency,
        write: impl Fn(&mut [u8; HEADERS]),
    ) -> bool {
        let &[ref addresses @ .., _, _] = &adjacency.l2;
        let mut done = false;
        match self.context.devices.get(adjacency.port) {
            Some(device) if !device.tags.is_empty() => {
                let Some(tag) = device.only_tag() else {
                    return false;
                };
                let mut link = [0; TAGGED];
                link[..ADDRESSES].copy_from_slice(addresses);
                link[ADDRESSES..].copy_from_slice(&tag);
                simd.run(self.alike(packets, metas, adjacency, link, write, &mut done));
            }
            _ => simd.run(self.alike(packets, metas, adjacency, *addresses, write, &mut done)),
        }
        done
    }

    #[inline(always)]
    fn alike<'b, const LINK: usize, const HEADERS: usize, W: Fn(&mut [u8; HEADERS])>(
        &'b self,
        packets: &'b mut [Packet],
        metas: &'b mut [Meta],
        adjacency: &Adjacency,
        link: [u8; LINK],
        write: W,
        done: &'b mut bool,
    ) -> Alike<'b, LINK, HEADERS, W> {
        Alike {
            context: self.context,
            min_frame: self.min_frame,
            packets,
            metas,
            output: (adjacency.port, adjacency.mtu),
            link,
            write,
            done,
        }
    }

    /// False if it is anything else; nothing is changed then.
    #[inline(always)]
    fn rewrite<const HEADERS: usize>(
        &self,
        (packet, meta): (&mut Packet, &mut Meta),
        found: NextHopId,
        family: Family,
        write: impl Fn(&mut [u8; HEADERS]),
    ) -> bool {
        let NextHop::Forward(adjacency) = self.next_hops.get(found) else {
            return false;
        };
        let (port, length) = (adjacency.port, meta.l3_length());
        let is_other = !meta.is_pending()
            | (length > adjacency.mtu)
            | !self.may_leave(*meta, family, port)
            | adjacency.unconfirmed.is_some();
        if is_other {
            return false;
        }
        packet.truncate(ETHERNET + usize::from(length));
        let &[ref addresses @ .., _, _] = &adjacency.l2;
        replace(self.region.octets_mut(packet), addresses, write);
        if (packet.length() < self.min_frame || is_device(port))
            && !finish(packet, port, self.context)
        {
            meta.decide(Verdict::Drop(Reason::NoOutput));
            return true;
        }
        packet.set_mark(meta.class().0);
        meta.decide(Verdict::Forward(port));
        true
    }
}

/// Packets that all go to one neighbour, so that what it says is read and checked once.
struct Alike<'a, const LINK: usize, const HEADERS: usize, W> {
    context: &'a Context<'a>,
    /// The output's shortest frame, as in [`Plain`].
    min_frame: usize,
    packets: &'a mut [Packet],
    metas: &'a mut [Meta],
    /// Output and MTU.
    output: (PortId, u16),
    /// What is in front of the EtherType.
    link: [u8; LINK],
    write: W,
    /// Set if none of them needed more.
    done: &'a mut bool,
}

impl<const LINK: usize, const HEADERS: usize, W> Loop for Alike<'_, LINK, HEADERS, W>
where
    W: Fn(&mut [u8; HEADERS]),
{
    #[inline(always)]
    fn run(self) {
        let Self {
            context,
            min_frame,
            packets,
            metas,
            output: (port, mtu),
            link,
            write,
            done,
            ..
        } = self;
        let (region, tags) = (context.region, LINK - ADDRESSES);
        let has_room = |packet: &Packet| packet.headroom(region) >= tags;
        if !Meta::may_all_leave(metas, mtu) || tags > 0 && !packets.iter().all(has_room) {
            return;
        }
        for (packet, meta) in packets.iter_mut().zip(&*metas) {
            packet.truncate(ETHERNET + usize::from(meta.l3_length()));
            packet.set_mark(meta.class().0);
            packet.push(region, tags);
            replace(region.octets_mut(packet), &link, &write);
        }
        if tags == 0 && Meta::any_shorter(metas, min_frame.saturating_sub(ETHERNET)) {
            for packet in packets {
                finish(packet, port, context);
            }
        }
        Meta::forward_all(metas, port);
        *done = true;
    }
}

/// Writes what is in front of the EtherType; `write` changes what follows. Parse has seen the headers, so they are there.
#[inline(always)]
fn replace<const LINK: usize, const HEADERS: usize>(
    octets: &mut [u8],
    link: &[u8; LINK],
    write: impl Fn(&mut [u8; HEADERS]),
) {
    if let Some((start, rest)) = octets.split_first_chunk_mut()
        && let Some(headers) = rest.first_chunk_mut()
    {
        *start = *link;
        write(headers);
    }
}

/// Puts all packets of a batch into one tunnel. False if one of them needs more; nothing is changed then.
#[inline(never)]
fn wrap_alike<const HEADERS: usize>(
    packets: &mut [Packet],
    metas: &mut [Meta],
    tunnel: &Encapsulation,
    context: &Context<'_>,
    write: impl Fn(&mut [u8; HEADERS]),
) -> bool {
    let Ok(outer) = only_outer_way(tunnel, context) else {
        return false;
    };
    let room = usize::from(outer.mtu).checked_sub(tunnel.headers.octets().len());
    let (Some(room), Some(wrapper)) = (room, Wrapper::new(tunnel, outer)) else {
        return false;
    };
    if !Meta::may_all_leave(metas, tunnel.mtu.min(room as u16)) {
        return false;
    }
    if let Some(neighbour) = tunnel.unconfirmed {
        context.fib.note_use(neighbour);
    }
    let least = context.min_frames.get(usize::from(outer.port.0));
    let least = usize::from(least.copied().unwrap_or(0)).saturating_sub(wrapper.length());
    let is_ready = !is_device(outer.port) && !Meta::any_shorter(metas, least);
    let (mut count, mut sum) = (0, 0);
    for (packet, meta) in packets.iter_mut().zip(metas) {
        packet.truncate(ETHERNET + usize::from(meta.l3_length()));
        let is_wrapped = wrapper.wrap(packet, *meta, context, &write);
        if !is_wrapped || !is_ready && !finish(packet, outer.port, context) {
            meta.decide(Verdict::Drop(Reason::NoOutput));
            continue;
        }
        (count, sum) = (count + 1, sum + u64::from(meta.l3_length()));
        packet.set_mark(meta.class().0);
        meta.decide(Verdict::Forward(outer.port));
    }
    context.tunnelling.note_sent(tunnel.port, count, sum);
    true
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
    let partial = context.inputs.get(meta.input()).partial_checksum;
    rewrite_headers(octets, meta.family(), adjacency, partial);
    if let Some(tunnel) = tunnel {
        let wrapper = Wrapper::new(tunnel, adjacency);
        let keep = |_: &mut [u8; 0]| {};
        if !wrapper.is_some_and(|wrapper| wrapper.wrap(packet, *meta, context, keep)) {
            return meta.decide(Verdict::Drop(Reason::NoOutput));
        }
        let octets = meta.l3_length().into();
        context.tunnelling.note_sent(tunnel.port, 1, octets);
    }
    if !finish(packet, adjacency.port, context) {
        return meta.decide(Verdict::Drop(Reason::NoOutput));
    }
    packet.set_mark(meta.class().0);
    meta.decide(Verdict::Forward(adjacency.port));
}

/// Gives a packet the tags of the device that it leaves by, or pads it to the least that its port sends. False if its frame has no
/// room for tags.
#[inline(never)]
fn finish(packet: &mut Packet, output: PortId, context: &Context<'_>) -> bool {
    if is_device(output) {
        let device = context.devices.get(output);
        return device.is_none_or(|device| device.tag(context.region, packet));
    }
    let min_frame = context.min_frames.get(usize::from(output.0)).copied();
    packet.pad(context.region, min_frame.unwrap_or(0).into());
    true
}

/// What [`rewrite_headers`] does behind the addresses, at fixed places.
#[inline(always)]
fn plain_ipv4(headers: &mut [u8; PLAIN_IPV4]) {
    // parse has seen a TTL of 2 or more, but a memif peer that shares the memory may have changed it
    let octets = [headers[10], headers[11], headers[12], headers[13]];
    headers[10..14].copy_from_slice(&checksum::decrement_ttl(octets));
}

/// As [`plain_ipv4`].
#[inline(always)]
fn plain_ipv6(headers: &mut [u8; PLAIN_IPV6]) {
    headers[9] = headers[9].wrapping_sub(1);
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
