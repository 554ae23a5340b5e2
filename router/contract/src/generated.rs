//! Written by router/contract/generate.py from contract.toml.

/// Most ports of one Bora: rows of the program's maps.
pub const MAX_PORTS: usize = 256;
/// Most ports, VLAN devices and bonds of one Bora. Numbers from MAX_PORTS on are those of VLAN devices and bonds.
pub const MAX_INTERFACES: usize = 4_096;
/// Most ports of a bond; a power of two.
pub const MAX_BOND_PORTS: usize = 16;
/// Most receive queues of a port that get sockets; packets of other queues go to Linux.
pub const MAX_QUEUES: u32 = 128;
/// Most routes with an MTU of their own in the program's map, for each IP version.
pub const MAX_ROUTE_MTUS: usize = 65_536;
/// Stands for the number of routes with an MTU when there are more.
pub const MTUS_UNKNOWN: u32 = 0xFFFF_FFFF;
/// Most destinations whose packets the program leaves to Linux because Linux forwards them.
pub const MAX_LINUX_DESTINATIONS: usize = 65_536;
/// Window of a punt budget, ns.
pub const BUDGET_WINDOW_NS: u64 = 10_000_000;
/// Next hops, and neighbours among them, of which the program knows what becomes of their packets.
pub const FIB_HOPS: u32 = 65_536;
/// Marks a reason in the word of a next hop.
pub const FIB_REASON: u32 = 0x8000_0000;
/// Marks the only member of a group in the word of a next hop.
pub const FIB_MEMBER: u32 = 0x4000_0000;
/// First page of the program's FIB: a header for each IP version.
pub const FIB_HEADERS: u32 = 0;
/// First page of the words, one for each next hop.
pub const FIB_HOPS_AT: u32 = 2;
/// First page of the neighbours.
pub const FIB_ADJACENCIES_AT: u32 = 66;
/// First page of the root of IPv4.
pub const FIB_ROOT4: u32 = 578;
/// First page of the root of IPv6.
pub const FIB_ROOT6: u32 = 834;
/// First page of the nodes; those of IPv4 come first.
pub const FIB_NODES: u32 = 2_882;
/// Bits that say which neighbours packets were sent to; a power of two.
pub const USE_MARKS: u32 = 4_194_304;
/// Bits of the filter of the router's own addresses, for each IP version.
pub const OWN_FILTER: u32 = 65_536;
/// Most entries of a program of rules, for each IP version.
pub const RULES: usize = 4_096;
/// Most base chains of a program of rules.
pub const RULE_BASES: usize = 16;
/// Fields that rules look at: source, destination, protocol, two words of the transport header, input, output.
pub const RULE_FIELDS: usize = 7;
/// Pages of 4096 octets for programs of rules.
pub const RULE_PAGES: u32 = 2_048;
/// Most entries whose conditions a packet may meet.
pub const RULE_STEPS: usize = 64;
/// Most chains that are entered from each other (NFT_JUMP_STACK_SIZE).
pub const RULE_DEPTH: usize = 16;
/// Most frames that one call hands to Linux.
pub const INJECT_BATCH: usize = 512;
/// Longest frame that Linux takes so, octets: a page less headroom, skb_shared_info and the header of BPF_PROG_RUN.
pub const INJECT_FRAME: usize = 3_456;

/// What a port does with transit traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Path {
    /// Everything goes to Linux.
    #[default]
    Kernel,
    /// Packets go to the AF_XDP socket of the queue.
    Engine,
    /// The program forwards them.
    Express,
}

/// Reverse-path check of IPv4 sources (RFC 3704), as `net.ipv4.conf.*.rp_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RpFilter {
    /// None.
    #[default]
    Off,
    /// The route back to the source must leave by the port the packet came in by.
    Strict,
    /// There must be a route back to the source.
    Loose,
}

/// What becomes of packets that meet the conditions of an entry of a program of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RuleAction {
    /// On with the next entry.
    #[default]
    Continue,
    /// On with the next entry; conntrack will not see the packet.
    Notrack,
    /// On with the next base chain; behind the last one it is forwarded.
    Accept,
    /// It is dropped.
    Drop,
    /// Linux decides.
    Linux,
    /// On with another entry, and behind its chain with the next one.
    Jump,
    /// On with another entry.
    Goto,
    /// Behind the last jump; in a base chain its policy.
    Return,
}

/// nftables, family netdev.
pub const HOOK_NF_INGRESS: u8 = 1 << 0;
/// tc filters or tcx programs.
pub const HOOK_TC_INGRESS: u8 = 1 << 1;
/// nftables, family netdev.
pub const HOOK_NF_EGRESS: u8 = 1 << 2;
/// tc filters or tcx programs.
pub const HOOK_TC_EGRESS: u8 = 1 << 3;
/// The driver takes frames that XDP programs redirect; this is no hook.
pub const HOOK_TAKES_FRAMES: u8 = 1 << 4;
/// The program has not found the device, and assumes that it has hooks.
pub const HOOK_NOT_FOUND: u8 = 1 << 5;

