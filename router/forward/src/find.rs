//! Before the stages: what each packet of a batch came in by.

use bora_buffer::{Packet, Purpose, Region};
use bora_fib::PortId;

use crate::device::{Trunk, has_tag};
use crate::egress::octets;
use crate::{Batch, Devices, Meta};

/// Packets between the one that is read and the one that is fetched into the cache.
const AHEAD: usize = 8;

/// Tells by which port or device each packet of a batch came in that a port has received, and takes the tags of VLAN devices
/// off. `received` gets the number of each device, with packets, and their octets with tags.
#[inline]
pub fn find_inputs(
    batch: &mut Batch,
    port: PortId,
    devices: &Devices,
    region: &Region,
    received: impl FnMut(PortId, u64, u64),
) {
    match devices.on(port) {
        None => batch.came_by(port),
        Some(trunk) => look_at_each(batch, port, trunk, region, received),
    }
}

/// What [`find_inputs`] does on a port with devices.
#[inline(never)]
fn look_at_each(
    batch: &mut Batch,
    port: PortId,
    trunk: &Trunk,
    region: &Region,
    mut received: impl FnMut(PortId, u64, u64),
) {
    let mut count = |input, packets, octets| {
        if input != port && packets > 0 {
            received(input, packets, octets);
        }
    };
    if !trunk.has_stations() && !any_tag(&batch.packets, region) {
        let input = trunk.untagged().unwrap_or(port);
        batch.came_by(input);
        return count(input, batch.packets.len() as u64, octets(&batch.packets));
    }
    // packets of one input that follow each other are counted at once
    let (mut last, mut packets, mut octets) = (port, 0, 0);
    let packets_of_all = &mut batch.packets[..];
    batch.meta.clear();
    batch.meta.resize(packets_of_all.len(), Meta::default());
    for (place, meta) in batch.meta.iter_mut().enumerate() {
        if let Some(next) = packets_of_all.get(place + AHEAD) {
            region.prefetch(next, Purpose::Write);
        }
        let packet = &mut packets_of_all[place];
        let length = packet.length() as u64;
        let input = trunk.take(region, packet).unwrap_or(port);
        if input != last {
            count(last, packets, octets);
            (last, packets, octets) = (input, 0, 0);
        }
        (packets, octets) = (packets + 1, octets + length);
        *meta = Meta::of(input);
    }
    count(last, packets, octets);
    batch.input = Meta::one_input(&batch.meta);
}

/// Whether one of the frames has a tag; where many have, the first one says it.
#[inline]
fn any_tag(packets: &[Packet], region: &Region) -> bool {
    let mut ahead = packets.iter().skip(AHEAD);
    packets.iter().any(|packet| {
        if let Some(next) = ahead.next() {
            region.prefetch(next, Purpose::Write);
        }
        has_tag(region.octets(packet))
    })
}
