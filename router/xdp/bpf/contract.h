/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Written by router/contract/generate.py from contract.toml. */
#ifndef BORA_CONTRACT_H
#define BORA_CONTRACT_H

#define BORA_MAX_PORTS 256 /* Most ports of one Bora: rows of the program's maps. */
#define BORA_MAX_INTERFACES 4096 /* Most ports, VLAN devices and bonds of one Bora. Numbers from MAX_PORTS on are those of VLAN devices and bonds. */
#define BORA_MAX_BOND_PORTS 16 /* Most ports of a bond; a power of two. */
#define BORA_MAX_QUEUES 128 /* Most receive queues of a port that get sockets; packets of other queues go to Linux. */
#define BORA_MAX_ROUTE_MTUS 65536 /* Most routes with an MTU of their own in the program's map, for each IP version. */
#define BORA_MTUS_UNKNOWN 0xffffffff /* Stands for the number of routes with an MTU when there are more. */
#define BORA_MAX_LINUX_DESTINATIONS 65536 /* Most destinations whose packets the program leaves to Linux because Linux forwards them. */
#define BORA_BUDGET_WINDOW_NS 10000000ull /* Window of a punt budget, ns. */
#define BORA_FIB_HOPS 65536 /* Next hops, and neighbours among them, of which the program knows what becomes of their packets. */
#define BORA_FIB_REASON 0x80000000 /* Marks a reason in the word of a next hop. */
#define BORA_FIB_MEMBER 0x40000000 /* Marks the only member of a group in the word of a next hop. */
#define BORA_FIB_HEADERS 0 /* First page of the program's FIB: a header for each IP version. */
#define BORA_FIB_HOPS_AT 2 /* First page of the words, one for each next hop. */
#define BORA_FIB_ADJACENCIES_AT 66 /* First page of the neighbours. */
#define BORA_FIB_ROOT4 578 /* First page of the root of IPv4. */
#define BORA_FIB_ROOT6 834 /* First page of the root of IPv6. */
#define BORA_FIB_NODES 2882 /* First page of the nodes; those of IPv4 come first. */
#define BORA_USE_MARKS 4194304 /* Bits that say which neighbours packets were sent to; a power of two. */
#define BORA_OWN_FILTER 65536 /* Bits of the filter of the router's own addresses, for each IP version. */
#define BORA_RULES 4096 /* Most entries of a program of rules, for each IP version. */
#define BORA_RULE_BASES 16 /* Most base chains of a program of rules. */
#define BORA_RULE_FIELDS 7 /* Fields that rules look at: source, destination, protocol, two words of the transport header, input, output. */
#define BORA_RULE_PAGES 2048 /* Pages of 4096 octets for programs of rules. */
#define BORA_RULE_STEPS 64 /* Most entries whose conditions a packet may meet. */
#define BORA_RULE_DEPTH 16 /* Most chains that are entered from each other (NFT_JUMP_STACK_SIZE). */
#define BORA_INJECT_BATCH 512 /* Most frames that one call hands to Linux. */
#define BORA_INJECT_FRAME 3456 /* Longest frame that Linux takes so, octets: a page less headroom, skb_shared_info and the header of BPF_PROG_RUN. */

/* What a port does with transit traffic. */
enum bora_path {
	BORA_PATH_KERNEL = 0, /* Everything goes to Linux. */
	BORA_PATH_ENGINE = 1, /* Packets go to the AF_XDP socket of the queue. */
	BORA_PATH_EXPRESS = 2, /* The program forwards them. */
};

/* Reverse-path check of IPv4 sources (RFC 3704), as `net.ipv4.conf.*.rp_filter`. */
enum bora_rp_filter {
	BORA_RP_FILTER_OFF = 0, /* None. */
	BORA_RP_FILTER_STRICT = 1, /* The route back to the source must leave by the port the packet came in by. */
	BORA_RP_FILTER_LOOSE = 2, /* There must be a route back to the source. */
};