/// There are policies for what is forwarded or sent.
pub const XFRM_POLICIES: u8 = 1 << 0;
/// `ip xfrm policy setdefault out block`.
pub const XFRM_OUT_BLOCKED: u8 = 1 << 1;
/// `ip xfrm policy setdefault fwd block`.
pub const XFRM_FORWARD_BLOCKED: u8 = 1 << 2;
/// There are policies for what the router itself receives, or `ip xfrm policy setdefault in block`: they concern tunnels.
pub const XFRM_IN: u8 = 1 << 3;

/// Packets that conntrack has to see must not come here: Linux decides about them.
pub const RULE_BASE_UNTRACKED: u8 = 1 << 0;
/// Its policy is to accept.
pub const RULE_BASE_ACCEPTS: u8 = 1 << 1;
/// It is behind the route, so packets without one do not come here.
pub const RULE_BASE_ROUTED: u8 = 1 << 2;

/// The settings of a port: `struct bora_port` of the XDP program, and what the engine knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Slot of the redirect map; a port's row of counters, below MAX_PORTS, or the number of a VLAN device or bond.
    pub index: u16,
    /// What the port does with transit traffic.
    pub path: Path,
    /// Reverse-path check of IPv4.
    pub rp_filter: RpFilter,
    /// The interface's Ethernet address.
    pub mac: [u8; 6],
    /// Number of the port or bond that carries its packets: itself, the port or bond below a VLAN device, or the bond that a port belongs to.
    pub trunk: u16,
    /// Tags of a VLAN device, one or two, as on the wire, without priority, the outer one first; else zeros.
    pub tags: [u8; 8],
    /// Priorities of a VLAN device's tags by its egress-qos-map, three bits for each class of packets (TOS bits 3 and 4 of IPv4: 0 to 3; IPv6: 4), from the lowest bit on; those of the inner tag from bit 15 on.
    pub priorities: u32,
    /// Milliseconds after which Linux must see a packet of a station again, so that it does not forget it, for a bridge or a VLAN device on one; else 0.
    pub ageing_ms: u32,
    /// Shorter frames get zeros up to this length, octets without FCS.
    pub min_frame: u16,
    /// Number of what a macvlan is on; of all others their own. Linux prefers a macvlan's routes for IPv6 packets that come in by it, so those that would leave by what it is on are Linux's.
    pub below: u16,
    /// Ethernet address of the other end of a PPPoE session; else zeros.
    pub peer: [u8; 6],
    /// Number of a PPPoE session (RFC 2516); else 0.
    pub session: u16,
    /// net.ipv4.conf.IFACE.forwarding.
    pub forward4: bool,
    /// net.ipv6.conf.{all and IFACE}.forwarding.
    pub forward6: bool,
    /// The driver takes redirected frames (ndo_xdp_xmit).
    pub can_redirect: bool,
    /// Peers may leave L4 checksums to the receiver (veth, virtio, tap).
    pub partial_checksum: bool,
    /// Linux must see all IPv4.
    pub kernel4: bool,
    /// Linux must see all IPv6.
    pub kernel6: bool,
    /// The program does not check Linux's hooks (`--bypass netfilter`).
    pub bypass_netfilter: bool,
    /// net.ipv4.conf.*.send_redirects.
    pub send_redirects4: bool,
    /// The program runs as generic XDP: its frames can go to any port, and it sees injected frames again.
    pub generic: bool,
    /// Up, and with carrier.
    pub up: bool,
    /// A veth: VLAN tags stay in the socket buffer.
    pub veth: bool,
    /// A VLAN device.
    pub vlan: bool,
    /// Administratively up; the engine checks it for ports without an XDP program.
    pub enabled: bool,
    /// The port has an XDP program, and the engine need not repeat its checks.
    pub gated: bool,
    /// `ip rule` or a VRF: not the main table alone decides about IPv4; express asks Linux's FIB.
    pub policy4: bool,
    /// `ip rule` or a VRF: not the main table alone decides about IPv6.
    pub policy6: bool,
    /// A veth whose peer has neither XDP nor GRO: it takes no redirected frames.
    pub no_napi: bool,
    /// Linux takes frames for other stations' Ethernet addresses, too: a bridge, macvlans, a capture; the engine drops them otherwise where there is no XDP program, the program where Bora offers flows a table.
    pub promiscuous: bool,
    /// `ip rule` looks at marks or outputs, which packets in transit do not have: flows of Linux's flowtables may have other routes than theirs.
    pub flow_rules: bool,
    /// The driver takes redirected frames in several buffers (NETDEV_XDP_ACT_NDO_XMIT_SG).
    pub takes_fragments: bool,
    /// A queueing discipline of Linux shapes what leaves by it or by what is below it, and Bora may not send past it.
    pub shaped: bool,
}

