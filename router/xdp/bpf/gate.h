/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The gate: the checks that decide whether a packet is plain transit. */
#ifndef BORA_GATE_H
#define BORA_GATE_H

/* Whether the address may be the router's own; `folded` holds the XOR of its words. */
static __always_inline bool may_be_own(__u32 folded, bool v6)
{
	__u32 bit = folded * 0x9e3779b1 >> 16;

	return own_filter[v6][bit / 32 % (BORA_OWN_FILTER / 32)] >> bit % 32 & 1;
}

static __always_inline bool is_own4(__be32 address)
{
	struct route_key key = { .length = 32, .address = address };

	return (may_be_own(address, false) && bpf_map_lookup_elem(&local4, &address)) ||
	       (local_prefix_count[0] && bpf_map_lookup_elem(&local_prefixes, &key));
}

static __always_inline bool is_own6(const struct in6_addr *address)
{
	struct route_key6 key = { .length = 128, .address = *address };
	const __be32 *word = address->in6_u.u6_addr32;
	__u32 folded = word[0] ^ word[1] ^ word[2] ^ word[3];

	return (may_be_own(folded, true) && bpf_map_lookup_elem(&local6, address)) ||
	       (local_prefix_count[1] && bpf_map_lookup_elem(&local_prefixes6, &key));
}

static __always_inline __u32 check_ipv4(struct packet *p, const struct bora_port *in,
					struct net_device *dev)
{
	struct iphdr *ip = p->l3;
	bool to_us = false;

	if (!(in->flags & BORA_PORT_FORWARD4))
		return BORA_FORWARDING_OFF;
	if ((void *)(ip + 1) > p->end || ip->version != 4 || ip->ihl < 5)
		return BORA_MALFORMED;
	if (!has_known_addresses(p->poll, (void *)&ip->saddr, false)) {
		if (special4(ip->daddr) || special4(ip->saddr))
			return BORA_SPECIAL_ADDRESS;
		to_us = is_own4(ip->daddr);
		if (is_own4(ip->saddr) || (to_us && !is_tunnelled(p, ip, in, dev)))
			return BORA_LOCAL;
		if (!to_us)
			p->poll->found |= POLL_PLAIN(false);
	}
	if (ip->ihl > 5)
		return BORA_OPTIONS;
	p->l3_length = bpf_ntohs(ip->tot_len);
	if (p->l3_length < sizeof(*ip) || p->l3_length > octets_from(p, ip))
		return BORA_MALFORMED;
	if (!header_checksum_good(ip))
		return BORA_MALFORMED;
	if (ip->ttl <= 1 && !to_us) /* a tunnel's may end with its last hop */
		return BORA_TTL_EXCEEDED;
	if (trusted_defragment[0] && (ip->frag_off & bpf_htons(IP_FRAGMENT_BITS)))
		return BORA_GUARD;
	p->ip4 = ip;
	return REASON_NONE;
}

/*
 * Neighbour discovery, which Linux may answer although it is for another (ip6_forward_proxy_check()). It may
 * stand behind extension headers, where the engine finds it by itself: it must see all that its rules may forbid.
 */
static __always_inline bool is_discovery(const struct ipv6hdr *ip, const void *end, const struct bora_port *in)
{
	const __u8 *type = (const void *)(ip + 1);

	switch (ip->nexthdr) {
	case IPPROTO_ICMPV6:
		return (const void *)(type + 1) <= end && *type >= 133 && *type <= 137;
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_AH:
	case IPPROTO_DSTOPTS:
		return proxy_ndp && in->path != BORA_PATH_ENGINE;
	}
	return false;
}

/* Whether an IPv6 packet is a fragment, or may be one behind other headers. */
static __always_inline bool may_be_fragment6(__u8 next_header)
{
	return next_header == IPPROTO_FRAGMENT || next_header == IPPROTO_ROUTING || next_header == IPPROTO_AH ||
	       next_header == IPPROTO_DSTOPTS;
}

