//! What IPv4 and IPv6 share: the numbers of the protocols they carry.

use core::fmt;

/// The protocol of an IPv4 payload, or the next header of IPv6 (IANA "Assigned Internet Protocol
/// Numbers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP (RFC 792).
    pub const ICMP: Protocol = Protocol(1);
    /// IGMP (RFC 9776).
    pub const IGMP: Protocol = Protocol(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPIP: Protocol = Protocol(4);
    /// TCP (RFC 9293).
    pub const TCP: Protocol = Protocol(6);
    /// UDP (RFC 768).
    pub const UDP: Protocol = Protocol(17);
    /// DCCP (RFC 4340).
    pub const DCCP: Protocol = Protocol(33);
    /// IPv6 in IP (RFC 2473).
    pub const IPV6: Protocol = Protocol(41);
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: Protocol = Protocol(44);
    /// GRE (RFC 2784).
    pub const GRE: Protocol = Protocol(47);
    /// Encapsulating Security Payload (RFC 4303).
    pub const ESP: Protocol = Protocol(50);
    /// Authentication Header (RFC 4302).
    pub const AH: Protocol = Protocol(51);
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6: nothing follows (RFC 8200 4.7).
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP (RFC 9260).
    pub const SCTP: Protocol = Protocol(132);
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: Protocol = Protocol(136);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Protocol::HOP_BY_HOP => "hop-by-hop",
            Protocol::ICMP => "ICMP",
            Protocol::IGMP => "IGMP",
            Protocol::IPIP => "IPIP",
            Protocol::TCP => "TCP",
            Protocol::UDP => "UDP",
            Protocol::DCCP => "DCCP",
            Protocol::IPV6 => "IPv6",
            Protocol::ROUTING => "routing",
            Protocol::FRAGMENT => "fragment",
            Protocol::GRE => "GRE",
            Protocol::ESP => "ESP",
            Protocol::AH => "AH",
            Protocol::ICMPV6 => "ICMPv6",
            Protocol::NO_NEXT_HEADER => "no next header",
            Protocol::DESTINATION_OPTIONS => "destination options",
            Protocol::SCTP => "SCTP",
            Protocol::UDP_LITE => "UDP-Lite",
            Protocol(other) => return write!(f, "protocol {other}"),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names() {
        assert_eq!(Protocol(17).to_string(), "UDP");
        assert_eq!(Protocol(200).to_string(), "protocol 200");
    }
}
