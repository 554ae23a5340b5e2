/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Maps, variables and counters of the XDP program. */
#ifndef BORA_MAPS_H
#define BORA_MAPS_H

/* Monotonic ns until which the program may act; written by Bora (mmap). */
volatile __u64 lease_until;
/* Packets that a CPU may pass to Linux in each window, by reason; written by Bora. */
volatile __u64 budget[BORA_REASONS];
/* The network namespace these ports live in; set before loading. */
const volatile __u32 netns_inode;

/*
 * The hooks whose rules leave transit alone: prerouting, forward, postrouting of IPv4 and of IPv6; and the generation of the ruleset
 * that the control side has read. Written by Bora (mmap), the generation last.
 */
volatile struct bora_trust trusted[2][3];
volatile __u32 trusted_generation;
/* Where the generation is before Linux 6.17; 0: not known. Written by Bora (mmap) before hooks are trusted. */
volatile __u64 generation_at;
/* Whether they put fragments together, which is then Linux's work, IPv4 and IPv6; written by Bora (mmap). */
volatile __u8 trusted_defragment[2];

/*
 * The function at the ingress of devices that are in a flowtable of the other IP version, for IPv4 and for IPv6. Written by Bora (mmap)
 * while there are flowtables, which keep its module.
 */
volatile __u64 other_flowtable[2];

/*
 * Whether Bora offers flows of IPv4 and of IPv6 a table of its own. Linux's function for it forwards what its stack drops before any hook: what
 * is for another station, is cut off or has a wrong checksum. So the program drops it. Written by Bora (mmap).
 */
volatile __u8 own_flows[2];

/* Rules to follow where hooks are trusted: rules.h. Written by Bora (mmap) while none is. */
volatile struct bora_rules rules[2];

/* The process the lease belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int); /* pidfd */
	__type(value, __u8);
} owner SEC(".maps");

/*
 * The ports. An update is not atomic: a packet may see some new settings and some old ones, as between
 * two updates. The row of no port is zero, with which every packet goes to Linux.
 */
struct port_row {
	__u32 ifindex; /* 0: no port */
	struct bora_port port;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BORA_MAX_INTERFACES);
	__type(key, __u32); /* port index or number of a VLAN device */
	__type(value, struct port_row);
} ports SEC(".maps");
/* Rows below this have been in use. */
volatile __u32 port_count;
/* Where the port with an ifindex may be, by the ifindex's low bits; find_device() writes it. */
#define PORT_HINTS 4096
volatile __u16 port_hints[PORT_HINTS];

/*
 * The row of a port or VLAN device by its own ifindex, without tags; that of a VLAN device also by the
 * ifindex of its port and the tags as on the wire, without priority; that of a PPPoE session by the same and its number.
 */
struct interface_key {
	__u32 ifindex;
	__be32 outer;
	__be32 inner; /* 0: one tag */
	__be16 session; /* PPPoE session; 0: none */
	__u16 zero;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * BORA_MAX_INTERFACES);
	__type(key, struct interface_key);
	__type(value, __u32);
} interfaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, BORA_MAX_PORTS);
	__type(key, __u32); /* port index */
	__type(value, __u32); /* ifindex of the port */
} tx_ports SEC(".maps");

/* Programs that bora() ends in; written by the control side. */
enum {
	FOR_DEVICES,
	FOR_FLOWS,
	FOR_FILTERS, /* the program that runs the filters of captures and traces: watch.h */
	FOR_OTHERS, /* bora(), for packets that no filter takes */
	FOR_SHOWN, /* bora() in the instance that shows packets, for packets that a filter takes */
	SHOWN, /* the rows of that instance begin here: FOR_DEVICES, FOR_FLOWS */
	TAIL_PROGRAMS = SHOWN + 2
};
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, TAIL_PROGRAMS);
	__type(key, __u32);
	__type(value, __u32);
} tail_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, BORA_MAX_PORTS * BORA_MAX_QUEUES);
	__type(key, __u32); /* port index * BORA_MAX_QUEUES + queue */
	__type(value, __u32);
} sockets SEC(".maps");

/*
 * Destinations whose packets Linux forwards, for ports of the engine. The slow path adds those that
 * it gets many packets for. Linux forwards every packet correctly, so an outdated entry costs only
 * time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BORA_MAX_LINUX_DESTINATIONS);
	__type(key, struct bora_destination);
	__type(value, __u32); /* the entry is valid if this is linux_generation */
} linux_destinations SEC(".maps");
volatile __u32 linux_generation; /* 0: none is noted; written by Bora (mmap) */

/*
 * A bit for each hash of an address of the router itself, IPv4 and IPv6, which spares nearly all packets
 * the look-ups in the maps below; written by Bora (mmap).
 */
volatile __u32 own_filter[2][BORA_OWN_FILTER / 32];

/* Addresses of the router itself, including broadcast addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, __u8);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct in6_addr);
	__type(value, __u8);
} local6 SEC(".maps");

struct route_key {
	__u32 length;
	__be32 address;
};
struct route_key6 {
	__u32 length;
	struct in6_addr address;
};

/* Prefixes that are the router's own (AnyIP: `ip route add local 192.0.2.0/24 dev lo`). */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct route_key);
	__type(value, __u8);
} local_prefixes SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct route_key6);
	__type(value, __u8);
} local_prefixes6 SEC(".maps");
/* How many there are, IPv4 and IPv6; written by Bora (mmap). */
volatile __u32 local_prefix_count[2];

