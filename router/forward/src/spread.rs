//! Receive-side scaling in software.

use bora_wire::{EtherType, ethernet};

use crate::Family;
use crate::hash::hash_of;

/// A number that is the same for all packets of a flow; 0 if the frame is not IP. The frame is as it
/// came in. Flows are told apart by addresses, protocol and ports.
#[inline]
pub fn flow_of(octets: &[u8]) -> u32 {
    let Ok(frame) = ethernet::Frame::new_checked(octets) else {
        return 0;
    };
    match frame.ethertype() {
        EtherType::IPV4 => hash_of(octets, Family::V4),
        EtherType::IPV6 => hash_of(octets, Family::V6),
        _ => 0,
    }
}
