/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The express tier: it forwards by Bora's FIB. Where that does not say, it asks the kernel's own FIB and
 * neighbours (bpf_fib_lookup).
 */
#ifndef BORA_EXPRESS_H
#define BORA_EXPRESS_H

#define FLOWINFO_MASK bpf_htonl(0x0fffffff)

#define ONLY_LINUX_KNOWS (BORA_REASONS + 1)

/* Where a packet leaves. */
struct way {
	__u8 macs[2 * ETH_ALEN] __attribute__((aligned(8))); /* destination, source */
	__u32 port; /* number, or BORA_MAX_INTERFACES */
	__u32 hop; /* number of the adjacency; 0: Linux has said the way */
	__u16 mtu; /* octets of an IP packet that may leave by the adjacency */
	bool known; /* an earlier packet of the poll left by it */
};

/* Whether Linux fragments the packet, or answers that it is too big. */
static __always_inline __u32 too_big(const struct packet *p, bool v6)
{
	return v6 || (p->ip4->frag_off & bpf_htons(IP_DF)) ? BORA_TOO_BIG : BORA_FRAGMENTATION;
}

static __always_inline __u32 reason_of_lookup(const struct packet *p, bool v6, long result)
{
	switch (result) {
	case BPF_FIB_LKUP_RET_BLACKHOLE:
		return BORA_BLACKHOLE;
	case BPF_FIB_LKUP_RET_UNREACHABLE:
	case BPF_FIB_LKUP_RET_PROHIBIT:
		return BORA_UNREACHABLE;
	case BPF_FIB_LKUP_RET_NOT_FWDED:
		return BORA_NO_ROUTE;
	case BPF_FIB_LKUP_RET_FWD_DISABLED:
		return BORA_FORWARDING_OFF;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		return BORA_NO_NEIGHBOUR;
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		return too_big(p, v6);
	default:
		return BORA_UNSUPPORTED;
	}
}

/* Whether Bora's FIB decides. The program reads the main table only; where rules or a VRF lead to others, Linux is asked. */
static __always_inline bool has_fib(const struct bora_port *in, bool v6)
{
	return fib_node_pages && fib_valid[v6] && !(in->flags & (v6 ? BORA_PORT_POLICY6 : BORA_PORT_POLICY4));
}

/* What Bora's FIB says of an address: see fib_hop(). */
static __always_inline __u32 hop_of(const struct bora_port *in, const void *address, bool v6)
{
	return has_fib(in, v6) ? fib_hop(fib_lookup(address, v6)) : 0;
}

/* What Bora's FIB says of the packet's destination. It is looked up once for packets of a poll that follow each other. The gate has seen them. */
static __always_inline __u32 hop_of_destination(const struct packet *p, bool v6, const struct bora_port *in)
{
	const __be32 *address = !v6 ? &p->ip4->daddr : p->ip6->daddr.in6_u.u6_addr32;
	struct poll *poll = p->poll;

	if (!has_fib(in, v6))
		return 0;
	if (poll->found & POLL_HOP(v6))
		return poll->hop;
	poll->hop = fib_hop(fib_lookup(address, v6));
	poll->found |= POLL_HOP(v6);
	return poll->hop;
}

/* Takes the way of an earlier packet of the poll, if it left by the same adjacency, and this one is not too big for it. */
static __always_inline bool take_known_way(const struct packet *p, __u32 hop, struct way *way)
{
	const struct poll *poll = p->poll;

	if (poll->way_hop != hop || p->l3_length > poll->mtu)
		return false;
	__builtin_memcpy(way->macs, poll->macs, sizeof(way->macs));
	way->port = poll->port;
	way->known = true;
	return true;
}

/*
 * Keeps a way for the poll's next packets, if what decides about it is the same for all: a bridge and a bond choose by the packet, and
 * two tags may make it too long.
 */
static __always_inline void keep_way(const struct packet *p, const struct bora_port *in, const struct bora_port *out,
				     const struct way *way)
{
	struct poll *poll = p->poll;

	if (!way->hop || out->ageing_ms || out->tags[TAG] || is_on_bond(out) ||
	    (in->flags & BORA_PORT_BYPASS_NETFILTER))
		return;
	__builtin_memcpy(poll->macs, way->macs, sizeof(poll->macs));
	poll->mtu = way->mtu;
	poll->port = way->port;
	poll->way_hop = way->hop;
}

