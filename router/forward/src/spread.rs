//! Receive-side scaling in software.

use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, ethernet};

use crate::Family;
use crate::hash::hash_of;

/// A number that is the same for all packets of a flow; 0 if the frame is not IP. The frame is as it
/// came in. Flows are told apart by addresses, protocol and ports, whatever tags they have.
#[inline]
pub fn flow_of(octets: &[u8]) -> u32 {
    let found = ethernet::Frame::new_checked(octets).and_then(|frame| Untagged::find(&frame));
    let Ok(found) = found else {
        return 0;
    };
    let tags = found.offset - ethernet::HEADER_LEN;
    let frame = octets.get(tags..).unwrap_or_default();
    match found.ethertype {
        EtherType::IPV4 => hash_of(frame, Family::V4),
        EtherType::IPV6 => hash_of(frame, Family::V6),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_flows_are_told_apart_as_untagged_ones() {
        let mut frame = [0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        for port in 0..4 {
            (frame[23], frame[35]) = (17, port);
            let tagged = [&frame[..12], &[0x81, 0, 0, 100], &frame[12..]].concat();
            let twice = [&frame[..12], &[0x88, 0xa8, 0, 9], &tagged[12..]].concat();
            let flow = flow_of(&frame);
            assert_ne!(flow, 0);
            assert_eq!([flow_of(&tagged), flow_of(&twice)], [flow; 2]);
        }
    }
}
