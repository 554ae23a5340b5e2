//! Last stage: packets that leave are staged by output, marked with their class.

use bora_buffer::Packet;

use crate::batch::Batch;
use crate::egress::Egress;
use crate::{Reason, Verdict};

/// Empties the batch. Packets to forward are staged in the [`Egress`] of their port; `rest` gets all
/// others with their verdicts. A port without an egress is [`Reason::NoOutput`].
#[inline]
pub fn enqueue(batch: &mut Batch, egress: &mut [Egress], mut rest: impl FnMut(Packet, Verdict)) {
    let Batch { packets, meta, .. } = batch;
    // most batches leave by one port
    if let Some(port) = batch.leaves.take()
        && let Some(egress) = egress.get_mut(usize::from(port.0))
    {
        let last = egress.queues().last_class();
        let marked = packets.drain(..).zip(meta).map(|(mut packet, meta)| {
            packet.set_mark(meta.class().0.min(last));
            packet
        });
        return egress.stage_all(marked);
    }
    for (mut packet, meta) in packets.drain(..).zip(meta) {
        match meta.verdict() {
            Verdict::Forward(port) => match egress.get_mut(usize::from(port.0)) {
                Some(egress) => {
                    packet.set_mark(meta.class().0.min(egress.queues().last_class()));
                    egress.stage(packet);
                }
                None => rest(packet, Verdict::Drop(Reason::NoOutput)),
            },
            verdict => rest(packet, verdict),
        }
    }
}
