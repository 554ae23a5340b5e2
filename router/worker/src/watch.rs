//! What a worker does while somebody watches: notes packets before the stages, and what became of them after.

use std::sync::Arc;

use bora_buffer::Region;
use bora_capture::{HEAD, Outcome, Seen, Subscription, Tier};
use bora_contract::Reason;
use bora_forward::{Batch, Devices, Verdict};
use rustix::time::{ClockId, clock_gettime};

/// Octets of both Ethernet addresses.
const ADDRESSES: usize = 12;

/// A packet that a subscription wants.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Number of the subscription.
    subscription: usize,
    /// Place in the batch.
    place: usize,
    /// First octets, before they change.
    head: Vec<u8>,
    /// Octets in all.
    length: u32,
}

/// What subscriptions want of this batch, and when they want to look again.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) noted: Vec<Noted>,
    /// Packets that each subscription leaves out before it looks at one.
    skips: Vec<usize>,
}

impl Watching {
    pub(crate) fn new(subscriptions: &[Arc<Subscription>]) -> Self {
        Self {
            noted: Vec::new(),
            skips: subscriptions
                .iter()
                .map(|subscription| skip(subscription.one_in))
                .collect(),
        }
    }
}

/// How many packets to leave out so that each has the chance of one in `one_in`: a geometric distribution,
/// which costs nothing for packets that are left out.
fn skip(one_in: u32) -> usize {
    if one_in <= 1 {
        return 0;
    }
    let chance = 1.0 - fastrand::f64();
    (chance.ln() / (-1.0 / f64::from(one_in)).ln_1p()) as usize
}

/// Notes the packets of a batch that somebody wants to see.
#[cold]
pub(crate) fn note(
    watching: &mut Watching,
    subscriptions: &[Arc<Subscription>],
    batch: &Batch,
    region: &Region,
) {
    let Watching { noted, skips } = watching;
    for ((subscription, wants), left) in subscriptions.iter().enumerate().zip(skips) {
        let mut next = *left;
        while let Some(packet) = batch.packets.get(next) {
            let place = next;
            next += 1 + skip(wants.one_in);
            let octets = region.octets(packet);
            if wants.wants(octets) {
                noted.push(Noted {
                    subscription,
                    place,
                    head: octets[..octets.len().min(HEAD)].to_vec(),
                    length: octets.len() as u32,
                });
            }
        }
        *left = next - batch.packets.len();
    }
}

/// Leaves what became of the packets of a batch.
#[cold]
pub(crate) fn leave(
    noted: &mut Vec<Noted>,
    subscriptions: &[Arc<Subscription>],
    batch: &Batch,
    devices: &Devices,
    region: &Region,
) {
    let time = clock_gettime(ClockId::Monotonic);
    let time = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    for noted in noted.drain(..) {
        let subscription = &subscriptions[noted.subscription];
        let octets = region.octets(&batch.packets[noted.place]);
        let meta = batch.meta[noted.place];
        // tags are beyond the device that the packet leaves by
        let tags = match meta.verdict() {
            Verdict::Forward(output) => devices.get(output).map_or(0, |device| device.tags.len()),
            _ => 0,
        };
        let (addresses, rest) = octets.split_at(octets.len().min(ADDRESSES));
        let now = addresses.iter().chain(rest.iter().skip(tags));
        subscription.leave(Seen {
            time,
            input: meta.input().0,
            length: noted.length,
            head: noted.head,
            now: now.take(subscription.snap).copied().collect(),
            length_now: octets.len().saturating_sub(tags) as u32,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A geometric distribution has this mean, and this standard deviation: of the mean of n draws 1/√n of it.
    #[test]
    fn one_in_so_many_packets_is_looked_at() {
        assert_eq!(skip(1), 0);
        for one_in in [2, 1000, 1 << 20] {
            const DRAWS: usize = 100_000;
            let sum: usize = (0..DRAWS).map(|_| skip(one_in)).sum();
            let (mean, expected) = (sum as f64 / DRAWS as f64, f64::from(one_in - 1));
            let deviation = f64::from(one_in) / (DRAWS as f64).sqrt();
            assert!(
                (mean - expected).abs() < 6.0 * deviation,
                "{one_in}: {mean}"
            );
        }
    }
}
