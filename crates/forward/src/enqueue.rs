//! Last stage: packets that leave are staged by output.

use bora_buffer::{Packet, Region};
use bora_fib::PortId;

use crate::batch::Batch;
use crate::egress::Egress;
use crate::{Reason, Verdict, Vlans};

/// Where packets leave.
pub struct Outputs<'a> {
    /// By port number.
    pub egress: &'a mut [Egress],
    /// The devices that give packets tags.
    pub vlans: &'a Vlans,
    /// As in [`crate::Context`].
    pub min_frames: &'a [u16],
    /// As in [`crate::Context`].
    pub region: &'a Region,
}

impl Outputs<'_> {
    /// Stages a packet that leaves by a VLAN device, with its tags; returns it if there is no such device.
    /// `left` gets the device's number and the octets of the frame.
    fn stage_tagged(
        &mut self,
        mut packet: Packet,
        device: PortId,
        left: &mut impl FnMut(PortId, usize),
    ) -> Result<(), Packet> {
        let Some(vlan) = self.vlans.get(device) else {
            return Err(packet);
        };
        let trunk = usize::from(vlan.trunk.0);
        let min_frame = self.min_frames.get(trunk).copied().unwrap_or(0);
        let Some(egress) = self.egress.get_mut(trunk) else {
            return Err(packet);
        };
        if !vlan.tag(self.region, &mut packet, min_frame) {
            return Err(packet);
        }
        left(device, packet.length());
        egress.stage(packet);
        Ok(())
    }
}

/// Empties the batch. Packets to forward are staged in the [`Egress`] of their port, with the mark that
/// [`crate::rewrite()`] has given them; `rest` gets all others with their verdicts. A port without an egress
/// is [`Reason::NoOutput`]. `left` gets the number of the VLAN device and the octets of each frame that
/// leaves by one.
#[inline]
pub fn enqueue(
    batch: &mut Batch,
    mut outputs: Outputs<'_>,
    mut left: impl FnMut(PortId, usize),
    mut rest: impl FnMut(Packet, Verdict),
) {
    let Batch { packets, meta, .. } = batch;
    let egress = &mut *outputs.egress;
    // most batches leave by one port
    if let Some(port) = batch.leaves.take()
        && let Some(egress) = egress.get_mut(usize::from(port.0))
    {
        return egress.stage_all(packets);
    }
    for (packet, meta) in packets.drain(..).zip(meta) {
        match meta.verdict() {
            Verdict::Forward(port) => match outputs.egress.get_mut(usize::from(port.0)) {
                Some(egress) => egress.stage(packet),
                None => {
                    if let Err(packet) = outputs.stage_tagged(packet, port, &mut left) {
                        rest(packet, Verdict::Drop(Reason::NoOutput));
                    }
                }
            },
            verdict => rest(packet, verdict),
        }
    }
}
