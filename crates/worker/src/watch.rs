//! What a worker does while somebody watches: notes packets before the stages, and what became of them after.

use std::sync::Arc;

use bora_buffer::Region;
use bora_contract::Reason;
use bora_fib::PortId;
use bora_forward::{Batch, Verdict};
use bora_watch::{HEAD, Outcome, Sighting, Tap, Tier};
use rustix::time::{ClockId, clock_gettime};

/// A packet that a tap wants.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Number of the tap.
    tap: usize,
    /// Place in the batch.
    place: usize,
    /// First octets, before they change.
    head: Vec<u8>,
    /// Octets in all.
    length: u32,
}

/// Notes the packets of a batch that somebody wants to see.
#[cold]
pub(crate) fn note(noted: &mut Vec<Noted>, taps: &[Arc<Tap>], batch: &Batch, region: &Region) {
    for (tap, wants) in taps.iter().enumerate() {
        for (place, packet) in batch.packets.iter().enumerate() {
            if wants.one_in > 1 && fastrand::u32(..wants.one_in) != 0 {
                continue;
            }
            let octets = region.octets(packet);
            if wants.wants(octets) {
                noted.push(Noted {
                    tap,
                    place,
                    head: octets[..octets.len().min(HEAD)].to_vec(),
                    length: octets.len() as u32,
                });
            }
        }
    }
}

/// Leaves what became of the packets of a batch that came in by `input`.
#[cold]
pub(crate) fn leave(
    noted: &mut Vec<Noted>,
    taps: &[Arc<Tap>],
    (batch, region): (&Batch, &Region),
    input: PortId,
) {
    let time = clock_gettime(ClockId::Monotonic);
    let time = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    for noted in noted.drain(..) {
        let tap = &taps[noted.tap];
        let octets = region.octets(&batch.packets[noted.place]);
        let meta = batch.meta[noted.place];
        tap.leave(Sighting {
            time,
            input: input.0,
            length: noted.length,
            head: noted.head,
            now: octets[..octets.len().min(tap.snap)].to_vec(),
            length_now: octets.len() as u32,
            tier: Tier::Engine,
            outcome: match meta.verdict() {
                Verdict::Forward(port) => Outcome::Sent(port.0),
                Verdict::Punt(reason) => Outcome::ToLinux(reason),
                Verdict::Drop(reason) => Outcome::Dropped(reason),
                Verdict::Pending => Outcome::Dropped(Reason::NoOutput),
            },
            class: Some(meta.class().0),
        });
    }
}
