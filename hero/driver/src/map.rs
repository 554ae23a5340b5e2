//! The register map of a card. Written by hero/registers.py from hero/registers.toml.

#![allow(missing_docs)] // the constants have the names of the map

pub const ID: u8 = 0;
pub const CMD: u8 = 1;
pub const STATUS: u8 = 2;
pub const MAC_LOW: u8 = 3;
pub const MAC_HIGH: u8 = 4;
pub const IRQ_UNMASKED: u8 = 5;
pub const IRQ_MASK: u8 = 6;
pub const IRQ_MASKED: u8 = 7;
pub const RXLO_DESC: u8 = 8;
pub const RXHI_DESC: u8 = 9;
pub const TX_LEN: u8 = 10;
pub const TX_DESC: u8 = 11;
pub const LEVELS: u8 = 12;
pub const CPL_BASE: u8 = 13;
pub const ROUTE: u8 = 14;
pub const CLASS: u8 = 20;
pub const NEXTHOP_MAC: u8 = 44;
pub const PEER_BASE: u8 = 50;
pub const REQ_IN: u8 = 53;
pub const RSP_IN: u8 = 56;
pub const FWD_CNT: u8 = 59;
pub const FWD_HOST: u8 = 62;
pub const DROP_CNT: u8 = 63;
pub const ROUTE6_ADDRESS: u8 = 14;
pub const ROUTE6_RULE: u8 = 18;
pub const ROUTE6_MAC: u8 = 44;
pub const CMD_RESET: u32 = 1;
pub const CMD_RX: u32 = 2;
pub const CMD_TX: u32 = 4;
pub const CMD_FAST: u32 = 8;
pub const CMD_PROMISCUOUS: u32 = 16;
pub const CMD_COMMIT: u32 = 32;
pub const CMD_BANK_SHIFT: u32 = 8;
pub const STATUS_READY: u32 = 1;
pub const STATUS_LINK: u32 = 2;
pub const STATUS_FAST_OPEN: u32 = 4;
pub const STATUS_RECEIVING: u32 = 8;
pub const STATUS_BROKEN_SHIFT: u32 = 4;
pub const STATUS_ROUTES_SHIFT: u32 = 8;
pub const STATUS_VERSION_SHIFT: u32 = 16;
pub const LEVELS_ROUTES6_SHIFT: u32 = 12;
pub const ROUTE6_RULE_LENGTH_SHIFT: u32 = 0;
pub const ROUTE6_RULE_DEST_SHIFT: u32 = 8;
pub const IRQ_RXLO: u32 = 1;
pub const IRQ_RXHI: u32 = 2;
pub const IRQ_TX: u32 = 4;
pub const IRQ_RXLO_EMPTY: u32 = 8;
pub const IRQ_RXHI_EMPTY: u32 = 16;
pub const IRQ_FAULT: u32 = 32;
pub const IRQ_BUS: u32 = 64;
pub const IRQ_DROP: u32 = 128;
pub const ID_VALUE: u32 = 0x4845_524F;
pub const VERSION: u32 = 1;
pub const ROUTE6_BANK: u32 = 24;

/// A counter that DROP_CNT shows, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Frames with a wrong FCS.
    BadFcs,
    /// Frames of fewer than 60 octets.
    Runt,
    /// Frames of more than the MTU and 14 octets, with a VLAN tag 18.
    Giant,
    /// IPv4 with a wrong header checksum.
    BadChecksum,
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
    /// Frames to send of fewer than 14 octets, or more than the MTU and 18.
    TransmitLength,
    /// Bus transactions that failed.
    BusError,
    /// Vectors that found no room, or whose count was not 1 to 32.
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
    /// Completions that the host's memory refused (bus errors, too).
    LostCompletions,
}

impl Counter {
    /// All of them, by number.
    pub const ALL: [Self; 22] = [
        Self::BadFcs,
        Self::Runt,
        Self::Giant,
        Self::BadChecksum,
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
            Self::BadChecksum => "bad_checksum",
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
