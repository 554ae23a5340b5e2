//! After the stages: packets of tunnels come out, and go through the stages again.

use bora_buffer::{MAX_BATCH, Packet, Region};
use bora_fib::PortId;
use bora_wire::ethernet;

use crate::egress::octets;
use crate::{Batch, Devices, Inputs, Meta, Reason, Verdict};

/// Packets that were in tunnels, side by side with the tunnels, and with what the outer packets came by.
#[derive(Debug)]
pub struct Unwrapped {
    packets: Vec<Packet>,
    tunnels: Vec<PortId>,
    outer: Vec<PortId>,
}

impl Unwrapped {
    /// None; it never allocates again.
    #[allow(clippy::new_without_default)] // it allocates
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BATCH),
            tunnels: Vec::with_capacity(MAX_BATCH),
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
        self.tunnels.clear();
        self.outer.clear();
        for (packet, meta) in batch.packets.iter_mut().zip(&mut batch.meta) {
            if meta.verdict() != Verdict::Punt(Reason::Local) {
                continue;
            }
            let outer = meta.input();
            let partial_checksum = inputs.get(outer).partial_checksum;
            if let Some(tunnel) = devices.unwrap(region, packet, partial_checksum) {
                self.tunnels.push(tunnel);
                self.outer.push(outer);
                // only those are pending after the stages
                meta.decide(Verdict::Pending);
            }
        }
        if self.tunnels.len() == batch.packets.len() {
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
        for run in self.tunnels.chunk_by(|one, next| one == next) {
            let (of_tunnel, others) = packets.split_at(run.len());
            let headers = (run.len() * ethernet::HEADER_LEN) as u64;
            let octets = octets(of_tunnel).saturating_sub(headers);
            received(run[0], run.len() as u64, octets);
            packets = others;
        }
        batch.meta.clear();
        batch
            .meta
            .extend(self.tunnels.iter().copied().map(Meta::of));
        batch.input = Meta::one_input(&batch.meta);
    }

    /// What the outer packet came by of the packet at this place.
    #[inline]
    pub fn outer(&self, place: usize) -> Option<PortId> {
        self.outer.get(place).copied()
    }
}
