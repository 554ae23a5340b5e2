/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the XDP program and Bora's control side share. Every structure here is
 * written by one side only, named at its field.
 */
#ifndef BORA_H
#define BORA_H

#define BORA_MAX_PORTS 256
#define BORA_MAX_QUEUES 128 /* receive queues a port that have sockets: the stride of the XSK map */
#define BORA_MAX_ROUTE_MTUS 65536 /* routes with an MTU of their own, of each IP version */
#define BORA_MTUS_UNKNOWN 0xffffffff /* in place of their number: there are more */

/* What a port does with plain transit traffic. */
enum bora_path {
	BORA_PATH_KERNEL = 0, /* everything goes up to Linux */
	BORA_PATH_ENGINE = 1, /* to the AF_XDP socket of the queue */
	BORA_PATH_EXPRESS = 2, /* forwarded right here */
};

enum bora_port_flags {
	BORA_PORT_FORWARD4 = 1 << 0, /* net.ipv4.conf.IFACE.forwarding */
	BORA_PORT_FORWARD6 = 1 << 1, /* net.ipv6.conf.{all and IFACE}.forwarding */
	BORA_PORT_CAN_REDIRECT = 1 << 2, /* the driver takes redirected frames (ndo_xdp_xmit) */
	BORA_PORT_PARTIAL_CHECKSUM = 1 << 3, /* peers may leave L4 checksums to the receiver */
	BORA_PORT_KERNEL4 = 1 << 4, /* the guard leaves IPv4 to Linux */
	BORA_PORT_KERNEL6 = 1 << 5, /* the guard leaves IPv6 to Linux */
	BORA_PORT_BYPASS_NETFILTER = 1 << 6, /* --bypass netfilter */
	BORA_PORT_SEND_REDIRECTS4 = 1 << 7, /* net.ipv4.conf.*.send_redirects */
	BORA_PORT_GENERIC = 1 << 8, /* generic XDP: its frames can go to any port, injected ones come by again */
	BORA_PORT_UP = 1 << 9, /* up, and with carrier */
	BORA_PORT_VETH = 1 << 10, /* veth: VLAN tags stay in the socket buffer */
	BORA_PORT_VLAN = 1 << 11, /* a VLAN device */
};

/* One port, looked up by ifindex. Written by the control side. */
struct bora_port {
	__u16 index; /* row of counters, slot of tx_ports */
	__u8 path; /* enum bora_path */
	__u8 rp_filter; /* 0 off, 1 strict, 2 loose (RFC 3704) */
	__u16 flags; /* enum bora_port_flags */
	__u16 min_frame; /* octets; frames are not trimmed below it */
	__u8 mac[6];
};

/*
 * Why a packet did not take the fast way. The first group is Linux's own traffic, or traffic
 * that Linux forwards, and goes up freely; the second are exceptions, which Linux answers or
 * drops, and has a budget; the third is dropped here.
 */
enum bora_reason {
	/* up to the kernel, without a budget */
	BORA_NO_LEASE, /* Bora is away or stuck */
	BORA_GUARD, /* netfilter, ip rule, xfrm or tc has a say */
	BORA_FORWARDING_OFF, /* sysctl */
	BORA_NOT_IP, /* ARP, VLAN tags, LLDP, ... */
	BORA_VLAN_TAG, /* a VLAN tag that is not in the frame */
	BORA_FOREIGN_MAC, /* not for this port's address, or group */
	BORA_LOCAL, /* to or from an address of the router */
	BORA_SPECIAL_ADDRESS, /* multicast, link-local, loopback, ... */
	BORA_PARTIAL_CHECKSUM, /* checksum offload left to the receiver */
	BORA_NOT_A_PORT, /* the route leaves Bora's ports */
	BORA_NO_SOCKET, /* no engine on this queue */
	BORA_LEFT_TO_LINUX, /* the whole port is, for a reason that `bora show ports` tells */
	BORA_MULTIPATH, /* only Linux can tell which of several paths it takes */
	BORA_FRAGMENTATION, /* IPv4 beyond the output's MTU that may be fragmented */
	BORA_SUPER_PACKET, /* several segments as one, beyond the input's MTU (GRO, GSO) */
	BORA_REDIRECT, /* leaves where it came from; Linux also sends an ICMP redirect */
	BORA_SOURCE_CHECK, /* fails uRPF here: Linux decides */
	BORA_UNSUPPORTED, /* encapsulation and other lookups this tier does not do */
	/* up to the kernel, within a budget */
	BORA_MALFORMED, /* RFC 1812 5.2.2, RFC 8200 3: Linux drops and counts it */
	BORA_OPTIONS, /* IPv4 options, IPv6 hop-by-hop */
	BORA_TTL, /* TTL or hop limit used up */
	BORA_NO_ROUTE,
	BORA_UNREACHABLE, /* unreachable or prohibit route */
	BORA_NO_NEIGHBOUR,
	BORA_TOO_BIG, /* beyond the output's MTU, and not to be fragmented */
	/* dropped */
	BORA_BLACKHOLE,
	BORA_REASONS,
};
#define BORA_FIRST_BUDGET BORA_MALFORMED
#define BORA_FIRST_DROP BORA_BLACKHOLE

