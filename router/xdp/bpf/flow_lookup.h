/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Finds the flow of a packet in Linux's flowtables. Linux's function for XDP programs is there from 6.11 on, and finds only flows that come in by
 * a port without tags. Otherwise the program reads the table, as Linux does under RCU: flow_offload_lookup() in
 * net/netfilter/nf_flow_table_core.c, rhashtable_lookup() in include/linux/rhashtable.h.
 */
#ifndef BORA_FLOW_LOOKUP_H
#define BORA_FLOW_LOOKUP_H

#include "flow_types.h"

#define FLOW_TUPLES bpf_core_field_offset(struct flow_offload, tuplehash)
#define FLOW_TUPLE bpf_core_field_offset(struct flow_offload_tuple_rhash, tuple)
#define FLOW_TUPLE_SIZE bpf_core_type_size(struct flow_offload_tuple_rhash)

/* Octets of a tuple that a flow is found by. */
#define FLOW_KEY __builtin_preserve_field_info(((struct flow_offload_tuple *)0)->dir, BPF_FIELD_BYTE_OFFSET)
#define FLOW_KEY_MOST 96

#define FLOW_CHAIN_MOST 16 /* flows of a hash that are looked at */
#define FLOW_KEY_VALUE(work, field, type) (*(type *)((void *)(work)->key + bpf_core_field_offset(struct flow_offload_tuple, field)))

enum { FLOWTABLE_OFFLOADS = 1, FLOWTABLE_COUNTS = 2 }; /* enum nf_flowtable_flags */
enum { CONNECTION_DYING = 1 << 9 }; /* IPS_DYING */

/* The look-up of one packet, because there is no stack for it. What is not written stays zero. */
struct flow_work {
	union {
		__u32 key[FLOW_KEY_MOST / 4];
		__u64 longs[FLOW_KEY_MOST / 8];
	};
	__u64 other[FLOW_KEY_MOST / 8]; /* the key of a flow in the table */
	__u64 flowtable;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_work);
} flow_works SEC(".maps");

/* The flow of a packet. */
struct found_flow {
	const void *tuple; /* struct flow_offload_tuple_rhash; NULL: none */
	bool refreshed; /* Linux has found it, and put off its end */
	bool counts; /* its flowtable counts packets, some of them for conntrack */
	bool held; /* what is at a device must see the packet */
};

static __always_inline struct flow_work *flow_work(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&flow_works, &key);
}

static __always_inline __u32 rotated(__u32 word, __u32 bits)
{
	return word << bits | word >> (32 - bits);
}

/* jhash() of include/linux/jhash.h, by Bob Jenkins. */
static __always_inline __u32 jhash(const __u32 *word, __u32 length, __u32 seed)
{
	__u32 a = 0xdeadbeef + length + seed, b = a, c = a;

	for (int i = 0; i < FLOW_KEY_MOST / 12; i++) {
		a += word[3 * i];
		b += word[3 * i + 1];
		c += word[3 * i + 2];
		if (length <= 12)
			break;
		length -= 12;
		a = (a - c) ^ rotated(c, 4), c += b;
		b = (b - a) ^ rotated(a, 6), a += c;
		c = (c - b) ^ rotated(b, 8), b += a;
		a = (a - c) ^ rotated(c, 16), c += b;
		b = (b - a) ^ rotated(a, 19), a += c;
		c = (c - b) ^ rotated(b, 4), b += a;
	}
	c = (c ^ b) - rotated(b, 14);
	a = (a ^ c) - rotated(c, 11);
	b = (b ^ a) - rotated(a, 25);
	c = (c ^ b) - rotated(b, 16);
	a = (a ^ c) - rotated(c, 4);
	b = (b ^ a) - rotated(a, 14);
	return (c ^ b) - rotated(b, 24);
}