/* Prefixes whose route has an MTU of its own; bpf_fib_lookup uses it only if it is locked. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BORA_MAX_ROUTE_MTUS);
	__type(key, struct route_key);
	__type(value, __u32); /* octets */
} route_mtus SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BORA_MAX_ROUTE_MTUS);
	__type(key, struct route_key6);
	__type(value, __u32); /* octets */
} route_mtus6 SEC(".maps");
/* How many there are, IPv4 and IPv6, or BORA_MTUS_UNKNOWN; written by Bora (mmap). */
volatile __u32 route_mtu_count[2];

/*
 * Multipath settings by IP version, IPv4 and IPv6, as Bora last read them (mmap). Policy: 0 while
 * no route has several paths, else 1 + fib_multipath_hash_policy. The others are
 * fib_multipath_hash_fields and, for both versions, fib_multipath_hash_seed.
 */
volatile __u8 multipath_policy[2];
volatile __u32 multipath_fields[2];
volatile __u32 multipath_seed;

/* net.ipv6.conf.all.proxy_ndp: Linux may answer solicitations for others; written by Bora (mmap). */
volatile __u8 proxy_ndp;

/* A neighbour, as router/fib writes it. */
struct fib_adjacency {
	__u8 l2[ETH_HLEN];
	__u16 mtu; /* octets of the IP packet */
	__u16 port; /* index */
	__u16 unused;
	__u32 unconfirmed; /* marks.h: its bit if Linux has not confirmed it for a while, else 0 */
	__u32 unused_too[2];
} __attribute__((aligned(8)));

#define FIB_PAGE 4096
#define FIB_PAGE_BITMAPS (FIB_PAGE / 8)
#define FIB_PAGE_WORDS (FIB_PAGE / 4)
#define FIB_PAGE_ADJACENCIES ((__u32)(FIB_PAGE / sizeof(struct fib_adjacency)))

struct fib_page {
	union {
		__u64 bitmaps[FIB_PAGE_BITMAPS];
		__u32 words[FIB_PAGE_WORDS];
		__u16 entries[FIB_PAGE_WORDS * 2];
		struct fib_adjacency adjacencies[FIB_PAGE_ADJACENCIES];
	};
};

/* Bora's FIB: fib.h. BORA_FIB_NODES pages, fib_node_pages for IPv4, as many for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct fib_page);
} fib SEC(".maps");
/* Set before loading; 0: there is no FIB, and express asks bpf_fib_lookup. */
const volatile __u32 fib_node_pages;
/* Whether it says what Linux would, IPv4 and IPv6; written by Bora (mmap). */
volatile __u8 fib_valid[2];

/* What rules.h reads. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BORA_RULE_PAGES);
	__type(key, __u32);
	__type(value, struct fib_page);
} rule_pages SEC(".maps");

/* The look-up of one packet, because there is no stack for it. */
struct rule_work {
	__u32 rows[BORA_RULE_FIELDS];
	__u32 steps;
	__u32 untracked;
	__u32 depth; /* entries in the stack */
	__u16 path[BORA_RULE_STEPS]; /* entries whose conditions it meets */
	__u16 stack[BORA_RULE_DEPTH];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule_work);
} rule_works SEC(".maps");

/* What rules count, by entry; those of IPv6 come behind those of IPv4. */
struct rule_counter {
	__u64 packets;
	__u64 octets; /* from the IP header on */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * BORA_RULES);
	__type(key, __u32);
	__type(value, struct rule_counter);
} rule_counters SEC(".maps");

/* The bits of marks.h; the control side clears them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BORA_USE_MARKS / 64);
	__type(key, __u32);
	__type(value, __u64);
} use_marks SEC(".maps");

/*
 * An update of a map of maps waits until all programs that were running have ended, an RCU grace period
 * (maybe_wait_bpf_programs() in kernel/bpf/syscall.c). No program uses these.
 */
struct inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} inner SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct inner);
} grace_period SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORA_MAX_PORTS);
	__type(key, __u32); /* port index */
	__type(value, struct bora_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORA_REASONS);
	__type(key, __u32); /* enum bora_reason */
	__type(value, struct bora_budget);
} budgets SEC(".maps");

static __always_inline struct port_row *port_row(__u32 index)
{
	return bpf_map_lookup_elem(&ports, &index);
}

static __always_inline struct port_row *row_of(const struct interface_key *key)
{
	__u32 *index = bpf_map_lookup_elem(&interfaces, key);

	return index ? port_row(*index) : NULL;
}

static __always_inline struct port_row *row_of_interface(__u32 ifindex)
{
	struct port_row *row = port_row(port_hints[ifindex % PORT_HINTS]);
	struct interface_key key = { .ifindex = ifindex };

	if (row && row->ifindex != ifindex)
		row = row_of(&key);
	return row;
}

/* The port or VLAN device with an ifindex; NULL if it is none. */
static __always_inline struct bora_port *port_of_interface(__u32 ifindex)
{
	struct port_row *row = row_of_interface(ifindex);

	return row ? &row->port : NULL;
}

static __always_inline struct bora_counters *counters_of(__u32 port)
{
	return bpf_map_lookup_elem(&counters, &port);
}

#endif
