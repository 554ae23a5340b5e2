//! Last stage: packets that leave are staged by output.

use bora_buffer::{Packet, Region};
use bora_fib::PortId;

use crate::batch::Batch;
use crate::egress::{Egress, octets};
use crate::input::is_device;
use crate::{Devices, Meta, Reason, Verdict};

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
    /// Finds the port by which all packets leave, which leave by one device; `None` if it is not one. `left` as for [`enqueue`].
    fn leave_device(
        &self,
        packets: &mut [Packet],
        number: PortId,
        left: &mut impl FnMut(PortId, u64, u64),
    ) -> Option<PortId> {
        let port = self.devices.get(number)?.ports.only()?;
        let min_frame = self.min_frame(port);
        if packets.iter().any(|packet| packet.length() < min_frame)
            && !packets
                .iter_mut()
                .all(|packet| packet.pad(self.region, min_frame))
        {
            return None;
        }
        left(number, packets.len() as u64, octets(packets));
        Some(port)
    }

    /// Finds the ports by which packets leave that leave by devices. `left` as for [`enqueue`].
    #[inline(never)]
    fn leave_devices(
        &self,
        packets: &mut [Packet],
        metas: &mut [Meta],
        mut left: impl FnMut(PortId, u64, u64),
    ) {
        let mut tell = |device, packets, octets| {
            if packets > 0 {
                left(device, packets, octets);
            }
        };
        // packets of one device that follow each other are counted at once
        let (mut last, mut count, mut octets) = (PortId(0), 0, 0);
        for (packet, meta) in packets.iter_mut().zip(metas) {
            let Verdict::Forward(output) = meta.verdict() else {
                continue;
            };
            if !is_device(output) {
                continue;
            }
            let Some(port) = self.port_of(packet, output) else {
                meta.decide(Verdict::Drop(Reason::NoOutput));
                continue;
            };
            meta.decide(Verdict::Forward(port));
            if output != last {
                tell(last, count, octets);
                (last, count, octets) = (output, 0, 0);
            }
            (count, octets) = (count + 1, octets + packet.length() as u64);
        }
        tell(last, count, octets);
    }

    /// The port by which a packet leaves, which has the tags of the device that it leaves by. `None` if there is no such device,
    /// or no port that it can leave by.
    #[inline(always)]
    fn port_of(&self, packet: &mut Packet, number: PortId) -> Option<PortId> {
        let device = self.devices.get(number)?;
        let frame = self.region.octets(packet);
        let port = device.ports.choose(frame, device.tags.len())?;
        packet
            .pad(self.region, self.min_frame(port))
            .then_some(port)
    }

    fn min_frame(&self, port: PortId) -> usize {
        let min_frame = self.min_frames.get(usize::from(port.0));
        min_frame.copied().unwrap_or(0).into()
    }
}

/// Empties the batch. Packets to forward are staged in the [`Egress`] of their port, with the mark that
/// [`crate::rewrite()`] has given them; `rest` gets all others, with their places and what is known of them. A port without
/// an egress is [`Reason::NoOutput`]. `left` gets the number of each VLAN device or bond that packets leave by, how many, and
/// the octets of their frames.
#[inline]
pub fn enqueue(
    batch: &mut Batch,
    outputs: Outputs<'_>,
    mut left: impl FnMut(PortId, u64, u64),
    mut rest: impl FnMut(usize, Packet, Meta),
) {
    let Batch { packets, meta, .. } = batch;
    let mut leaves = batch.leaves.take();
    if leaves.map_or(!outputs.devices.is_empty(), is_device) {
        leaves = leaves.and_then(|device| outputs.leave_device(packets, device, &mut left));
        if leaves.is_none() {
            outputs.leave_devices(packets, meta, left);
            leaves = Meta::one_port(meta);
        }
    }
    // most batches leave by one port
    if let Some(port) = leaves
        && let Some(egress) = outputs.egress.get_mut(usize::from(port.0))
    {
        return egress.stage_all(packets);
    }
    for (place, (packet, meta)) in packets.drain(..).zip(meta).enumerate() {
        let Verdict::Forward(port) = meta.verdict() else {
            rest(place, packet, *meta);
            continue;
        };
        match outputs.egress.get_mut(usize::from(port.0)) {
            Some(egress) => egress.stage(packet),
            None => rest(place, packet, meta.with(Verdict::Drop(Reason::NoOutput))),
        }
    }
}
