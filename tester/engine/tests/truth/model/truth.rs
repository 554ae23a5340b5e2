//! The plainest way to count what came out of the router, to compare the analyser with.

use std::collections::{HashMap, HashSet};

use bora_tester::traffic::Traffic;
use bora_tester::trial::Counts;
use bora_wire::checksum::{self, Transport};
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use super::Seen;

/// Counts of each stream that follow from the packets in the order in which they came out; what was
/// sent is left at 0.
pub(crate) fn count(traffic: &Traffic, seen: &[Seen]) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); traffic.streams.len()];
    let mut known: HashSet<(u16, u64)> = HashSet::new();
    let mut next: HashMap<(u16, u64), u64> = HashMap::new();
    let mut order: HashMap<u16, Vec<u64>> = HashMap::new();
    for packet in seen {
        let stream = &traffic.streams[usize::from(packet.stream)];
        let count = &mut counts[usize::from(packet.stream)];
        if !packet.whole {
            count.corrupted += 1;
        } else if packet.port != stream.to {
            count.misrouted += 1;
        } else if !known.insert((packet.stream, packet.sequence)) {
            count.duplicated += 1;
        } else {
            count.received += 1;
            let flow = packet.sequence % u64::from(stream.flows);
            // RFC 4737, 3.3: reordered if its number is below the next expected one
            let next = next.entry((packet.stream, flow)).or_default();
            let order = order.entry(packet.stream).or_default();
            if packet.sequence < *next {
                count.reordered += 1;
                // RFC 4737, 4.2.2: from the first that was sent later
                let first = order.iter().position(|&other| other > packet.sequence);
                let extent = (order.len() - first.unwrap()) as u64;
                count.extent_sum += extent;
                count.extent_max = count.extent_max.max(extent);
            } else {
                *next = packet.sequence + 1;
            }
            order.push(packet.sequence);
        }
    }
    counts
}

/// Whether a frame's UDP checksum is right.
pub(crate) fn is_whole(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else {
        return false;
    };
    let found = match frame.ethertype() {
        EtherType::IPV4 => ipv4::Packet::new_checked(frame.payload())
            .map(|ip| checksum::transport_v4(ip.src(), ip.dst(), Protocol::UDP, ip.payload())),
        _ => ipv6::Packet::new_checked(frame.payload())
            .map(|ip| checksum::transport_v6(ip.src(), ip.dst(), Protocol::UDP, ip.payload())),
    };
    found == Ok(Transport::Valid)
}