/* Whether a flow in the table has the key. */
static __always_inline bool has_key(struct flow_work *work, const void *tuple)
{
	__u64 different = 0;

	if (bpf_probe_read_kernel(work->other, FLOW_KEY, tuple))
		return false;
#pragma unroll
	for (int i = 0; i < FLOW_KEY_MOST / 8; i++)
		different |= work->longs[i] ^ work->other[i];
	return !different;
}

/* The flow in one array of buckets. */
static __always_inline __u64 in_buckets(struct flow_work *work, __u64 table)
{
	__u32 size = MODULE_WORD((void *)table, struct bucket_table, size);
	__u32 seed = MODULE_WORD((void *)table, struct bucket_table, hash_rnd);
	__u64 bucket = jhash(work->key, FLOW_KEY, seed) & (size - 1), head;

	if (!size || MODULE_WORD((void *)table, struct bucket_table, nest))
		return 0; /* in pieces, for want of memory */
	head = long_at((void *)table + bucket * sizeof(head), bpf_core_field_offset(struct bucket_table, buckets));
	head &= ~1ull; /* a lock */
	for (int i = 0; i < FLOW_CHAIN_MOST; i++) {
		if (!head || (head & 1))
			return 0; /* a mark ends the chain */
		head -= bpf_core_field_offset(struct flow_offload_tuple_rhash, node);
		if (has_key(work, (void *)head + FLOW_TUPLE))
			return head;
		head = long_at((void *)head, bpf_core_field_offset(struct flow_offload_tuple_rhash, node));
	}
	return 0;
}

/*
 * The flow that is asked for in flow_works. It is no static function, so that the verifier looks at it once instead of at each call; and it has no
 * argument, because the verifier takes an address for no number.
 */
__noinline __u64 flow_in_table(void)
{
	struct flow_work *work = flow_work();
	__u64 table, found;

	if (!work)
		return 0;
	table = long_at((void *)work->flowtable, bpf_core_field_offset(struct nf_flowtable, rhashtable));
	if (!table)
		return 0;
	found = in_buckets(work, table);
	if (found)
		return found;
	table = long_at((void *)table, bpf_core_field_offset(struct bucket_table, future_tbl)); /* while it grows */
	return table ? in_buckets(work, table) : 0;
}

/*
 * Whether Linux would still use a flow, and need not see a packet of it yet. Only Linux can put off its end, so each packet is Linux's from the
 * middle of its time on, until one has put it off; or until one has brought it nearer, where the time is shorter than it was.
 */
static __always_inline bool is_fresh(const void *flow, struct net *net, __u8 protocol)
{
	const void *connection = MODULE_POINTER(flow, struct flow_offload, ct);
	__u32 time, left = MODULE_WORD(flow, struct flow_offload, timeout) - (__u32)bpf_jiffies64();

	if (MODULE_WORD(connection, struct nf_conn, status) & CONNECTION_DYING)
		return false;
	if (!bpf_core_field_exists(net->ct.nf_ct_proto.tcp.offload_timeout))
		return false;
	if (protocol == IPPROTO_TCP)
		time = KERNEL_READ(net, ct.nf_ct_proto.tcp.offload_timeout);
	else
		time = KERNEL_READ(net, ct.nf_ct_proto.udp.offload_timeout);
	return (__s32)left > 0 && left > time / 2 && left <= time;
}

/*
 * The device's flowtable if it is the first hook at its ingress: a hook before it would see each packet of a flow. Else NULL. The hook's
 * function must be that of the flowtable's type, which the argument of no chain has. Offloaded flows are the card's.
 */
static __always_inline void *flowtable_at_ingress(struct net_device *dev)
{
	struct nf_hook_entries *entries = KERNEL_READ(dev, nf_hooks_ingress);
	void *function, *flowtable, *type;

	if (!entries || !KERNEL_READ(entries, num_hook_entries))
		return NULL;
	function = KERNEL_READ(entries, hooks[0].hook);
	flowtable = KERNEL_READ(entries, hooks[0].priv);
	if (!function || !flowtable)
		return NULL;
	type = MODULE_POINTER(flowtable, struct nf_flowtable, type);
	if (!type || MODULE_POINTER(type, struct nf_flowtable_type, hook) != function)
		return NULL;
	return MODULE_WORD(flowtable, struct nf_flowtable, flags) & FLOWTABLE_OFFLOADS ? NULL : flowtable;
}