/* The way by Bora's FIB. Linux has the last word on packets that are too big for it. */
static __always_inline __u32 ask_bora(const struct packet *p, bool v6, const struct bora_port *in,
				      struct way *way)
{
	__u32 hop = hop_of_destination(p, v6, in);
	struct fib_adjacency *adjacency;

	if (hop & BORA_FIB_REASON)
		return hop & ~BORA_FIB_REASON;
	if (!hop)
		return ONLY_LINUX_KNOWS;
	if (take_known_way(p, hop, way))
		return REASON_NONE;
	adjacency = fib_adjacency(hop);
	if (!adjacency || p->l3_length > adjacency->mtu || adjacency->port >= BORA_MAX_INTERFACES)
		return ONLY_LINUX_KNOWS;
	if (adjacency->unconfirmed)
		note_use(adjacency->unconfirmed);
	way->port = adjacency->port;
	way->mtu = adjacency->mtu;
	way->hop = hop;
	__builtin_memcpy(way->macs, adjacency->l2, sizeof(way->macs));
	return REASON_NONE;
}

/* The interface that the engine sends a packet by, whose workers read the same FIB; BORA_MAX_INTERFACES if that is not sure. */
static __always_inline __u32 engine_output(const struct packet *p, bool v6, const struct bora_port *in)
{
	__u32 hop = hop_of(in, !v6 ? (void *)&p->ip4->daddr : (void *)&p->ip6->daddr, v6);
	struct fib_adjacency *adjacency;

	if (!hop || (hop & BORA_FIB_REASON))
		return BORA_MAX_INTERFACES;
	adjacency = fib_adjacency(hop);
	if (!adjacency || adjacency->port >= BORA_MAX_INTERFACES || p->l3_length > adjacency->mtu)
		return BORA_MAX_INTERFACES;
	return adjacency->port;
}

/*
 * Reverse-path check (RFC 3704). In loose mode any route to a neighbour will do, as in fib_validate_source().
 * bpf_fib_lookup picks one of several paths, so a valid source may fail here. Therefore Linux decides.
 */
static __always_inline bool source_is_expected(struct xdp_md *ctx, const struct packet *p,
					       const struct bora_port *in, struct bora_counters *count)
{
	struct bpf_fib_lookup fib = { .family = AF_INET, .ifindex = p->ifindex };
	__u32 hop = hop_of(in, &p->ip4->saddr, false);
	struct fib_adjacency *back;
	long result;

	back = hop && !(hop & BORA_FIB_REASON) ? fib_adjacency(hop) : NULL;
	if (back && (in->rp_filter == BORA_RP_FILTER_LOOSE || back->port == in->index))
		return true;
	count->asked++;
	fib.tos = p->ip4->tos & 0xfc;
	fib.l4_protocol = p->ip4->protocol;
	fib.ipv4_src = p->ip4->daddr;
	fib.ipv4_dst = p->ip4->saddr;
	result = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH)
		return false;
	return in->rp_filter == BORA_RP_FILTER_LOOSE || fib.ifindex == p->ifindex;
}

/*
 * The longest prefix that has an MTU may not be the longest prefix of all. Then Linux gets the
 * packet unnecessarily, which is slow but correct.
 */
static __always_inline bool exceeds_route_mtu(const struct packet *p, bool v6)
{
	__u32 *mtu;

	if (!route_mtu_count[v6])
		return false;
	if (!v6) {
		struct route_key key = { .length = 32, .address = p->ip4->daddr };

		mtu = bpf_map_lookup_elem(&route_mtus, &key);
	} else {
		struct route_key6 key = { .length = 128, .address = p->ip6->daddr };

		mtu = bpf_map_lookup_elem(&route_mtus6, &key);
	}
	return mtu && p->l3_length > *mtu;
}

