//! What IPv4 and IPv6 share: the numbers of the protocols they carry.

/// The protocol of an IPv4 payload, or the next header of IPv6 (IANA "Assigned Internet Protocol
/// Numbers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// TCP (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// DCCP (RFC 4340).
    pub const DCCP: Protocol = Protocol(33);
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// Authentication Header (RFC 4302).
    pub const AH: Protocol = Protocol(51);
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP (RFC 9260).
    pub const SCTP: Protocol = Protocol(132);
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: Protocol = Protocol(136);

    /// Whether its header starts with a source and a destination port.
    #[inline]
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(
            self,
            Protocol::TCP | Protocol::UDP | Protocol::DCCP | Protocol::SCTP | Protocol::UDP_LITE
        )
    }
}
