//! Last stage: what leaves is queued by output and class.

use bora_buffer::Packet;

use crate::batch::Batch;
use crate::schedule::Output;
use crate::{Drop, Verdict};

/// Empties the batch. Packets to forward go to the queue of their class at `outputs[port]`; a
/// full queue refuses only its own ([`Drop::QueueFull`]; [`crate::schedule::QueueStats`] knows the
/// class), and a port that is not there is [`Drop::TxRingFull`]. `rest` gets everything that was
/// not queued, with its verdict.
pub fn enqueue(batch: &mut Batch, outputs: &mut [Output], mut rest: impl FnMut(Packet, Verdict)) {
    let Batch { packets, meta } = batch;
    for (packet, meta) in packets.drain(..).zip(meta.iter()) {
        match meta.verdict {
            Verdict::Forward(port) => match outputs.get_mut(usize::from(port.0)) {
                Some(output) => {
                    if let Err(packet) = output.push(meta.class, packet) {
                        rest(packet, Verdict::Drop(Drop::QueueFull));
                    }
                }
                None => rest(packet, Verdict::Drop(Drop::TxRingFull)),
            },
            verdict => rest(packet, verdict),
        }
    }
}
