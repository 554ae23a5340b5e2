//! After the stages: packets of tunnels come out, and go through the stages again.

use bora_buffer::{MAX_BATCH, Packet, Region};
use bora_fib::PortId;
use bora_wire::ethernet;

use crate::egress::octets;
use crate::tunnel::{Arrival, Start, Words};
use crate::{Batch, Device, Devices, Inputs, Meta, Reason, Verdict};

/// A packet that was in a tunnel: what it was in.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    /// The tunnel.
    pub tunnel: PortId,
    /// What the outer packet came by.
    pub input: PortId,
    /// Where the packet inside begins in the outer frame, octets.
    begin: u16,
    /// What the outer frame had there.
    kept: Words,
}

impl Outer {
    /// Puts a packet that is otherwise as it came into the outer one again.
    pub fn rewrap(&self, region: &Region, packet: &mut Packet) {
        if let Some(header) = region.octets_mut(packet).first_chunk_mut() {
            self.kept.put(header);
        }
        packet.push(region, self.begin.into());
    }
}

/// The last packet that came through a tunnel: the next one is mostly the same tunnel's.
#[derive(Clone, Copy, Debug)]
pub struct Last<'a> {
    start: Start,
    arrival: Arrival,
    device: &'a Device,
    /// The Ethernet header that what is inside gets, if it has none.
    header: Option<Words>,
}

impl Devices {
    /// Makes the packet inside a frame, if it has come through a tunnel. `input` is what the frame has come by,
    /// `partial_checksum` as of [`crate::Ingress`]; `last` is none at first.
    #[inline]
    pub fn unwrap<'a>(
        &'a self,
        region: &Region,
        packet: &mut Packet,
        (input, partial_checksum): (PortId, bool),
        last: &mut Option<Last<'a>>,
    ) -> Option<Outer> {
        let frame = region.octets(packet);
        let start = Start::of(frame)?;
        let Last {
            arrival,
            device,
            header,
            ..
        } = match *last {
            Some(known) if known.arrival.is_alike(known.start, start) => known,
            _ => *last.insert(self.arrival(frame, start, partial_checksum)?),
        };
        if !arrival.is_plain(frame, start) {
            return None;
        }
        let (begin, kept) = arrival.unwrap(region, packet, header)?;
        Some(Outer {
            tunnel: device.ingress.port,
            input,
            begin,
            kept,
        })
    }

    #[inline(never)]
    fn arrival(&self, frame: &[u8], start: Start, partial_checksum: bool) -> Option<Last<'_>> {
        let arrival = Arrival::of(frame, start, partial_checksum)?;
        let device = self.tunnel(arrival.key)?;
        let is_expected = device.only_from.is_none_or(|far| far == arrival.source);
        let loops = arrival.comes_from(device.ingress.mac, frame);
        (is_expected && !loops).then_some(Last {
            start,
            arrival,
            device,
            header: arrival.header(device.ingress.mac),
        })
    }
}

/// Packets that were in tunnels, side by side with what they were in.
#[derive(Debug)]
pub struct Unwrapped {
    packets: Vec<Packet>,
    outer: Vec<Outer>,
}

impl Unwrapped {
    /// None; it never allocates again.
    #[allow(clippy::new_without_default)] // it allocates
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BATCH),
            outer: Vec::with_capacity(MAX_BATCH),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes those packets out of a batch, after [`crate::run`], that are for the router itself and have come through a tunnel.
    #[inline]
    pub fn take(&mut self, batch: &mut Batch, devices: &Devices, inputs: &Inputs, region: &Region) {
        // what leaves by one port is nothing of the router's
        if devices.has_tunnels() && batch.leaves.is_none() {
            self.look_into(batch, devices, inputs, region);
        }
    }

    #[inline(never)]
    fn look_into(
        &mut self,
        batch: &mut Batch,
        devices: &Devices,
        inputs: &Inputs,
        region: &Region,
    ) {
        self.outer.clear();
        let mut last = None;
        for (packet, meta) in batch.packets.iter_mut().zip(&mut batch.meta) {
            if meta.verdict() != Verdict::Punt(Reason::Local) {
                continue;
            }
            let partial_checksum = inputs.row(meta.input()).partial_checksum();
            let input = (meta.input(), partial_checksum);
            if let Some(outer) = devices.unwrap(region, packet, input, &mut last) {
                self.outer.push(outer);
                // only those are pending after the stages
                meta.decide(Verdict::Pending);
            }
        }
        if self.outer.len() == batch.packets.len() {
            std::mem::swap(&mut self.packets, &mut batch.packets);
            return;
        }
        let mut metas = batch.meta.iter();
        let is_taken = |_: &mut Packet| metas.next().is_some_and(|meta| meta.is_pending());
        self.packets.extend(batch.packets.extract_if(.., is_taken));
        batch.meta.retain(|meta| !meta.is_pending());
    }

    /// Moves the packets to an empty batch. `received` gets the number of each tunnel, packets, and their octets.
    pub fn fill(&mut self, batch: &mut Batch, mut received: impl FnMut(PortId, u64, u64)) {
        std::mem::swap(&mut batch.packets, &mut self.packets);
        let mut packets = &batch.packets[..];
        let runs = self.outer.chunk_by(|one, next| one.tunnel == next.tunnel);
        for run in runs {
            let (of_tunnel, others) = packets.split_at(run.len());
            let headers = (run.len() * ethernet::HEADER_LEN) as u64;
            let octets = octets(of_tunnel).saturating_sub(headers);
            received(run[0].tunnel, run.len() as u64, octets);
            packets = others;
        }
        batch.meta.clear();
        let inputs = self.outer.iter().map(|outer| Meta::of(outer.tunnel));
        batch.meta.extend(inputs);
        batch.input = Meta::one_input(&batch.meta);
    }

    /// What the packet at this place was in.
    #[inline]
    pub fn outer(&self, place: usize) -> Option<&Outer> {
        self.outer.get(place)
    }
}
