//! Last stage: packets that leave are staged by output.

use bora_buffer::Packet;

use crate::batch::Batch;
use crate::egress::Egress;
use crate::{Reason, Verdict};

/// Empties the batch. Packets to forward are staged in the [`Egress`] of their port, with the mark that
/// [`crate::rewrite()`] has given them; `rest` gets all others with their verdicts. A port without an egress is [`Reason::NoOutput`].
#[inline]
pub fn enqueue(batch: &mut Batch, egress: &mut [Egress], mut rest: impl FnMut(Packet, Verdict)) {
    let Batch { packets, meta, .. } = batch;
    // most batches leave by one port
    if let Some(port) = batch.leaves.take()
        && let Some(egress) = egress.get_mut(usize::from(port.0))
    {
        return egress.stage_all(packets);
    }
    for (packet, meta) in packets.drain(..).zip(meta) {
        match meta.verdict() {
            Verdict::Forward(port) => match egress.get_mut(usize::from(port.0)) {
                Some(egress) => egress.stage(packet),
                None => rest(packet, Verdict::Drop(Reason::NoOutput)),
            },
            verdict => rest(packet, verdict),
        }
    }
}
