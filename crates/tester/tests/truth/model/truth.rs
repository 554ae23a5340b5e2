//! The plainest way to count what came out of the router, to compare the analyser with.

use std::collections::{HashMap, HashSet};

use bora_tester::traffic::Traffic;
use bora_tester::trial::Counts;
use bora_wire::checksum::{self, Transport};
use bora_wire::{Protocol, ipv4, ipv6, udp};

use super::Seen;

/// Counts of each stream that follow from the packets in the order in which they came out; what was
/// sent is left at 0.
pub(crate) fn count(traffic: &Traffic, seen: &[Seen]) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); traffic.streams.len()];
    let mut known: HashSet<(u16, u64)> = HashSet::new();
    let mut next: HashMap<(u16, u64), u64> = HashMap::new();
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
            if packet.sequence < *next {
                count.reordered += 1;
            } else {
                *next = packet.sequence + 1;
            }
        }
    }
    counts
}

/// Whether a frame's UDP checksum is right.
pub(crate) fn is_whole(frame: &[u8]) -> bool {
    let (Some(&kind), Some(packet)) = (frame.get(12), frame.get(14..)) else {
        return false;
    };
    let (pseudo, datagram) = if kind == 0x08 {
        let Ok(ip) = ipv4::Packet::new_checked(packet) else {
            return false;
        };
        let length = ip.payload().len() as u32;
        let pseudo = checksum::pseudo_v4(ip.src(), ip.dst(), Protocol::UDP, length as u16);
        (pseudo, ip.payload().to_vec())
    } else {
        let Ok(ip) = ipv6::Packet::new_checked(packet) else {
            return false;
        };
        let length = ip.payload().len() as u32;
        let pseudo = checksum::pseudo_v6(ip.src(), ip.dst(), Protocol::UDP, length);
        (pseudo, ip.payload().to_vec())
    };
    udp::Packet::new_checked(datagram)
        .is_ok_and(|udp| udp.verify_checksum(pseudo) == Transport::Valid)
}