static __always_inline __u32 check_ipv6(struct packet *p, const struct bora_port *in)
{
	struct ipv6hdr *ip = p->l3;

	if (!(in->flags & BORA_PORT_FORWARD6))
		return BORA_FORWARDING_OFF;
	if ((void *)(ip + 1) > p->end || ip->version != 6)
		return BORA_MALFORMED;
	if (!has_known_addresses(p->poll, (void *)&ip->saddr, true)) {
		if (special6(&ip->daddr) || special6(&ip->saddr))
			return BORA_SPECIAL_ADDRESS;
		if (is_own6(&ip->daddr) || is_own6(&ip->saddr))
			return BORA_LOCAL;
		p->poll->found |= POLL_PLAIN(true);
	}
	if (ip->nexthdr == IPPROTO_HOPOPTS)
		return BORA_OPTIONS;
	if (bpf_ntohs(ip->payload_len) > octets_from(p, ip + 1))
		return BORA_MALFORMED;
	p->l3_length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (ip->hop_limit <= 1)
		return BORA_TTL_EXCEEDED;
	if (is_discovery(ip, p->end, in))
		return BORA_SPECIAL_ADDRESS;
	if (trusted_defragment[1] && may_be_fragment6(ip->nexthdr))
		return BORA_GUARD;
	p->ip6 = ip;
	return REASON_NONE;
}

/* Whether a frame is for another station's Ethernet address, and Linux takes no such frames here. */
static __always_inline bool is_for_another(const struct ethhdr *eth, const struct bora_port *in)
{
	return !(eth->h_dest[0] & 1) && !is_for(eth, in->mac) && !(in->flags & BORA_PORT_PROMISCUOUS);
}

/* What the guard says of this IP version in this poll. */
static __always_inline bool guard_holds(struct poll *poll, __u32 found, struct net_device *dev, bool v6)
{
	bool holds;

	if (found & POLL_KNOWN(v6))
		return found & POLL_HOLDS(v6);
	holds = kernel_has_a_say(dev, v6);
	poll->found |= POLL_KNOWN(v6) | (holds ? POLL_HOLDS(v6) : 0);
	return holds;
}

/* Why this packet is not plain transit traffic, or REASON_NONE. */
static __always_inline __u32 gate(struct xdp_md *ctx, struct packet *p, bool v6,
				  const struct bora_port *in, struct net_device *dev)
{
	__u32 found = p->poll->found, reason;

	if (!(found & POLL_KNOWN(v6)) && bpf_ktime_get_coarse_ns() > lease_until)
		return BORA_NO_LEASE;
	if (!is_for(p->eth, in->mac))
		return BORA_FOREIGN_MAC;
	if (p->hides_tag)
		return BORA_VLAN_TAG;
	if (in->flags & (v6 ? BORA_PORT_KERNEL6 : BORA_PORT_KERNEL4))
		return BORA_GUARD;
	if (!(in->flags & BORA_PORT_BYPASS_NETFILTER) && guard_holds(p->poll, found, dev, v6))
		return BORA_GUARD;
	reason = v6 ? check_ipv6(p, in) : check_ipv4(p, in, dev);
	if (reason == REASON_NONE && p->session && p->l3_length > p->session_length)
		return BORA_MALFORMED;
	return reason;
}

/* Whether the engine would only hand the packet to Linux. */
static __always_inline bool linux_forwards(struct xdp_md *ctx, const struct packet *p, bool v6)
{
	struct bora_destination key = { .ifindex = ctx->ingress_ifindex };
	__u32 *generation;

	if (!linux_generation)
		return false;
	if (v6)
		__builtin_memcpy(key.address, &p->ip6->daddr, sizeof(key.address));
	else
		key.address[0] = p->ip4->daddr;
	generation = bpf_map_lookup_elem(&linux_destinations, &key);
	return generation && *generation == linux_generation;
}

#endif