impl PortSettings {
    /// Its octets, as the program reads them.
    pub fn to_bytes(&self) -> [u8; 44] {
        let flags = [
            self.forward4,
            self.forward6,
            self.can_redirect,
            self.partial_checksum,
            self.kernel4,
            self.kernel6,
            self.bypass_netfilter,
            self.send_redirects4,
            self.generic,
            self.up,
            self.veth,
            self.vlan,
            self.enabled,
            self.gated,
            self.policy4,
            self.policy6,
            self.no_napi,
            self.promiscuous,
            self.flow_rules,
            self.takes_fragments,
            self.shaped,
        ];
        let flags = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u32::from(flag));
        let mut bytes = [0; 44];
        bytes[0..2].copy_from_slice(&self.index.to_ne_bytes());
        bytes[2..3].copy_from_slice(&[self.path as u8]);
        bytes[3..4].copy_from_slice(&[self.rp_filter as u8]);
        bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..14].copy_from_slice(&self.mac);
        bytes[14..16].copy_from_slice(&self.trunk.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.tags);
        bytes[24..28].copy_from_slice(&self.priorities.to_ne_bytes());
        bytes[28..32].copy_from_slice(&self.ageing_ms.to_ne_bytes());
        bytes[32..34].copy_from_slice(&self.min_frame.to_ne_bytes());
        bytes[34..36].copy_from_slice(&self.below.to_ne_bytes());
        bytes[36..42].copy_from_slice(&self.peer);
        bytes[42..44].copy_from_slice(&self.session.to_ne_bytes());
        bytes
    }
}