static __always_inline void write_tag(struct flow_work *work, __u32 offset, __be32 tag)
{
	struct flow_tag *to = (void *)work->key + offset;
	__be16 *half = (void *)&tag;

	to->proto = half[0];
	to->id = bpf_ntohs(half[1]); /* with its priority, as in Linux */
}

/* The flow with this key, at a device where the packet has these tags. */
static __always_inline const void *read_flowtable(void *flowtable, const struct bpf_fib_lookup *flow, __u32 ifindex, const __be32 *tags)
{
	struct flow_work *work = flow_work();

	if (!work)
		return NULL;
	FLOW_KEY_VALUE(work, l3proto, __u8) = flow->family;
	FLOW_KEY_VALUE(work, l4proto, __u8) = flow->l4_protocol;
	FLOW_KEY_VALUE(work, src_port, __be16) = flow->sport;
	FLOW_KEY_VALUE(work, dst_port, __be16) = flow->dport;
	FLOW_KEY_VALUE(work, iifidx, __u32) = ifindex;
	write_tag(work, bpf_core_field_offset(struct flow_offload_tuple, encap[0]), tags[0]);
	write_tag(work, bpf_core_field_offset(struct flow_offload_tuple, encap[1]), tags[1]);
	/* zeros are behind an IPv4 address */
	__builtin_memcpy(&FLOW_KEY_VALUE(work, src_v6, struct in6_addr), flow->ipv6_src, sizeof(flow->ipv6_src));
	__builtin_memcpy(&FLOW_KEY_VALUE(work, dst_v6, struct in6_addr), flow->ipv6_dst, sizeof(flow->ipv6_dst));
	work->flowtable = (__u64)flowtable;
	return (void *)flow_in_table();
}

/* The flow of a packet that came in by the port with its flow's ifindex. Linux puts off its end in this. */
static __always_inline const void *ask_flow(struct xdp_md *ctx, struct bpf_fib_lookup *key)
{
	struct bpf_flowtable_opts options = {};

	return bpf_xdp_flow_lookup(ctx, key, &options, sizeof(options));
}

/*
 * The flowtable of a device, or NULL: then another hook or filter must see the packet, or there is nothing at all. `poll`: what is found out is
 * of its port and counts for the whole poll, unless it is NULL.
 */
static __always_inline void *flowtable_of(struct poll *poll, struct net_device *dev, struct found_flow *found)
{
	void *flowtable;

	found->held = tc_at_ingress(dev);
	if (found->held || !nf_at_ingress(dev))
		return NULL;
	flowtable = flowtable_at_ingress(dev);
	found->held = !flowtable;
	if (!flowtable)
		return NULL;
	found->counts = MODULE_WORD(flowtable, struct nf_flowtable, flags) & FLOWTABLE_COUNTS;
	if (poll)
		poll->found |= POLL_FLOWTABLE | (found->counts ? POLL_COUNTS : 0);
	return flowtable;
}

/*
 * Looks into the flowtable of a device where the packet has these tags, if no flow has been found and nothing holds the packet yet. `poll`: it is
 * the port, where Linux's function looks; else NULL.
 */
static __always_inline void look_at_device(struct xdp_md *ctx, struct poll *poll, struct found_flow *found, struct net_device *dev,
					   struct bpf_fib_lookup *key, const __be32 *tags)
{
	struct nf_hook_entries *entries;
	void *flowtable = NULL;