static __always_inline bool is_icmp_error(const struct packet *p, bool v6)
{
	__u8 *type = !v6 ? (void *)(p->ip4 + 1) : (void *)(p->ip6 + 1);

	if ((void *)(type + 1) > p->end)
		return false;
	if (v6)
		return p->ip6->nexthdr == IPPROTO_ICMPV6 && *type >= 1 && *type <= 4;
	/* unreachable, source quench, redirect, time exceeded, parameter problem */
	return p->ip4->protocol == IPPROTO_ICMP &&
	       (*type == 3 || *type == 4 || *type == 5 || *type == 11 || *type == 12);
}

/*
 * bpf_fib_lookup hashes the fields it is given (fib_multipath_hash() without a socket buffer). If
 * Linux hashes other fields of the packet, Linux has to choose: ICMP errors take the path of the
 * packet that they are about, policies 2 and 3 look inside tunnels, IPv6 extension headers hide the
 * protocol. The hash of policy 3 always differs. That of policy 2 differs for packets with a flow
 * label, because one of the kernel's two code paths swaps its octets.
 */
static __always_inline bool only_linux_can_choose(const struct packet *p, bool v6)
{
	__u8 policy = multipath_policy[v6];
	__u8 protocol = v6 ? p->ip6->nexthdr : p->ip4->protocol;

	if (!policy)
		return false;
	if (policy == POLICY_L3)
		return is_icmp_error(p, v6);
	if (policy >= POLICY_FIELDS)
		return true;
	if (v6 && (protocol == IPPROTO_ROUTING || protocol == IPPROTO_DSTOPTS ||
		   protocol == IPPROTO_FRAGMENT))
		return true;
	if (policy == POLICY_L4)
		return false;
	if (v6 && *(__be32 *)p->ip6 & bpf_htonl(0x000fffff))
		return true;
	return protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6 || protocol == IPPROTO_GRE;
}

/*
 * Whether rules may look at a header that fill_lookup() does not find: Linux's flow dissector reads over
 * extension headers.
 */
static __always_inline bool hides_transport(const struct packet *p, bool v6,
					    const struct bora_port *in)
{
	__u8 protocol;

	if (!v6 || !(in->flags & BORA_PORT_POLICY6))
		return false;
	protocol = p->ip6->nexthdr;
	return protocol == IPPROTO_ROUTING || protocol == IPPROTO_DSTOPTS ||
	       protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_AH;
}

static __always_inline void fill_lookup(const struct packet *p, bool v6, struct bpf_fib_lookup *fib)
{
	if (!v6) {
		fib->family = AF_INET;
		fib->tos = p->ip4->tos & 0xfc;
		fib->l4_protocol = p->ip4->protocol;
		fib->ipv4_src = p->ip4->saddr;
		fib->ipv4_dst = p->ip4->daddr;
	} else {
		fib->family = AF_INET6;
		fib->flowinfo = *(__be32 *)p->ip6 & FLOWINFO_MASK;
		fib->l4_protocol = p->ip6->nexthdr;
		__builtin_memcpy(fib->ipv6_src, &p->ip6->saddr, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, &p->ip6->daddr, sizeof(fib->ipv6_dst));
	}
	fib->tot_len = p->l3_length;
	flow_ports(p, v6, fib->l4_protocol, &fib->sport, &fib->dport);
}

/*
 * Ethernet padding is not forwarded (RFC 1812 5.2.2, checklist line 6). The output's own is zeros (RFC 894), which the kernel
 * writes where a frame grows; without room for it, it is the driver's work.
 */
static __always_inline void trim_and_pad(struct xdp_md *ctx, const struct packet *p,
					 const struct bora_port *out, const __u8 *tags)
{
	__u32 have = frame_octets(ctx);
	__u32 want = p->l3_length + sizeof(struct ethhdr) + octets_at(out, tags);

	if (have > want)
		bpf_xdp_adjust_tail(ctx, (int)(want - have));
	if (want < out->min_frame)
		bpf_xdp_adjust_tail(ctx, (int)(out->min_frame - want));
}