/*
 * Counters of one port on one CPU; packets unless named otherwise.
 * rx_packets = sum(passed) + sum(dropped) + to_engine + redirected.
 */
struct bora_counters {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 to_engine;
	__u64 redirected; /* handed to another port's driver */
	__u64 tx_packets; /* express frames given to this port's driver */
	__u64 tx_bytes;
	__u64 tx_ring_full; /* of these, refused by the driver */
	__u64 passed[BORA_REASONS];
	__u64 dropped[BORA_REASONS]; /* blackhole, or over the budget of a reason */
};

/* Metadata of a frame that inject.bpf.c hands to Linux on a port with generic XDP, which sees it again. */
struct bora_injected {
	__u32 netns_inode;
	__u32 ifindex;
};

/* Packets that come in by an interface for an address; IPv4 in the first word. */
struct bora_destination {
	__u32 ifindex;
	__be32 address[4];
};

/* Punt budget of one reason on one CPU: a fixed window. */
struct bora_budget {
	__u64 window_start; /* ns */
	__u64 used;
};
#define BORA_BUDGET_WINDOW_NS 10000000ull

/* Addresses of the kernel's own functions and variables; 0 where they are not known. */
struct bora_symbols {
	__u64 apparmor_ip_postroute;
	__u64 selinux_ip_forward;
	__u64 selinux_ip_postroute;
	__u64 selinux_state;
	__u64 selinux_secmark_refcount;
	__u64 selinux_xfrm_refcount;
	__u64 netlabel_mgmt_protocount;
	__u64 egress_needed_key;
};

/* In place of a device's address: it was not found. */
#define BORA_DEVICE_UNKNOWN 1

/* What find_device() is asked. */
struct bora_find {
	__u32 ifindex;
	__u32 index; /* of the port */
};

/* What survey() finds at a netfilter hook. */
#define BORA_SURVEY_FUNCTIONS 8
struct bora_hook {
	__u32 count; /* functions registered; the first ones follow */
	__u32 holds; /* whether they hold traffic back */
	__u64 functions[BORA_SURVEY_FUNCTIONS];
};

enum bora_port_hooks {
	BORA_NF_INGRESS = 1 << 0, /* nftables, family netdev */
	BORA_TC_INGRESS = 1 << 1, /* tc filters or tcx programs */
	BORA_NF_EGRESS = 1 << 2,
	BORA_TC_EGRESS = 1 << 3,
	BORA_TAKES_FRAMES = 1 << 4, /* its driver takes frames of XDP programs: no hook, but seen here */
	BORA_NOT_FOUND = 1 << 7, /* the device: taken for one with hooks */
};

enum bora_xfrm {
	BORA_XFRM_POLICIES = 1 << 0, /* there are policies for what is forwarded or sent */
	BORA_XFRM_OUT_BLOCKED = 1 << 1, /* `ip xfrm policy setdefault out block` */
	BORA_XFRM_FORWARD_BLOCKED = 1 << 2, /* the same with fwd */
};

struct bora_survey {
	struct bora_hook hooks[6]; /* prerouting, forward, postrouting of IPv4, then of IPv6 */
	__u8 ports[BORA_MAX_PORTS]; /* enum bora_port_hooks */
	__u8 xfrm; /* enum bora_xfrm */
	__u8 direct; /* the program reads without a helper's call (bpf_rdonly_cast) */
};

#endif