/// Why a packet does not simply leave: docs/reasons.md. The first [`Reason::OF_PROGRAM`] are those that the
/// XDP program counts, with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// Bora is starting, is stopping or does not answer.
    NoLease,
    /// Linux has rules for it that Bora does not apply: netfilter, IPsec, tc; or `ip rule`s that only Linux can follow.
    Guard,
    /// Forwarding is off on the input interface.
    ForwardingOff,
    /// Neither IPv4 nor IPv6, or of a VLAN that Bora does not forward by: ARP, LLDP, tags without a VLAN device.
    NotIp,
    /// Has a VLAN tag that is not in the frame, and belongs to no VLAN device that Bora forwards by.
    VlanTag,
    /// Not for this port's Ethernet address: broadcast, multicast, or another station's.
    ForeignMac,
    /// To or from an address of the router itself.
    Local,
    /// Multicast, link-local, loopback and other addresses that Linux treats in its own way.
    SpecialAddress,
    /// Its sender left the checksum to a card, and only Linux can complete it.
    PartialChecksum,
    /// Its route leaves by an interface that is no port, or whose driver takes no frames of XDP programs.
    NotAPort,
    /// Its route leaves by a veth whose peer has neither XDP nor GRO, and so takes no frames of XDP programs.
    NoNapi,
    /// Its route leaves by a port that is down: Linux takes another route, or answers.
    OutputDown,
    /// The engine has no socket for the receive queue it came by.
    NoSocket,
    /// The whole port is left to Linux, or it is a port of a bond that no packets come by now.
    LeftToLinux,
    /// Only Linux can choose among the several paths of its route.
    Multipath,
    /// IPv4, longer than the output's MTU, and may be fragmented.
    Fragmentation,
    /// Several segments in one packet, longer than the input's MTU (GRO, GSO).
    SuperPacket,
    /// In several buffers (a jumbo frame), which the output's driver does not take from XDP programs (NETDEV_XDP_ACT_NDO_XMIT_SG), or the engine.
    LongFrame,
    /// It leaves by the port it came in by: Linux also sends an ICMP redirect.
    Redirect,
    /// An ICMP error has told Linux that packets to its destination go otherwise than the route says: a redirect, or a very small path MTU.
    RouteException,
    /// Fails the reverse-path check (RFC 3704).
    SourceCheck,
    /// Its route needs something that Bora does not do, or leaves by an interface that is no port.
    Unsupported,
    /// Leaves by an interface, or by something on one, whose queueing discipline (`tc qdisc`) shapes, polices, marks or orders what is sent: Linux sends it.
    Shaped,
    /// By a bridge: Linux has to learn that its sender is at this port, or to see it now and then; or Linux knows no port of its next hop, or one that Bora does not send by.
    Bridge,
    /// A header that RFC 1812 5.2.2 or RFC 8200 3 forbids: Linux drops and counts it.
    Malformed,
    /// IPv4 options or IPv6 hop-by-hop options.
    Options,
    /// TTL or hop limit used up (RFC 1812 5.3.1, RFC 4443 3.3): Linux answers.
    TtlExceeded,
    /// No route to its destination: Linux answers.
    NoRoute,
    /// An unreachable route, or in express a prohibit route: Linux answers.
    Unreachable,
    /// The Ethernet address of its next hop is not known: Linux asks for it.
    NoNeighbour,
    /// Longer than the output's MTU, and not to be fragmented: Linux answers.
    TooBig,
    /// A blackhole route.
    Blackhole,
    /// The punt budget of its reason was used up, so it did not go to Linux.
    PuntBudget,
    /// The output port has been removed, or Bora is stopping.
    NoOutput,
    /// The output's driver refused a frame of the express path: its ring was full.
    TxRingFull,
    /// A rule of Linux's nftables drops it, which Bora has read.
    Firewall,
    /// Its length is less than its header's, or more than the frame's. (The XDP program drops it only where Bora offers flows a table.)
    BadTotalLength,
    /// The checksum of the IPv4 header is wrong. (The XDP program drops it only where Bora offers flows a table.)
    BadChecksum,
    /// For another station's Ethernet address: Linux would drop it, too (PACKET_OTHERHOST; ports without an XDP program, or where Bora offers flows a table).
    OtherHost,
    /// A prohibit route: Linux answers.
    Prohibit,
    /// Shorter than its headers.
    Truncated,
    /// IP version and EtherType disagree.
    BadVersion,
    /// An IPv4 header of fewer than five words.
    BadHeaderLength,
    /// The interface it came in by is administratively down (ports without an XDP program).
    PortDown,
    /// A rule of bora.toml drops it.
    Rule,
    /// Rules of bora.toml look at protocol or ports, and it hides them: more than eight IPv6 extension headers, or headers that are cut off (RFC 7112).
    HiddenUpperLayer,
    /// The queue of its class at the output is full.
    QueueFull,
    /// The ring to the slow path is full.
    PuntRingFull,
    /// The ring to the worker that should forward it is full.
    WorkerRingFull,
    /// Linux refused a packet that Bora handed to it.
    SlowPathFailed,
    /// The receive ring, or the socket's 16 MiB, was full (AF_XDP, AF_PACKET, DPDK).
    RxRingFull,
    /// There was no free frame to receive into, or it was longer than a frame (AF_XDP, DPDK).
    NoFrame,
    /// More octets than a frame holds: 1792, or 3840 where an MTU needs it (memif, TAP, AF_PACKET, pcap, DPDK).
    RxTooLong,
    /// Empty, longer than the buffer it came in (memif), not whole in its file (pcap), or marked bad by the card (HERO, DPDK).
    RxMalformed,
    /// A transmit descriptor that the kernel refused (AF_XDP).
    TxInvalid,
    /// It was in the transmit ring when the peer or the interface went away or the card was reset, or it was sent while there was no link.
    TxLinkDown,
    /// Linux refused to send it, because the interface is down, its MTU is smaller, or the disk is full; or it is too long for the peer's buffers (memif).
    TxRefused,
    /// Came faster than the simulation of the card runs.
    WireFull,
    /// It was in the card, on its way to the host, when the card was reset.
    CardReset,
    /// Frames with a wrong FCS.
    BadFcs,
    /// Frames of fewer than 60 octets.
    Runt,
    /// Frames of more than the MTU and 14 octets, with a VLAN tag 18.
    Giant,
    /// No room between the clocks.
    InputFifoFull,
    /// No room in the queue to another card.
    PeerVoqFull,
    /// No room in the queue to the host.
    HostVoqFull,
    /// Received while the receiver was off.
    ReceiverDisabled,
    /// Frames to send of fewer than 14 octets, or more than the MTU and 18.
    TransmitLength,
}

impl Reason {
    /// All of them, by number.
    pub const ALL: [Self; 67] = [
        Self::NoLease,
        Self::Guard,
        Self::ForwardingOff,
        Self::NotIp,
        Self::VlanTag,
        Self::ForeignMac,
        Self::Local,
        Self::SpecialAddress,
        Self::PartialChecksum,
        Self::NotAPort,
        Self::NoNapi,
        Self::OutputDown,
        Self::NoSocket,
        Self::LeftToLinux,
        Self::Multipath,
        Self::Fragmentation,
        Self::SuperPacket,
        Self::LongFrame,
        Self::Redirect,
        Self::RouteException,
        Self::SourceCheck,
        Self::Unsupported,
        Self::Shaped,
        Self::Bridge,
        Self::Malformed,
        Self::Options,
        Self::TtlExceeded,
        Self::NoRoute,
        Self::Unreachable,
        Self::NoNeighbour,
        Self::TooBig,
        Self::Blackhole,
        Self::PuntBudget,
        Self::NoOutput,
        Self::TxRingFull,
        Self::Firewall,
        Self::BadTotalLength,
        Self::BadChecksum,
        Self::OtherHost,
        Self::Prohibit,
        Self::Truncated,
        Self::BadVersion,
        Self::BadHeaderLength,
        Self::PortDown,
        Self::Rule,
        Self::HiddenUpperLayer,
        Self::QueueFull,
        Self::PuntRingFull,
        Self::WorkerRingFull,
        Self::SlowPathFailed,
        Self::RxRingFull,
        Self::NoFrame,
        Self::RxTooLong,
        Self::RxMalformed,
        Self::TxInvalid,
        Self::TxLinkDown,
        Self::TxRefused,
        Self::WireFull,
        Self::CardReset,
        Self::BadFcs,
        Self::Runt,
        Self::Giant,
        Self::InputFifoFull,
        Self::PeerVoqFull,
        Self::HostVoqFull,
        Self::ReceiverDisabled,
        Self::TransmitLength,
    ];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
    /// How many the XDP program counts.
    pub const OF_PROGRAM: usize = 39;

