/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Flows that packets of the same NAPI poll had (poll.h), and what became of those: it counts for the flow's next packets of the poll.
 * Linux is not asked again whether the flow, its route and its neighbour are still there.
 */
#ifndef BORA_FLOW_KNOWN_H
#define BORA_FLOW_KNOWN_H

#include "flow_types.h"

#define KNOWN_FLOWS 16 /* places for flows of a poll on each CPU; a power of two */

/* What a flow does with a packet. Addresses: IPv4 in the first word. */
struct flow_action {
	__be32 source[4];
	__be32 destination[4];
	__be32 ports; /* both, as in the packet */
	__be32 next_hop[4];
	__u32 output; /* ifindex */
	__be16 session; /* a PPPoE session on it; 0: none */
	__u16 mtu; /* octets from the IP header on that it takes */
	__be32 tag; /* VLAN that the session is in; 0: none */
	__u32 nat; /* whether addresses and ports change */
	__u32 direct; /* the Ethernet addresses are known */
	__u32 tagged; /* the flow has the tags of its output */
};

struct known_flow {
	__u64 poll; /* number of the poll that it is known in */
	__be32 source[4]; /* its packets have these when they come in */
	__be32 destination[4];
	__be32 ports;
	__be32 tags[2];
	__u16 input; /* number of the port or device */
	__u8 family;
	__u8 protocol;
	struct flow_action action;
	struct way way;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KNOWN_FLOWS);
	__type(key, __u32);
	__type(value, struct known_flow);
} known_flows SEC(".maps");

static __always_inline __be32 ports_of(const struct bpf_fib_lookup *key)
{
	return key->sport | (__u32)key->dport << 16;
}

/* Where a packet's flow may be; another one may be there. */
static __always_inline __u32 place_of_flow(const struct bpf_fib_lookup *key)
{
	__u32 hash = key->ipv6_src[0] ^ key->ipv6_dst[0] ^ ports_of(key);

	hash ^= hash >> 16;
	return (hash ^ (hash >> 8) ^ (hash >> 4)) & (KNOWN_FLOWS - 1);
}

static __always_inline struct known_flow *flow_at(__u32 place)
{
	return bpf_map_lookup_elem(&known_flows, &place);
}

/* Whether a packet's flow is known. Without branches, because the verifier would follow each. */
static __always_inline bool is_known(const struct known_flow *flow, const struct poll *poll, bool v6, const struct bora_port *in,
				     const struct bpf_fib_lookup *key, const __be32 *tags)
{
	__u64 different = flow->poll ^ poll->number;

	different |= flow->input ^ in->index;
	different |= flow->family ^ key->family;
	different |= flow->protocol ^ key->l4_protocol;
	different |= flow->ports ^ ports_of(key);
	different |= flow->tags[0] ^ tags[0];
	different |= flow->tags[1] ^ tags[1];
#pragma unroll
	for (int i = 0; i < (v6 ? 4 : 1); i++) {
		different |= flow->source[i] ^ key->ipv6_src[i];
		different |= flow->destination[i] ^ key->ipv6_dst[i];
	}
	return !different;
}

/* Writes down which packets a flow has. */
static __always_inline void begin_flow(struct known_flow *flow, const struct bora_port *in, const struct bpf_fib_lookup *key,
				       const __be32 *tags)
{
	flow->poll = 0; /* it is not known while it is learned */
	__builtin_memcpy(flow->source, key->ipv6_src, sizeof(flow->source));
	__builtin_memcpy(flow->destination, key->ipv6_dst, sizeof(flow->destination));
	flow->ports = ports_of(key);
	flow->tags[0] = tags[0];
	flow->tags[1] = tags[1];
	flow->input = in->index;
	flow->family = key->family;
	flow->protocol = key->l4_protocol;
	flow->action.direct = false;
	flow->action.session = 0;
	flow->action.tag = 0;
}

/* The Ethernet addresses of the flow that was learned last, if that has the same next hop. */
static __always_inline bool has_last_neighbour(const struct poll *poll, bool v6, const struct flow_action *action, struct way *way)
{
	const struct known_flow *last = flow_at(poll->last_flow);
	__u64 different;

	if (!last)
		return false;
	different = last->poll ^ poll->number;
	different |= last->family ^ (v6 ? AF_INET6 : AF_INET);
	different |= last->action.direct;
	different |= last->action.output ^ action->output;
#pragma unroll
	for (int i = 0; i < (v6 ? 4 : 1); i++)
		different |= last->action.next_hop[i] ^ action->next_hop[i];
	if (different)
		return false;
	__builtin_memcpy(way->macs, last->way.macs, sizeof(way->macs));
	return true;
}

#endif
