//! Helpers for a card's registers, with the names of hero/README.md.

use std::fmt;

use bora_contract::Reason;

pub use crate::map::Counter;
pub(crate) use crate::map::*;

/// Cards on one bus.
pub const CARDS: usize = 4;
/// The other cards, which a card can send to.
pub const PEERS: usize = CARDS - 1;

/// The bits of CMD that select the bank of route registers and their counters.
pub(crate) fn cmd_bank(bank: usize) -> u32 {
    (bank as u32) << CMD_BANK_SHIFT
}

/// Rings of which a completion was lost: low and high priority, transmit.
pub(crate) const STATUS_BROKEN: u32 = 7 << STATUS_BROKEN_SHIFT;

pub(crate) fn status_routes(status: u32) -> usize {
    (status >> STATUS_ROUTES_SHIFT & 0xFF) as usize
}

pub(crate) fn status_version(status: u32) -> u32 {
    status >> STATUS_VERSION_SHIFT
}

/// Fast path fault, bus error, frame dropped: the counters say which.
pub(crate) const IRQ_COUNTED: u32 = IRQ_FAULT | IRQ_BUS | IRQ_DROP;

/// Pattern and mask of the route to a peer, in the bank that CMD names.
pub(crate) fn route(peer: usize) -> [u8; 2] {
    let first = ROUTE + 2 * peer as u8;
    [first, first + 1]
}

/// Pattern and mask of a destination's class: destination and source address, then TOS and protocol.
pub(crate) fn class(destination: usize) -> ([u8; 3], [u8; 3]) {
    let first = CLASS + 6 * destination as u8;
    let words = |first| [first, first + 1, first + 2];
    (words(first), words(first + 3))
}

pub(crate) fn next_hop_mac(peer: usize) -> [u8; 2] {
    let first = NEXTHOP_MAC + 2 * peer as u8;
    [first, first + 1]
}

pub(crate) fn peer_base(peer: usize) -> u8 {
    PEER_BASE + peer as u8
}

pub(crate) fn forwarded(peer: usize) -> u8 {
    FWD_CNT + peer as u8
}

/// The number of the card that is a card's peer `peer`.
pub fn card_of_peer(card: usize, peer: usize) -> usize {
    if peer < card { peer } else { peer + 1 }
}

/// Bus address of a card's aperture.
pub fn aperture(card: usize) -> u32 {
    0x8000_0000 + ((card as u32) << 20)
}

/// A MAC address as two registers hold it: octet 0 in the lowest bits.
pub(crate) fn mac_words(mac: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = mac;
    [
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, 0, 0]),
    ]
}

/// Number of counters.
pub(crate) const COUNTERS: usize = Counter::ALL.len();

impl Counter {
    /// The drop reason of this counter; `None` if it does not count drops.
    pub fn reason(self) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.name() == self.name())
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        assert_eq!((route(0), route(2)), ([14, 15], [18, 19]));
        assert_eq!(class(0), ([20, 21, 22], [23, 24, 25]));
        assert_eq!(class(3).1, [41, 42, 43]);
        assert_eq!((next_hop_mac(0), next_hop_mac(2)), ([44, 45], [48, 49]));
        assert_eq!((peer_base(0), forwarded(0), forwarded(2)), (50, 59, 61));
        assert_eq!(aperture(3), 0x8030_0000);
        let numbers = Counter::ALL.iter().map(|&counter| counter as usize);
        assert!(numbers.eq(0..COUNTERS));
        assert!(Counter::ReceiverDisabled.is_receive_drop());
        assert!(!Counter::BurstWithoutGrant.is_receive_drop());
    }

    #[test]
    fn octet_0_of_an_address_is_lowest() {
        let words = mac_words([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(words, [0x3322_1102, 0x5544]);
    }

    #[test]
    fn peers_leave_the_card_itself_out() {
        let peers = |card| [0, 1, 2].map(|peer| card_of_peer(card, peer));
        assert_eq!((peers(0), peers(2)), ([1, 2, 3], [0, 1, 3]));
    }
}