    /// Its name in counters, reports and docs/reasons.md.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLease => "no_lease",
            Self::Guard => "guard",
            Self::ForwardingOff => "forwarding_off",
            Self::NotIp => "not_ip",
            Self::VlanTag => "vlan_tag",
            Self::ForeignMac => "foreign_mac",
            Self::Local => "local",
            Self::SpecialAddress => "special_address",
            Self::PartialChecksum => "partial_checksum",
            Self::NotAPort => "not_a_port",
            Self::NoNapi => "no_napi",
            Self::OutputDown => "output_down",
            Self::NoSocket => "no_socket",
            Self::LeftToLinux => "left_to_linux",
            Self::Multipath => "multipath",
            Self::Fragmentation => "fragmentation",
            Self::SuperPacket => "super_packet",
            Self::LongFrame => "long_frame",
            Self::Redirect => "redirect",
            Self::RouteException => "route_exception",
            Self::SourceCheck => "source_check",
            Self::Unsupported => "unsupported",
            Self::Shaped => "shaped",
            Self::Bridge => "bridge",
            Self::Malformed => "malformed",
            Self::Options => "options",
            Self::TtlExceeded => "ttl_exceeded",
            Self::NoRoute => "no_route",
            Self::Unreachable => "unreachable",
            Self::NoNeighbour => "no_neighbour",
            Self::TooBig => "too_big",
            Self::Blackhole => "blackhole",
            Self::PuntBudget => "punt_budget",
            Self::NoOutput => "no_output",
            Self::TxRingFull => "tx_ring_full",
            Self::Firewall => "firewall",
            Self::BadTotalLength => "bad_total_length",
            Self::BadChecksum => "bad_checksum",
            Self::OtherHost => "other_host",
            Self::Prohibit => "prohibit",
            Self::Truncated => "truncated",
            Self::BadVersion => "bad_version",
            Self::BadHeaderLength => "bad_header_length",
            Self::PortDown => "port_down",
            Self::Rule => "rule",
            Self::HiddenUpperLayer => "hidden_upper_layer",
            Self::QueueFull => "queue_full",
            Self::PuntRingFull => "punt_ring_full",
            Self::WorkerRingFull => "worker_ring_full",
            Self::SlowPathFailed => "slow_path_failed",
            Self::RxRingFull => "rx_ring_full",
            Self::NoFrame => "no_frame",
            Self::RxTooLong => "rx_too_long",
            Self::RxMalformed => "rx_malformed",
            Self::TxInvalid => "tx_invalid",
            Self::TxLinkDown => "tx_link_down",
            Self::TxRefused => "tx_refused",
            Self::WireFull => "wire_full",
            Self::CardReset => "card_reset",
            Self::BadFcs => "bad_fcs",
            Self::Runt => "runt",
            Self::Giant => "giant",
            Self::InputFifoFull => "input_fifo_full",
            Self::PeerVoqFull => "peer_voq_full",
            Self::HostVoqFull => "host_voq_full",
            Self::ReceiverDisabled => "receiver_disabled",
            Self::TransmitLength => "transmit_length",
        }
    }

    /// What it means, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NoLease => "Bora is starting, is stopping or does not answer.",
            Self::Guard => "Linux has rules for it that Bora does not apply: netfilter, IPsec, tc; or `ip rule`s that only Linux can follow.",
            Self::ForwardingOff => "Forwarding is off on the input interface.",
            Self::NotIp => "Neither IPv4 nor IPv6, or of a VLAN that Bora does not forward by: ARP, LLDP, tags without a VLAN device.",
            Self::VlanTag => "Has a VLAN tag that is not in the frame, and belongs to no VLAN device that Bora forwards by.",
            Self::ForeignMac => "Not for this port's Ethernet address: broadcast, multicast, or another station's.",
            Self::Local => "To or from an address of the router itself.",
            Self::SpecialAddress => "Multicast, link-local, loopback and other addresses that Linux treats in its own way.",
            Self::PartialChecksum => "Its sender left the checksum to a card, and only Linux can complete it.",
            Self::NotAPort => "Its route leaves by an interface that is no port, or whose driver takes no frames of XDP programs.",
            Self::NoNapi => "Its route leaves by a veth whose peer has neither XDP nor GRO, and so takes no frames of XDP programs.",
            Self::OutputDown => "Its route leaves by a port that is down: Linux takes another route, or answers.",
            Self::NoSocket => "The engine has no socket for the receive queue it came by.",
            Self::LeftToLinux => "The whole port is left to Linux, or it is a port of a bond that no packets come by now.",
            Self::Multipath => "Only Linux can choose among the several paths of its route.",
            Self::Fragmentation => "IPv4, longer than the output's MTU, and may be fragmented.",
            Self::SuperPacket => "Several segments in one packet, longer than the input's MTU (GRO, GSO).",
            Self::LongFrame => "In several buffers (a jumbo frame), which the output's driver does not take from XDP programs (NETDEV_XDP_ACT_NDO_XMIT_SG), or the engine.",
            Self::Redirect => "It leaves by the port it came in by: Linux also sends an ICMP redirect.",
            Self::RouteException => "An ICMP error has told Linux that packets to its destination go otherwise than the route says: a redirect, or a very small path MTU.",
            Self::SourceCheck => "Fails the reverse-path check (RFC 3704).",
            Self::Unsupported => "Its route needs something that Bora does not do, or leaves by an interface that is no port.",
            Self::Shaped => "Leaves by an interface, or by something on one, whose queueing discipline (`tc qdisc`) shapes, polices, marks or orders what is sent: Linux sends it.",
            Self::Bridge => "By a bridge: Linux has to learn that its sender is at this port, or to see it now and then; or Linux knows no port of its next hop, or one that Bora does not send by.",
            Self::Malformed => "A header that RFC 1812 5.2.2 or RFC 8200 3 forbids: Linux drops and counts it.",
            Self::Options => "IPv4 options or IPv6 hop-by-hop options.",
            Self::TtlExceeded => "TTL or hop limit used up (RFC 1812 5.3.1, RFC 4443 3.3): Linux answers.",
            Self::NoRoute => "No route to its destination: Linux answers.",
            Self::Unreachable => "An unreachable route, or in express a prohibit route: Linux answers.",
            Self::NoNeighbour => "The Ethernet address of its next hop is not known: Linux asks for it.",
            Self::TooBig => "Longer than the output's MTU, and not to be fragmented: Linux answers.",
            Self::Blackhole => "A blackhole route.",
            Self::PuntBudget => "The punt budget of its reason was used up, so it did not go to Linux.",
            Self::NoOutput => "The output port has been removed, or Bora is stopping.",
            Self::TxRingFull => "The output's driver refused a frame of the express path: its ring was full.",
            Self::Firewall => "A rule of Linux's nftables drops it, which Bora has read.",
            Self::BadTotalLength => "Its length is less than its header's, or more than the frame's. (The XDP program drops it only where Bora offers flows a table.)",
            Self::BadChecksum => "The checksum of the IPv4 header is wrong. (The XDP program drops it only where Bora offers flows a table.)",
            Self::OtherHost => "For another station's Ethernet address: Linux would drop it, too (PACKET_OTHERHOST; ports without an XDP program, or where Bora offers flows a table).",
            Self::Prohibit => "A prohibit route: Linux answers.",
            Self::Truncated => "Shorter than its headers.",
            Self::BadVersion => "IP version and EtherType disagree.",
            Self::BadHeaderLength => "An IPv4 header of fewer than five words.",
            Self::PortDown => "The interface it came in by is administratively down (ports without an XDP program).",
            Self::Rule => "A rule of bora.toml drops it.",
            Self::HiddenUpperLayer => "Rules of bora.toml look at protocol or ports, and it hides them: more than eight IPv6 extension headers, or headers that are cut off (RFC 7112).",
            Self::QueueFull => "The queue of its class at the output is full.",
            Self::PuntRingFull => "The ring to the slow path is full.",
            Self::WorkerRingFull => "The ring to the worker that should forward it is full.",
            Self::SlowPathFailed => "Linux refused a packet that Bora handed to it.",
            Self::RxRingFull => "The receive ring, or the socket's 16 MiB, was full (AF_XDP, AF_PACKET, DPDK).",
            Self::NoFrame => "There was no free frame to receive into, or it was longer than a frame (AF_XDP, DPDK).",
            Self::RxTooLong => "More octets than a frame holds: 1792, or 3840 where an MTU needs it (memif, TAP, AF_PACKET, pcap, DPDK).",
            Self::RxMalformed => "Empty, longer than the buffer it came in (memif), not whole in its file (pcap), or marked bad by the card (HERO, DPDK).",
            Self::TxInvalid => "A transmit descriptor that the kernel refused (AF_XDP).",
            Self::TxLinkDown => "It was in the transmit ring when the peer or the interface went away or the card was reset, or it was sent while there was no link.",
            Self::TxRefused => "Linux refused to send it, because the interface is down, its MTU is smaller, or the disk is full; or it is too long for the peer's buffers (memif).",
            Self::WireFull => "Came faster than the simulation of the card runs.",
            Self::CardReset => "It was in the card, on its way to the host, when the card was reset.",
            Self::BadFcs => "Frames with a wrong FCS.",
            Self::Runt => "Frames of fewer than 60 octets.",
            Self::Giant => "Frames of more than the MTU and 14 octets, with a VLAN tag 18.",
            Self::InputFifoFull => "No room between the clocks.",
            Self::PeerVoqFull => "No room in the queue to another card.",
            Self::HostVoqFull => "No room in the queue to the host.",
            Self::ReceiverDisabled => "Received while the receiver was off.",
            Self::TransmitLength => "Frames to send of fewer than 14 octets, or more than the MTU and 18.",
        }
    }

    /// What an operator does about it.
    pub const fn cure(self) -> &'static str {
        match self {
            Self::NoLease => "Check whether Bora runs, and read its log.",
            Self::Guard => "`bora show sync` names the rules, and says how established connections can go by Bora all the same (docs/firewall.md).",
            Self::ForwardingOff => "Set net.ipv4.conf.IFACE.forwarding or net.ipv6.conf.all.forwarding if it should forward.",
            Self::NotIp => "Nothing.",
            Self::VlanTag => "If it has much traffic, see `bora show vlans`.",
            Self::ForeignMac => "Nothing, unless unicast traffic is sent to a wrong address.",
            Self::Local => "Nothing.",
            Self::SpecialAddress => "Nothing.",
            Self::PartialChecksum => "If there are many, turn `tx` off in the sender with `ethtool -K`.",
            Self::NotAPort => "Make the interface a port; if it is one, use the engine (`--path engine`).",
            Self::NoNapi => "`ethtool -K PEER gro on` for the other end of the veth, where that end is.",
            Self::OutputDown => "Look at the link.",
            Self::NoSocket => "Look at `bora show ports` for refused sockets; lower the number of queues with `ethtool -L`.",
            Self::LeftToLinux => "`bora show ports` and `bora show bonds` say why.",
            Self::Multipath => "See docs/differences.md for the hash policies that Bora supports.",
            Self::Fragmentation => "If there are many, make the MTUs equal.",
            Self::SuperPacket => "Turn GRO off on the input and TSO and GSO off in the sender, if Bora is to forward it.",
            Self::LongFrame => "Use express (`--path express`) and a card whose driver takes them (docs/ports.md).",
            Self::Redirect => "Correct the sender's route, or turn send_redirects off.",
            Self::RouteException => "`ip route show cache` shows them; turn accept_redirects off if Linux should not believe them.",
            Self::SourceCheck => "Look at rp_filter and at the route back to the source.",
            Self::Unsupported => "`bora show route ADDRESS` shows the route.",
            Self::Shaped => "`bora show sync` names it. `bypass_qdisc` of the port lets Bora send past it (docs/configuration.md).",
            Self::Bridge => "Nothing. If there are many, look for the station with `bridge fdb`.",
            Self::Malformed => "Find its sender.",
            Self::Options => "Nothing.",
            Self::TtlExceeded => "Nothing for traceroute; look for a routing loop if there are many.",
            Self::NoRoute => "Add the route.",
            Self::Unreachable => "Nothing, if you want this route.",
            Self::NoNeighbour => "Look with `ip neighbour` for a next hop that does not answer.",
            Self::TooBig => "Make the MTUs equal, or let ICMP errors reach the sender.",
            Self::Blackhole => "Nothing, if you want this route.",
            Self::PuntBudget => "Find their sender; `punt_budget` in bora.toml is the limit.",
            Self::NoOutput => "Nothing, if a port was removed or Bora stopped.",
            Self::TxRingFull => "Lower the load, or make the ring longer with `ethtool -G`.",
            Self::Firewall => "`bora show rules` names the rule.",
            Self::BadTotalLength => "Find its sender.",
            Self::BadChecksum => "Find its sender, or the link that damages it.",
            Self::OtherHost => "Look in the network for a switch that floods, or for a sender with an old ARP entry.",
            Self::Prohibit => "Nothing, if you want this route.",
            Self::Truncated => "Find its sender.",
            Self::BadVersion => "Find its sender.",
            Self::BadHeaderLength => "Find its sender.",
            Self::PortDown => "`ip link set IFACE up`.",
            Self::Rule => "`bora show rules` counts each rule.",
            Self::HiddenUpperLayer => "Find its sender; no ordinary host sends such packets.",
            Self::QueueFull => "The output is overloaded; `bora show classes` tells which class.",
            Self::PuntRingFull => "Linux does not keep up: find out why so many packets go to it.",
            Self::WorkerRingFull => "Add workers or receive queues.",
            Self::SlowPathFailed => "Check whether the interface is down, and whether frames have more than 3456 octets.",
            Self::RxRingFull => "The workers do not keep up: add cores or receive queues.",
            Self::NoFrame => "`bora show frames` says where the frames are: lower `packets` of classes whose queues hold many, or find the port that does not send. If frames are too long, make the MTUs equal.",
            Self::RxTooLong => "Make the MTUs equal.",
            Self::RxMalformed => "Look at the peer or the file.",
            Self::TxInvalid => "This is a defect of Bora: please report it.",
            Self::TxLinkDown => "Look at the link.",
            Self::TxRefused => "Look at the interface, the disk or the peer.",
            Self::WireFull => "Send more slowly.",
            Self::CardReset => "The log says why it was reset.",
            Self::BadFcs => "See hero/README.md.",
            Self::Runt => "See hero/README.md.",
            Self::Giant => "See hero/README.md.",
            Self::InputFifoFull => "See hero/README.md.",
            Self::PeerVoqFull => "See hero/README.md.",
            Self::HostVoqFull => "See hero/README.md.",
            Self::ReceiverDisabled => "See hero/README.md.",
            Self::TransmitLength => "See hero/README.md.",
        }
    }

    /// Whether Linux answers or drops such packets, so that there is a budget for what goes there. The rest is
    /// Linux's own traffic, or traffic that Linux forwards.
    pub const fn has_budget(self) -> bool {
        matches!(
            self,
            Self::Malformed
                | Self::Options
                | Self::TtlExceeded
                | Self::NoRoute
                | Self::Unreachable
                | Self::NoNeighbour
                | Self::TooBig
                | Self::Prohibit
        )
    }

    /// Whether packets may go to Linux for this reason.
    pub const fn may_pass(self) -> bool {
        matches!(
            self,
            Self::NoLease
                | Self::Guard
                | Self::ForwardingOff
                | Self::NotIp
                | Self::VlanTag
                | Self::ForeignMac
                | Self::Local
                | Self::SpecialAddress
                | Self::PartialChecksum
                | Self::NotAPort
                | Self::NoNapi
                | Self::OutputDown
                | Self::NoSocket
                | Self::LeftToLinux
                | Self::Multipath
                | Self::Fragmentation
                | Self::SuperPacket
                | Self::LongFrame
                | Self::Redirect
                | Self::RouteException
                | Self::SourceCheck
                | Self::Unsupported
                | Self::Shaped
                | Self::Bridge
                | Self::Malformed
                | Self::Options
                | Self::TtlExceeded
                | Self::NoRoute
                | Self::Unreachable
                | Self::NoNeighbour
                | Self::TooBig
                | Self::Prohibit
        )
    }

    /// Whether packets may be dropped for this reason.
    pub const fn may_drop(self) -> bool {
        matches!(
            self,
            Self::ForeignMac
                | Self::SourceCheck
                | Self::Blackhole
                | Self::PuntBudget
                | Self::NoOutput
                | Self::TxRingFull
                | Self::Firewall
                | Self::BadTotalLength
                | Self::BadChecksum
                | Self::OtherHost
                | Self::Truncated
                | Self::BadVersion
                | Self::BadHeaderLength
                | Self::PortDown
                | Self::Rule
                | Self::HiddenUpperLayer
                | Self::QueueFull
                | Self::PuntRingFull
                | Self::WorkerRingFull
                | Self::SlowPathFailed
                | Self::RxRingFull
                | Self::NoFrame
                | Self::RxTooLong
                | Self::RxMalformed
                | Self::TxInvalid
                | Self::TxLinkDown
                | Self::TxRefused
                | Self::WireFull
                | Self::CardReset
                | Self::BadFcs
                | Self::Runt
                | Self::Giant
                | Self::InputFifoFull
                | Self::PeerVoqFull
                | Self::HostVoqFull
                | Self::ReceiverDisabled
                | Self::TransmitLength
        )
    }

    /// Whether the program drops such packets; it passes the others to Linux.
    pub const fn is_drop_of_program(self) -> bool {
        matches!(
            self,
            Self::Blackhole
                | Self::PuntBudget
                | Self::NoOutput
                | Self::TxRingFull
                | Self::Firewall
                | Self::BadTotalLength
                | Self::BadChecksum
                | Self::OtherHost
        )
    }
}