/* The way by the kernel's FIB. */
static __always_inline __u32 ask_linux(struct xdp_md *ctx, const struct packet *p, bool v6,
				       const struct bora_port *in, struct way *way)
{
	struct bpf_fib_lookup fib = { .ifindex = p->ifindex };
	struct bora_port *out;
	long result;

	if (route_mtu_count[v6] == BORA_MTUS_UNKNOWN)
		return BORA_GUARD;
	if (exceeds_route_mtu(p, v6))
		return too_big(p, v6);
	if (only_linux_can_choose(p, v6))
		return BORA_MULTIPATH;
	if (hides_transport(p, v6, in))
		return BORA_UNSUPPORTED;

	fill_lookup(p, v6, &fib);
	result = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (result != BPF_FIB_LKUP_RET_SUCCESS)
		return reason_of_lookup(p, v6, result);
	note_found(&fib);
	out = port_of_interface(fib.ifindex);
	way->port = out ? out->index : BORA_MAX_INTERFACES;
	__builtin_memcpy(way->macs, fib.dmac, ETH_ALEN);
	__builtin_memcpy(way->macs + ETH_ALEN, fib.smac, ETH_ALEN);
	return REASON_NONE;
}

/*
 * Whether the MTU of an output's port has no room for the second of two tags. Linux does not ask, because
 * its outer tag is beside the frame, but a redirected frame that is too long is lost.
 */
static __always_inline bool exceeds_port(const struct packet *p, const struct bora_port *out)
{
	struct net_device *dev = (void *)devices[out->trunk & (BORA_MAX_INTERFACES - 1)].address;

	return out->tags[TAG] && p->l3_length + TAG > KERNEL_READ(dev, mtu);
}

/* Why a packet must not leave by this output, or REASON_NONE. */
static __always_inline __u32 check_output(const struct packet *p, bool v6, const struct bora_port *in,
					  const struct port_row *row)
{
	const struct bora_port *out;

	if (!row || !row->ifindex)
		return BORA_NOT_A_PORT;
	out = &row->port;
	if (!(out->flags & BORA_PORT_UP))
		return BORA_OUTPUT_DOWN;
	if (out->flags & BORA_PORT_SHAPED)
		return BORA_SHAPED;
	if (exceeds_port(p, out))
		return too_big(p, v6);
	if (!(out->flags & BORA_PORT_CAN_REDIRECT) && !(in->flags & BORA_PORT_GENERIC))
		return out->flags & BORA_PORT_NO_NAPI ? BORA_NO_NAPI : BORA_NOT_A_PORT;
	return REASON_NONE;
}

/* Whether there is a hook where a packet leaves: by an output, which may be a device on a port. */
static __always_inline bool output_holds(const struct bora_port *in, const struct bora_port *out, __u32 port)
{
	__u32 key = out->index;

	barrier_var(port); /* else clang masks no number that it knows to be small, and Linux 6.1 has forgotten that it is */
	return egress_in_use() && !(in->flags & BORA_PORT_BYPASS_NETFILTER) &&
	       (egress_holds(&devices[key & (BORA_MAX_INTERFACES - 1)]) ||
		(port != key && egress_holds(&devices[port & (BORA_MAX_INTERFACES - 1)])) ||
		below_holds(out, true));
}

/* Whether a port's driver takes frames in several buffers. */
static __always_inline bool takes_fragments(__u32 port)
{
	const struct port_row *row = port_row(port);

	return row && row->port.flags & BORA_PORT_TAKES_FRAGMENTS;
}

/*
 * Sends a packet with these tags by an output and the port below it. `padded` keeps the octets behind the IP
 * packet, as flows do.
 */
