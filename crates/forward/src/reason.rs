//! What becomes of a packet, and why.

use bora_fib::{PortId, PuntReason};
use bora_wire::Error;

/// The decision about one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided yet.
    #[default]
    Pending,
    /// Leaves by this port.
    Forward(PortId),
    /// Goes to Linux unchanged, which answers in its own way.
    Punt(Punt),
    /// Goes no further.
    Drop(Drop),
}

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every reason, by number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Its name in counters and metrics.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    /// Why a packet goes to Linux.
    Punt {
        /// Neither IPv4 nor IPv6: ARP, VLAN tags, LLDP, …
        NotIp = "not_ip",
        /// Not for this port's Ethernet address.
        ForeignMac = "foreign_mac",
        /// Linux has rules for it: firewall, policy routing, IPsec (ports without an XDP program).
        Guard = "guard",
        /// Forwarding is off on the ingress interface.
        ForwardingOff = "forwarding_off",
        /// Multicast, link-local, loopback and other addresses Linux treats in its own way.
        SpecialAddress = "special_address",
        /// IPv4 options or IPv6 hop-by-hop options.
        Options = "options",
        /// TTL or hop limit used up (RFC 1812 5.3.1, RFC 4443 3.3).
        TtlExceeded = "ttl_exceeded",
        /// An address of the router itself.
        Local = "local",
        /// No route.
        NoRoute = "no_route",
        /// The neighbour's Ethernet address is not known (yet).
        NoNeighbour = "no_neighbour",
        /// An unreachable route.
        Unreachable = "unreachable",
        /// A prohibit route.
        Prohibit = "prohibit",
        /// Larger than the output's MTU, and not to be fragmented: to be answered.
        TooBig = "too_big",
        /// IPv4 larger than the output's MTU that may be fragmented.
        Fragmentation = "fragmentation",
        /// Leaves where it came from: Linux also sends a redirect.
        Redirect = "redirect",
        /// A route Bora does not implement, or through an interface that is not its port.
        Unsupported = "unsupported",
    }
}

impl Punt {
    /// Whether Linux answers or drops it, so that there is a budget for it. The rest is Linux's own
    /// traffic, or traffic that Linux forwards.
    pub const fn is_exception(self) -> bool {
        matches!(
            self,
            Punt::Options
                | Punt::TtlExceeded
                | Punt::NoRoute
                | Punt::NoNeighbour
                | Punt::Unreachable
                | Punt::Prohibit
                | Punt::TooBig
        )
    }
}

reasons! {
    /// Why a packet is dropped.
    Drop {
        /// Shorter than its headers.
        Truncated = "truncated",
        /// IP version and EtherType disagree.
        BadVersion = "bad_version",
        /// IHL below five.
        BadHeaderLength = "bad_header_length",
        /// Total length below the header's, or beyond the frame.
        BadTotalLength = "bad_total_length",
        /// IPv4 header checksum wrong.
        BadChecksum = "bad_checksum",
        /// The interface it came in by is administratively down (ports without an XDP program).
        PortDown = "port_down",
        /// Fails the reverse-path check.
        SourceCheck = "source_check",
        /// A blackhole route.
        Blackhole = "blackhole",
        /// A rule says so.
        Rule = "rule",
        /// The queue of its class at the output is full.
        QueueFull = "queue_full",
        /// The budget of its punt reason is spent.
        PuntBudget = "punt_budget",
        /// The way to the slow path is full.
        PuntRingFull = "punt_ring_full",
        /// The backlog between reception and forwarding is full (mode `interrupt`).
        BacklogFull = "backlog_full",
        /// The ring to the worker that is to forward it is full.
        WorkerRingFull = "worker_ring_full",
        /// The output port is not there any more, or takes nothing while Bora ends.
        NoOutput = "no_output",
    }
}

impl From<PuntReason> for Punt {
    fn from(reason: PuntReason) -> Self {
        match reason {
            PuntReason::NoRoute => Punt::NoRoute,
            PuntReason::Local => Punt::Local,
            PuntReason::NoNeighbour => Punt::NoNeighbour,
            PuntReason::Unreachable => Punt::Unreachable,
            PuntReason::Prohibit => Punt::Prohibit,
            PuntReason::Unsupported => Punt::Unsupported,
        }
    }
}

impl From<Error> for Drop {
    fn from(error: Error) -> Self {
        match error {
            Error::BadVersion => Drop::BadVersion,
            Error::BadHeaderLength => Drop::BadHeaderLength,
            Error::BadTotalLength => Drop::BadTotalLength,
            Error::BadChecksum => Drop::BadChecksum,
            _ => Drop::Truncated,
        }
    }
}