/* What becomes of packets that meet the conditions of an entry of a program of rules. */
enum bora_rule_action {
	BORA_RULE_ACTION_CONTINUE = 0, /* On with the next entry. */
	BORA_RULE_ACTION_NOTRACK = 1, /* On with the next entry; conntrack will not see the packet. */
	BORA_RULE_ACTION_ACCEPT = 2, /* On with the next base chain; behind the last one it is forwarded. */
	BORA_RULE_ACTION_DROP = 3, /* It is dropped. */
	BORA_RULE_ACTION_LINUX = 4, /* Linux decides. */
	BORA_RULE_ACTION_JUMP = 5, /* On with another entry, and behind its chain with the next one. */
	BORA_RULE_ACTION_GOTO = 6, /* On with another entry. */
	BORA_RULE_ACTION_RETURN = 7, /* Behind the last jump; in a base chain its policy. */
};

enum bora_port_flags {
	BORA_PORT_FORWARD4 = 1 << 0, /* net.ipv4.conf.IFACE.forwarding. */
	BORA_PORT_FORWARD6 = 1 << 1, /* net.ipv6.conf.{all and IFACE}.forwarding. */
	BORA_PORT_CAN_REDIRECT = 1 << 2, /* The driver takes redirected frames (ndo_xdp_xmit). */
	BORA_PORT_PARTIAL_CHECKSUM = 1 << 3, /* Peers may leave L4 checksums to the receiver (veth, virtio, tap). */
	BORA_PORT_KERNEL4 = 1 << 4, /* Linux must see all IPv4. */
	BORA_PORT_KERNEL6 = 1 << 5, /* Linux must see all IPv6. */
	BORA_PORT_BYPASS_NETFILTER = 1 << 6, /* The program does not check Linux's hooks (`--bypass netfilter`). */
	BORA_PORT_SEND_REDIRECTS4 = 1 << 7, /* net.ipv4.conf.*.send_redirects. */
	BORA_PORT_GENERIC = 1 << 8, /* The program runs as generic XDP: its frames can go to any port, and it sees injected frames again. */
	BORA_PORT_UP = 1 << 9, /* Up, and with carrier. */
	BORA_PORT_VETH = 1 << 10, /* A veth: VLAN tags stay in the socket buffer. */
	BORA_PORT_VLAN = 1 << 11, /* A VLAN device. */
	BORA_PORT_ENABLED = 1 << 12, /* Administratively up; the engine checks it for ports without an XDP program. */
	BORA_PORT_GATED = 1 << 13, /* The port has an XDP program, and the engine need not repeat its checks. */
	BORA_PORT_POLICY4 = 1 << 14, /* `ip rule` or a VRF: not the main table alone decides about IPv4; express asks Linux's FIB. */
	BORA_PORT_POLICY6 = 1 << 15, /* `ip rule` or a VRF: not the main table alone decides about IPv6. */
	BORA_PORT_NO_NAPI = 1 << 16, /* A veth whose peer has neither XDP nor GRO: it takes no redirected frames. */
	BORA_PORT_PROMISCUOUS = 1 << 17, /* Linux takes frames for other stations' Ethernet addresses, too: a bridge, macvlans, a capture; the engine drops them otherwise where there is no XDP program, the program where Bora offers flows a table. */
	BORA_PORT_FLOW_RULES = 1 << 18, /* `ip rule` looks at marks or outputs, which packets in transit do not have: flows of Linux's flowtables may have other routes than theirs. */
	BORA_PORT_TAKES_FRAGMENTS = 1 << 19, /* The driver takes redirected frames in several buffers (NETDEV_XDP_ACT_NDO_XMIT_SG). */
	BORA_PORT_SHAPED = 1 << 20, /* A queueing discipline of Linux shapes what leaves by it or by what is below it, and Bora may not send past it. */
};

enum bora_port_hooks {
	BORA_HOOK_NF_INGRESS = 1 << 0, /* nftables, family netdev. */
	BORA_HOOK_TC_INGRESS = 1 << 1, /* tc filters or tcx programs. */
	BORA_HOOK_NF_EGRESS = 1 << 2, /* nftables, family netdev. */
	BORA_HOOK_TC_EGRESS = 1 << 3, /* tc filters or tcx programs. */
	BORA_HOOK_TAKES_FRAMES = 1 << 4, /* The driver takes frames that XDP programs redirect; this is no hook. */
	BORA_HOOK_NOT_FOUND = 1 << 5, /* The program has not found the device, and assumes that it has hooks. */
};

