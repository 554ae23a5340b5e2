//! Registers of a card by the names of hero/README.md, and what is in them.

use std::fmt;

/// Cards on one bus.
pub const CARDS: usize = 4;
/// Destinations of a card that are other cards.
pub(super) const PEERS: usize = CARDS - 1;

pub(super) const ID: u8 = 0;
/// "HERO".
pub(super) const ID_VALUE: u32 = 0x4845_524F;
/// Version of the interface in STATUS.
pub(super) const VERSION: u32 = 1;

pub(super) const CMD: u8 = 1;
pub(super) const CMD_RESET: u32 = 1;
pub(super) const CMD_RX: u32 = 1 << 1;
pub(super) const CMD_TX: u32 = 1 << 2;
pub(super) const CMD_FAST: u32 = 1 << 3;
pub(super) const CMD_COMMIT: u32 = 1 << 5;

/// The bank of the route registers and their counters, in CMD.
pub(super) fn cmd_bank(bank: usize) -> u32 {
    (bank as u32) << 8
}

pub(super) const STATUS: u8 = 2;
pub(super) const STATUS_READY: u32 = 1;
pub(super) const STATUS_LINK: u32 = 1 << 1;
/// Rings of which a completion was lost: low and high priority, transmit.
pub(super) const STATUS_BROKEN: u32 = 7 << 4;

pub(super) fn status_routes(status: u32) -> usize {
    (status >> 8 & 0xFF) as usize
}

pub(super) fn status_version(status: u32) -> u32 {
    status >> 16
}

pub(super) const MAC: u8 = 3;
pub(super) const IRQ_MASK: u8 = 6;
/// Reading it clears what it shows.
pub(super) const IRQ_MASKED: u8 = 7;
pub(super) const RXLO_DESC: u8 = 8;
pub(super) const RXHI_DESC: u8 = 9;
pub(super) const TX_DESC: u8 = 11;
pub(super) const LEVELS: u8 = 12;
pub(super) const CPL_BASE: u8 = 13;

/// Interrupt events.
pub(super) const EVENT_RXLO: u32 = 1;
pub(super) const EVENT_RXHI: u32 = 1 << 1;
pub(super) const EVENT_TX: u32 = 1 << 2;
/// Fast path fault, bus error, frame dropped: the counters say which.
pub(super) const EVENT_COUNTED: u32 = 7 << 5;
/// A bus transaction failed.
pub(super) const EVENT_BUS: u32 = 1 << 6;

const ROUTE: u8 = 14;
const CLASS: u8 = 20;
const NEXTHOP_MAC: u8 = 44;
const PEER_BASE: u8 = 50;
const FWD_CNT: u8 = 59;
/// Frames enqueued to the host.
pub(super) const FWD_CNT_HOST: u8 = 62;
pub(super) const DROP_CNT: u8 = 63;

/// Pattern and mask of the route to a peer, in the bank that CMD names.
pub(super) fn route(peer: usize) -> [u8; 2] {
    let first = ROUTE + 2 * peer as u8;
    [first, first + 1]
}

/// Pattern and mask of a destination's class: destination and source address, then TOS and protocol.
pub(super) fn class(destination: usize) -> ([u8; 3], [u8; 3]) {
    let first = CLASS + 6 * destination as u8;
    let words = |first| [first, first + 1, first + 2];
    (words(first), words(first + 3))
}

pub(super) fn next_hop_mac(peer: usize) -> [u8; 2] {
    let first = NEXTHOP_MAC + 2 * peer as u8;
    [first, first + 1]
}

pub(super) fn peer_base(peer: usize) -> u8 {
    PEER_BASE + peer as u8
}

pub(super) fn forwarded(peer: usize) -> u8 {
    FWD_CNT + peer as u8
}

/// The card a card's peer of a destination is.
pub(super) fn card_of_peer(card: usize, peer: usize) -> usize {
    if peer < card { peer } else { peer + 1 }
}

/// Bus address of a card's aperture.
pub(super) fn aperture(card: usize) -> u32 {
    0x8000_0000 + ((card as u32) << 20)
}

/// A MAC address as two registers hold it: octet 0 in the lowest bits.
pub(super) fn mac_words(mac: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = mac;
    [
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, 0, 0]),
    ]
}

/// A counter that DROP_CNT shows, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Frames with a wrong FCS.
    BadFcs,
    /// Frames of fewer than 60 octets.
    Runt,
    /// Frames too long for Ethernet.
    Giant,
    /// IPv4 with a wrong header checksum.
    BadIpChecksum,
    /// For another station.
    ForeignMac,
    /// No room between the clocks.
    InputFifoFull,
    /// No room in the queue to another card.
    PeerVoqFull,
    /// No room in the queue to the host.
    HostVoqFull,
    /// Received while the receiver was off.
    ReceiverDisabled,
    /// Bursts that came without a grant.
    BurstWithoutGrant,
    /// Bursts of more than was granted.
    BurstOverGrant,
    /// Bursts that did not end in time.
    BurstTimedOut,
    /// Bursts with a bad control word or count.
    BurstMalformed,
    /// Frames to send of no possible length.
    TransmitLength,
    /// Bus transactions that failed.
    BusError,
    /// Vectors that found no room.
    VectorRefused,
    /// Frames received, good or bad.
    Received,
    /// Frames sent.
    Sent,
    /// Grants given.
    Grants,
    /// Requests repeated after a time-out.
    RequestsRepeated,
    /// Bursts sent.
    Bursts,
    /// Completions that the host's memory refused.
    LostCompletions,
}

/// Number of counters.
pub(super) const COUNTERS: usize = Counter::ALL.len();

impl Counter {
    /// All of them, by number.
    pub const ALL: [Self; 22] = [
        Self::BadFcs,
        Self::Runt,
        Self::Giant,
        Self::BadIpChecksum,
        Self::ForeignMac,
        Self::InputFifoFull,
        Self::PeerVoqFull,
        Self::HostVoqFull,
        Self::ReceiverDisabled,
        Self::BurstWithoutGrant,
        Self::BurstOverGrant,
        Self::BurstTimedOut,
        Self::BurstMalformed,
        Self::TransmitLength,
        Self::BusError,
        Self::VectorRefused,
        Self::Received,
        Self::Sent,
        Self::Grants,
        Self::RequestsRepeated,
        Self::Bursts,
        Self::LostCompletions,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadFcs => "bad_fcs",
            Self::Runt => "runt",
            Self::Giant => "giant",
            Self::BadIpChecksum => "bad_ip_checksum",
            Self::ForeignMac => "foreign_mac",
            Self::InputFifoFull => "input_fifo_full",
            Self::PeerVoqFull => "peer_voq_full",
            Self::HostVoqFull => "host_voq_full",
            Self::ReceiverDisabled => "receiver_disabled",
            Self::BurstWithoutGrant => "burst_without_grant",
            Self::BurstOverGrant => "burst_over_grant",
            Self::BurstTimedOut => "burst_timed_out",
            Self::BurstMalformed => "burst_malformed",
            Self::TransmitLength => "transmit_length",
            Self::BusError => "bus_error",
            Self::VectorRefused => "vector_refused",
            Self::Received => "received",
            Self::Sent => "sent",
            Self::Grants => "grants",
            Self::RequestsRepeated => "requests_repeated",
            Self::Bursts => "bursts",
            Self::LostCompletions => "lost_completions",
        }
    }

    /// Whether it counts received frames that went nowhere.
    pub fn is_receive_drop(self) -> bool {
        (self as u8) <= Self::ReceiverDisabled as u8
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
