//! Packets that do not leave by an output: dropped, or handed to Linux.

use bora_buffer::{Packet, Pool, Region};
use bora_contract::Counters;
use bora_fib::{FibReader, PortId};
use bora_forward::{Devices, Inputs, Meta, Reason, Unwrapped, Urgency, Verdict};

use crate::punt::{Budgets, PuntRings, Punted};

/// What it takes to be done with packets that came by one port.
pub(crate) struct Rest<'a> {
    pub(crate) port: PortId,
    /// What they were in, if they were in tunnels.
    pub(crate) unwrapped: Option<&'a Unwrapped>,
    pub(crate) region: &'a Region,
    pub(crate) fib: &'a FibReader,
    pub(crate) devices: &'a Devices,
    pub(crate) inputs: &'a Inputs,
    pub(crate) dropped: &'a Counters,
    pub(crate) pool: &'a mut Pool,
    pub(crate) budgets: &'a mut Budgets,
    pub(crate) punts: &'a PuntRings,
    pub(crate) punted_any: bool,
}

impl Rest<'_> {
    /// Takes the packet that was at this place of the batch.
    #[inline]
    pub(crate) fn take(&mut self, place: usize, mut packet: Packet, meta: Meta) {
        let reason = match meta.verdict() {
            Verdict::Punt(reason) => reason,
            Verdict::Drop(reason) => return self.drop(packet, reason),
            Verdict::Pending | Verdict::Forward(_) => return self.drop(packet, Reason::NoOutput),
        };
        if reason.has_budget() && !self.budgets.take(reason) {
            return self.drop(packet, Reason::PuntBudget);
        }
        let urgency = Urgency::of(reason, self.region.octets(&packet), self.fib);
        let outer = self.unwrapped.and_then(|all| all.outer(place));
        if let Some(outer) = outer {
            outer.rewrap(self.region, &mut packet);
        }
        let outer = outer.map_or(meta.input(), |outer| outer.input);
        if let Some(device) = self.devices.get(outer) {
            device.restore(self.region, &mut packet);
        }
        let punted = Punted {
            packet,
            port: self.port,
            reason,
            partial_checksum: self.inputs.get(outer).partial_checksum,
        };
        self.punted_any = true;
        if let Err(punted) = self.punts.push(punted, urgency) {
            self.drop(punted.packet, Reason::PuntRingFull);
        }
    }

    fn drop(&mut self, packet: Packet, reason: Reason) {
        self.dropped[reason].add(1);
        self.pool.give(packet.into_frame(self.region));
    }
}