enum bora_xfrm {
	BORA_XFRM_POLICIES = 1 << 0, /* There are policies for what is forwarded or sent. */
	BORA_XFRM_OUT_BLOCKED = 1 << 1, /* `ip xfrm policy setdefault out block`. */
	BORA_XFRM_FORWARD_BLOCKED = 1 << 2, /* `ip xfrm policy setdefault fwd block`. */
	BORA_XFRM_IN = 1 << 3, /* There are policies for what the router itself receives, or `ip xfrm policy setdefault in block`: they concern tunnels. */
};

enum bora_rule_base {
	BORA_RULE_BASE_UNTRACKED = 1 << 0, /* Packets that conntrack has to see must not come here: Linux decides about them. */
	BORA_RULE_BASE_ACCEPTS = 1 << 1, /* Its policy is to accept. */
	BORA_RULE_BASE_ROUTED = 1 << 2, /* It is behind the route, so packets without one do not come here. */
};

/* One port. Written by the control side. */
struct bora_port {
	__u16 index; /* Slot of the redirect map; a port's row of counters, below MAX_PORTS, or the number of a VLAN device or bond. */
	__u8 path; /* What the port does with transit traffic. */
	__u8 rp_filter; /* Reverse-path check of IPv4. */
	__u32 flags; /* enum bora_port_flags. */
	__u8 mac[6]; /* The interface's Ethernet address. */
	__u16 trunk; /* Number of the port or bond that carries its packets: itself, the port or bond below a VLAN device, or the bond that a port belongs to. */
	__u8 tags[8]; /* Tags of a VLAN device, one or two, as on the wire, without priority, the outer one first; else zeros. */
	__u32 priorities; /* Priorities of a VLAN device's tags by its egress-qos-map, three bits for each class of packets (TOS bits 3 and 4 of IPv4: 0 to 3; IPv6: 4), from the lowest bit on; those of the inner tag from bit 15 on. */
	__u32 ageing_ms; /* Milliseconds after which Linux must see a packet of a station again, so that it does not forget it, for a bridge or a VLAN device on one; else 0. */
	__u16 min_frame; /* Shorter frames get zeros up to this length, octets without FCS. */
	__u16 below; /* Number of what a macvlan is on; of all others their own. Linux prefers a macvlan's routes for IPv6 packets that come in by it, so those that would leave by what it is on are Linux's. */
	__u8 peer[6]; /* Ethernet address of the other end of a PPPoE session; else zeros. */
	__u16 session; /* Number of a PPPoE session (RFC 2516); else 0. */
};
_Static_assert(sizeof(struct bora_port) == 44, "struct bora_port has another layout than in Rust");

