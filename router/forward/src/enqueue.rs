//! Last stage: packets that leave are staged by output.

use bora_buffer::{Packet, Region};
use bora_fib::PortId;

use crate::batch::Batch;
use crate::egress::Egress;
use crate::{Devices, Reason, Verdict};

/// Where packets leave.
pub struct Outputs<'a> {
    /// By port number.
    pub egress: &'a mut [Egress],
    /// VLAN devices and bonds.
    pub devices: &'a Devices,
    /// As in [`crate::Context`].
    pub min_frames: &'a [u16],
    /// As in [`crate::Context`].
    pub region: &'a Region,
}

impl Outputs<'_> {
    /// Stages a packet that leaves by a device on ports, with its tags; returns it if there is no such device, or no port
    /// that it can leave by. `left` gets the device's number and the octets of the frame.
    fn stage_on_port(
        &mut self,
        mut packet: Packet,
        number: PortId,
        left: &mut impl FnMut(PortId, usize),
    ) -> Result<(), Packet> {
        let Some(device) = self.devices.get(number) else {
            return Err(packet);
        };
        let Some(port) = device.ports.choose(self.region.octets(&packet)) else {
            return Err(packet);
        };
        let port = usize::from(port.0);
        let min_frame = self.min_frames.get(port).copied().unwrap_or(0);
        let Some(egress) = self.egress.get_mut(port) else {
            return Err(packet);
        };
        if !device.tag(self.region, &mut packet, min_frame) {
            return Err(packet);
        }
        left(number, packet.length());
        egress.stage(packet);
        Ok(())
    }
}

/// Empties the batch. Packets to forward are staged in the [`Egress`] of their port, with the mark that
/// [`crate::rewrite()`] has given them; `rest` gets all others with their verdicts. A port without an egress
/// is [`Reason::NoOutput`]. `left` gets the number of the VLAN device or bond and the octets of each frame
/// that leaves by one.
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
                    if let Err(packet) = outputs.stage_on_port(packet, port, &mut left) {
                        rest(packet, Verdict::Drop(Reason::NoOutput));
                    }
                }
            },
            verdict => rest(packet, verdict),
        }
    }
}