	if (found->tuple || found->held)
		return;
	found->refreshed = poll && !tags[0] && bpf_xdp_flow_lookup;
	if (found->refreshed && (poll->found & POLL_FLOWTABLE)) {
		found->counts = poll->found & POLL_COUNTS;
	} else {
		flowtable = flowtable_of(poll, dev, found);
		if (!flowtable)
			return;
	}
	if (found->refreshed)
		found->tuple = ask_flow(ctx, key);
	else
		found->tuple = read_flowtable(flowtable, key, KERNEL_READ(dev, ifindex), tags);
	if (found->tuple)
		return;
	entries = KERNEL_READ(dev, nf_hooks_ingress);
	found->held = KERNEL_READ(entries, num_hook_entries) != 1;
}

/* Does the same at a bond or a VLAN device on the port, unless Bora does not know it. */
static __always_inline void look_above_port(struct xdp_md *ctx, struct found_flow *found, const struct bora_device *device,
					    struct bpf_fib_lookup *key, const __be32 *tags)
{
	struct net_device *dev = (void *)device->address;

	if (device->address <= BORA_DEVICE_UNKNOWN || KERNEL_READ(dev, ifindex) != device->ifindex || is_elsewhere(dev))
		found->held = true;
	else
		look_at_device(ctx, NULL, found, dev, key, tags);
}

/* The tags of a frame as on the wire, and the number of its PPPoE session behind the EtherType; 0: none. */
static __always_inline void read_tags(const struct packet *p, __be32 *tags)
{
	const __be32 *in_frame = (void *)p->eth + ADDRESSES;
	__u32 octets = p->frame_tags - (p->session ? SESSION : 0);
	__be32 session = bpf_htonl(ETH_P_PPP_SES << 16 | bpf_ntohs(p->session));

	if ((void *)(in_frame + 2) > p->end)
		return;
	if (p->hidden_tag) {
		tags[0] = p->hidden_tag;
		tags[1] = octets ? in_frame[0] : 0;
	} else if (octets) {
		tags[0] = in_frame[0];
		tags[1] = octets > TAG ? in_frame[1] : 0;
	}
	if (!p->session)
		return;
	/* no choice between addresses, which clang would compute in a way that the verifier refuses */
	tags[1] = tags[0] ? session : 0;
	tags[0] = tags[0] ? tags[0] : session;
}

/* Looks at the VLAN device below a PPPoE session. */
static __always_inline void look_below_session(struct xdp_md *ctx, struct found_flow *found, struct bpf_fib_lookup *key, const __be32 *tags)
{
	struct interface_key below = { .ifindex = ctx->ingress_ifindex, .outer = tags[0] & TAG_IDENTITY };
	__be32 session[2] = { tags[1] };
	struct port_row *row = row_of(&below);

	if (row)
		look_above_port(ctx, found, &devices[row->port.index & (BORA_MAX_INTERFACES - 1)], key, session);
	else
		found->held = true;
}

/*
 * Looks for the flow of a packet with these tags at the devices that it passes in Linux: the port, the bond, the VLAN device, the PPPoE session.
 * A flow of a bridge is at its port (nft_dev_path_info()).
 */
static __always_inline void find_flow(struct xdp_md *ctx, const struct packet *p, struct bpf_fib_lookup *key,
				      const struct bora_port *in, const __be32 *tags, struct found_flow *found)
{
	__u32 bond = in->trunk & (BORA_MAX_INTERFACES - 1), device = in->index & (BORA_MAX_INTERFACES - 1);
	__be32 none[2] = {};

	look_at_device(ctx, p->poll, found, device_of(ctx), key, tags);
	if (in->ageing_ms)
		return;
	if (is_on_bond(in))
		look_above_port(ctx, found, &devices[bond], key, tags);
	if (p->session && tags[1])
		look_below_session(ctx, found, key, tags);
	if (p->session || (tags[0] && !tags[1]))
		look_above_port(ctx, found, &devices[device], key, none);
}

#endif