/* Why a packet did not take the fast way: passed to Linux, passed within a budget, dropped. */
enum bora_reason {
	BORA_NO_LEASE, /* passed: Bora is starting, is stopping or does not answer. */
	BORA_GUARD, /* passed: Linux has rules for it that Bora does not apply: netfilter, IPsec, tc; or `ip rule`s that only Linux can follow. */
	BORA_FORWARDING_OFF, /* passed: Forwarding is off on the input interface. */
	BORA_NOT_IP, /* passed: Neither IPv4 nor IPv6, or of a VLAN that Bora does not forward by: ARP, LLDP, tags without a VLAN device. */
	BORA_VLAN_TAG, /* passed: Has a VLAN tag that is not in the frame, and belongs to no VLAN device that Bora forwards by. */
	BORA_FOREIGN_MAC, /* passed: Not for this port's Ethernet address: broadcast, multicast, or another station's. */
	BORA_LOCAL, /* passed: To or from an address of the router itself. */
	BORA_SPECIAL_ADDRESS, /* passed: Multicast, link-local, loopback and other addresses that Linux treats in its own way. */
	BORA_PARTIAL_CHECKSUM, /* passed: Its sender left the checksum to a card, and only Linux can complete it. */
	BORA_NOT_A_PORT, /* passed: Its route leaves by an interface that is no port, or whose driver takes no frames of XDP programs. */
	BORA_NO_NAPI, /* passed: Its route leaves by a veth whose peer has neither XDP nor GRO, and so takes no frames of XDP programs. */
	BORA_OUTPUT_DOWN, /* passed: Its route leaves by a port that is down: Linux takes another route, or answers. */
	BORA_NO_SOCKET, /* passed: The engine has no socket for the receive queue it came by. */
	BORA_LEFT_TO_LINUX, /* passed: The whole port is left to Linux, or it is a port of a bond that no packets come by now. */
	BORA_MULTIPATH, /* passed: Only Linux can choose among the several paths of its route. */
	BORA_FRAGMENTATION, /* passed: IPv4, longer than the output's MTU, and may be fragmented. */
	BORA_SUPER_PACKET, /* passed: Several segments in one packet, longer than the input's MTU (GRO, GSO). */
	BORA_LONG_FRAME, /* passed: In several buffers (a jumbo frame), which the output's driver does not take from XDP programs (NETDEV_XDP_ACT_NDO_XMIT_SG), or the engine. */
	BORA_REDIRECT, /* passed: It leaves by the port it came in by: Linux also sends an ICMP redirect. */
	BORA_ROUTE_EXCEPTION, /* passed: An ICMP error has told Linux that packets to its destination go otherwise than the route says: a redirect, or a very small path MTU. */
	BORA_SOURCE_CHECK, /* passed: Fails the reverse-path check (RFC 3704). */
	BORA_UNSUPPORTED, /* passed: Its route needs something that Bora does not do, or leaves by an interface that is no port. */
	BORA_SHAPED, /* passed: Leaves by an interface, or by something on one, whose queueing discipline (`tc qdisc`) shapes, polices, marks or orders what is sent: Linux sends it. */
	BORA_BRIDGE, /* passed: By a bridge: Linux has to learn that its sender is at this port, or to see it now and then; or Linux knows no port of its next hop, or one that Bora does not send by. */
	BORA_MALFORMED, /* budget: A header that RFC 1812 5.2.2 or RFC 8200 3 forbids: Linux drops and counts it. */
	BORA_OPTIONS, /* budget: IPv4 options or IPv6 hop-by-hop options. */
	BORA_TTL_EXCEEDED, /* budget: TTL or hop limit used up (RFC 1812 5.3.1, RFC 4443 3.3): Linux answers. */
	BORA_NO_ROUTE, /* budget: No route to its destination: Linux answers. */
	BORA_UNREACHABLE, /* budget: An unreachable route, or in express a prohibit route: Linux answers. */
	BORA_NO_NEIGHBOUR, /* budget: The Ethernet address of its next hop is not known: Linux asks for it. */
	BORA_TOO_BIG, /* budget: Longer than the output's MTU, and not to be fragmented: Linux answers. */
	BORA_BLACKHOLE, /* dropped: A blackhole route. */
	BORA_PUNT_BUDGET, /* dropped: The punt budget of its reason was used up, so it did not go to Linux. */
	BORA_NO_OUTPUT, /* dropped: The output port has been removed, or Bora is stopping. */
	BORA_TX_RING_FULL, /* dropped: The output's driver refused a frame of the express path: its ring was full. */
	BORA_FIREWALL, /* dropped: A rule of Linux's nftables drops it, which Bora has read. */
	BORA_BAD_TOTAL_LENGTH, /* dropped: Its length is less than its header's, or more than the frame's. (The XDP program drops it only where Bora offers flows a table.) */
	BORA_BAD_CHECKSUM, /* dropped: The checksum of the IPv4 header is wrong. (The XDP program drops it only where Bora offers flows a table.) */
	BORA_OTHER_HOST, /* dropped: For another station's Ethernet address: Linux would drop it, too (PACKET_OTHERHOST; ports without an XDP program, or where Bora offers flows a table). */
	BORA_REASONS,
};
#define BORA_FIRST_BUDGET BORA_MALFORMED
#define BORA_FIRST_DROP BORA_BLACKHOLE

#endif