static __always_inline int leave(struct xdp_md *ctx, struct packet *p, bool v6,
				 const struct bora_port *in, struct bora_counters *count,
				 const struct way *way, const struct bora_port *out, __u32 port,
				 const __u8 *tags, bool padded)
{
	struct bora_counters *out_count = counters_of(port);
	__u64 octets = octets_from(p, p->eth), sent;
	struct device_counters *device;

	if (!out_count)
		return pass(count, BORA_NOT_A_PORT);
	if (p->beyond && !(in->flags & BORA_PORT_GENERIC) && !takes_fragments(port))
		return pass(count, BORA_LONG_FRAME);
	if (!v6)
		decrement_ttl(p->ip4);
	else
		p->ip6->hop_limit--;
	/* the packet moves; Linux's flowtable gives no priority by the TOS */
	p->tos = v6 || padded ? 0 : p->ip4->tos;
	if (!p->frame_tags && !tags[0] && !out->session) {
		__builtin_memcpy(__builtin_assume_aligned(p->eth, 8), way->macs, sizeof(way->macs));
	} else if (!change_tags(ctx, p, v6, way->macs, out, tags, padded ? octets_from(p, p->l3) : p->l3_length)) {
		count->reasons[BORA_NO_OUTPUT]++; /* no headroom */
		return XDP_DROP;
	}
	recognize_poll(p->poll, port);
	/* this invalidates the packet pointers */
	if (!padded)
		trim_and_pad(ctx, p, out, tags);

	if (bpf_redirect_map(&tx_ports, port, XDP_ABORTED) != XDP_REDIRECT) {
		count->reasons[BORA_NO_OUTPUT]++; /* the port went this very moment */
		return XDP_DROP;
	}
	count->output = port;
	sent = frame_octets(ctx);
	out_count->tx_packets++;
	out_count->tx_bytes += sent;
	device = device_counters_of(in);
	if (device) {
		device->rx_packets++;
		device->rx_bytes += octets;
	}
	device = device_counters_of(out);
	if (device) {
		device->tx_packets++;
		device->tx_bytes += sent;
	}
	return XDP_REDIRECT;
}

/*
 * Looks whether the output takes the packet, and chooses the port of a bridge or a bond by the packet. `port` is the port below
 * the output, or the bond.
 */
static __always_inline __u32 choose_port(struct xdp_md *ctx, const struct packet *p, bool v6, const struct bora_port *in,
					 const struct port_row *row, const struct way *way, __u32 *port,
					 const __u8 **tags)
{
	const struct bora_port *out = &row->port;
	__u32 reason = check_output(p, v6, in, row);
	struct bridge_station *station;

	if (reason != REASON_NONE)
		return reason;
	if (out->ageing_ms) {
		station = bridge_station(out, way->macs);
		if (!station)
			return BORA_BRIDGE;
		if (!(in->flags & BORA_PORT_BYPASS_NETFILTER) && bridge_hooks_hold(device_of(ctx)))
			return BORA_GUARD;
		*port = station->port;
		*tags = station->tags;
	} else if (*port >= BORA_MAX_PORTS) {
		*port = port_of_bond(p, v6, way->macs, *port);
	}
	if (*port >= BORA_MAX_PORTS)
		return BORA_OUTPUT_DOWN;
	if (output_holds(in, out, *port))
		return BORA_GUARD;
	keep_way(p, in, out, way);
	return REASON_NONE;
}

static __always_inline int express(struct xdp_md *ctx, struct packet *p, bool v6,
				   const struct bora_port *in, struct bora_counters *count)
{
	struct bora_port *out;
	struct port_row *row;
	struct way way = {};
	const __u8 *tags;
	__u32 port, reason;

	if (!v6 && in->rp_filter && !source_is_expected(ctx, p, in, count))
		return pass(count, BORA_SOURCE_CHECK);

	reason = ask_bora(p, v6, in, &way);
	if (reason == ONLY_LINUX_KNOWS) {
		count->asked++;
		reason = ask_linux(ctx, p, v6, in, &way);
	}
	if (reason == BORA_BLACKHOLE) {
		count->reasons[BORA_BLACKHOLE]++;
		return XDP_DROP;
	}
	if (reason != REASON_NONE)
		return pass(count, reason);

	row = port_row(way.port);
	if (!row)
		return pass(count, BORA_NOT_A_PORT);
	out = &row->port;
	port = way.port < BORA_MAX_PORTS ? way.port : out->trunk;
	tags = out->tags;
	if (!way.known) {
		reason = choose_port(ctx, p, v6, in, row, &way, &port, &tags);
		if (reason != REASON_NONE)
			return pass(count, reason);
	}
	if (way.port == (v6 ? in->below : in->index) && (v6 || (in->flags & BORA_PORT_SEND_REDIRECTS4)))
		return pass(count, BORA_REDIRECT);
	if (has_rules(in, v6)) {
		int said = rules_decide(p, v6, in, out->index);

		if (said != RULES_FORWARD)
			return said == RULES_DROP ? forbid(count) : pass(count, BORA_GUARD);
	}
	return leave(ctx, p, v6, in, count, &way, out, port, tags, false);
}

#endif
