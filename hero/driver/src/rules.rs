//! Routes of the fast path, and the match for high priority.

use bora_port::offload::Route;

use crate::device::Device;
use crate::registers::{
    CARDS, CMD, CMD_COMMIT, PEERS, class, cmd_bank, mac_words, next_hop_mac, route,
};

/// High priority: precedence 6 and 7 of the TOS field, which routing protocols use (RFC 2474,
/// 4.2.2).
const HIGH: u32 = 0xC0 << 8;

/// Pattern and mask; the bits set in the mask are compared.
fn ternary(route: &Route) -> [u32; 2] {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(route.len.min(32)))
        .unwrap_or(0);
    [route.address.to_bits() & mask, mask]
}

/// Writes the route of a slot (destination `slot % 3`, bank `slot / 3`), or none. The slot is off until
/// [`commit`].
pub(crate) fn set_route(device: &mut impl Device, cmd: u32, slot: usize, route: Option<&Route>) {
    let (bank, peer) = (slot / PEERS, slot % PEERS);
    device.write(CMD, cmd | cmd_bank(bank));
    // for no route, the reset values, which match nothing
    let words = route.map_or([0, u32::MAX], ternary);
    let mac = mac_words(route.map(|route| route.mac).unwrap_or_default());
    let registers = self::route(peer).into_iter().chain(next_hop_mac(peer));
    for (register, value) in registers.zip(words.into_iter().chain(mac)) {
        device.write(register, value);
    }
}

/// Puts the written routes into force.
pub(crate) fn commit(device: &mut impl Device, cmd: u32) {
    device.write(CMD, cmd | CMD_COMMIT);
}

/// Writes the match for high priority, for all destinations.
pub(crate) fn set_classes(device: &mut impl Device) {
    for destination in 0..CARDS {
        let (pattern, mask) = class(destination);
        for registers in [pattern, mask] {
            for (register, value) in registers.into_iter().zip([0, 0, HIGH]) {
                device.write(register, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_become_masks() {
        let route = |address: [u8; 4], len| Route {
            address: address.into(),
            len,
            mac: [2; 6],
        };
        let ternary = |address, len| ternary(&route(address, len));
        assert_eq!(ternary([10, 1, 2, 3], 32), [0x0A01_0203, u32::MAX]);
        assert_eq!(ternary([10, 1, 2, 3], 8), [0x0A00_0000, 0xFF00_0000]);
        assert_eq!(ternary([255, 0, 0, 0], 1), [0x8000_0000, 0x8000_0000]);
        assert_eq!(ternary([1, 2, 3, 4], 0), [0, 0]);
    }
}
