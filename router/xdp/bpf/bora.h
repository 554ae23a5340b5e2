/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the XDP program and Bora's control side share. Only one side writes each structure; a
 * comment at its field says which.
 */
#ifndef BORA_H
#define BORA_H

#include "contract.h"

/*
 * Counters of one port on one CPU, in packets unless stated otherwise. Over all ports
 * sum(rx_packets) = sum(to_engine) + sum(tx_packets) + sum(reasons).
 */
struct bora_counters {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 to_engine;
	__u64 tx_packets; /* express frames that this port's driver took */
	__u64 tx_bytes; /* octets of these frames, and of those that it refused */
	__u64 asked; /* times that express has asked Linux's FIB, because Bora's did not say */
	__u64 flows; /* packets that came in here and were forwarded by a flow of Linux's flowtable */
	__u64 output; /* where the last packet that came in here left: number of the port; no counter */
	__u64 reasons[BORA_REASONS]; /* packets that came in here, by reason; BORA_TX_RING_FULL: packets that were to leave here */
};

/* Metadata of a frame that inject.bpf.c hands to Linux; generic XDP sees such a frame again. */
struct bora_injected {
	__u32 netns_inode;
	__u32 ifindex;
};

/* An input interface and a destination; an IPv4 address is in the first word. */
struct bora_destination {
	__u32 ifindex;
	__be32 address[4];
};

/* Punt budget of one reason on one CPU: a fixed window. */
struct bora_budget {
	__u64 window_start; /* ns */
	__u64 used;
};

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
	__u64 per_cpu_offset; /* __per_cpu_offset[], by CPU */
};

/* Argument of fib_ask(). */
struct bora_fib_question {
	__be32 address[4]; /* IPv4: the first */
	__u32 v6;
	__u32 next_hop; /* the answer: id */
	__u32 hop; /* and what becomes of packets: fib_hop() */
	__u32 ifindex;
	__u32 mark; /* the bit of the neighbour with this address there */
};

/* Stands for a device's address if it was not found. */
#define BORA_DEVICE_UNKNOWN 1

/* Arguments of find_device(). */
struct bora_find {
	__u32 ifindex;
	__u32 index; /* number of the port */
};

/* A netfilter hook by its list of functions (struct nf_hook_entries), and by the sum of their addresses and arguments. */
struct bora_trust {
	__u64 address; /* 0: no hook */
	__u64 sum;
};

/* Where the tree of a field of rules is, in 32-bit words of the pages; all begin at multiples of 16. */
struct bora_rule_field {
	__u32 nodes; /* 0: no entry looks at the field */
	__u32 keys; /* where the numbers are */
	__u32 rows; /* where the row of each number is, in 64-bit words of the pages */
};

/* A program of rules. Written by Bora. */
struct bora_rules {
	__u32 base_count; /* 0: no rules to follow */
	__u32 actions; /* where the words of the entries are: BORA_RULE_ACTION_*, RULE_COUNTS, and from bit 16 on another entry */
	__u32 bases[BORA_RULE_BASES]; /* the first entry of each base chain, and from bit 16 on BORA_RULE_BASE_* */
	struct bora_rule_field fields[BORA_RULE_FIELDS + 1]; /* the last one is unused: the verifier wants a power of two */
};
#define RULE_COUNTS 0x100

/* Argument of ask_rules(). */
struct bora_rules_question {
	__u64 addresses[2][2]; /* source and destination, in host order */
	__u32 words[5]; /* protocol, two words of the transport header, input, output */
	__u32 v6;
	__u32 steps; /* the answer: how many entries the packet meets */
	__u16 path[BORA_RULE_STEPS]; /* and which */
};

/* Functions that survey() found at a netfilter hook. */
#define BORA_SURVEY_FUNCTIONS 8
struct bora_hook {
	struct bora_trust identity;
	__u32 count; /* functions registered; the first ones follow */
	__u16 holds; /* whether they hold traffic back */
	__u16 trusted; /* whether they would, if their rules did not leave transit alone */
	__u64 functions[BORA_SURVEY_FUNCTIONS];
};

struct bora_survey {
	struct bora_hook hooks[8]; /* prerouting, forward, postrouting of IPv4, then of IPv6; input, output of IPv4 */
	__u64 generation; /* nftables counts its rulesets by it; 0 if this kernel does not show it */
	__u64 receivers[BORA_MAX_PORTS]; /* the function that takes all frames of a port's device */
	__u8 ports[BORA_MAX_INTERFACES]; /* enum bora_port_hooks */
	__u8 xfrm; /* enum bora_xfrm */
	__u8 rules[2]; /* whether the program follows rules of IPv4, of IPv6 */
	__u8 shows_generation; /* without generation.bpf.c (Linux 6.17) */
	__u8 direct; /* the program reads without a helper's call (bpf_rdonly_cast) */
};

#endif
