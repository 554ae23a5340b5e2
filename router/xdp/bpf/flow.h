/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Flows that Linux's ruleset has put into a flowtable (`flow add`). Their packets pass no chains in Linux, so
 * the program forwards them as Linux's own software flowtable does at the ingress of the device
 * (nf_flow_offload_ip_hook() in net/netfilter/nf_flow_table_ip.c). All other packets are Linux's.
 */
#ifndef BORA_FLOW_H
#define BORA_FLOW_H

#include "flow_known.h"
#include "flow_lookup.h"

enum { FLOW_NAT = 1 << 0 | 1 << 1 }; /* NF_FLOW_SNAT, NF_FLOW_DNAT */
enum { FLOW_XMIT_NEIGH = 1, FLOW_XMIT_DIRECT = 3 }; /* enum flow_offload_xmit_type */
enum { DST_FORCE_CHK = -1 }; /* DST_OBSOLETE_FORCE_CHK: the route is good while its number is current */
enum { ROUTE6_GATEWAY = 0x2, ROUTE6_EXPIRES = 0x400000, ROUTE6_CACHE = 0x1000000 }; /* RTF_* */

/* Whether a flow in a flowtable with `counter` is counted for conntrack, which only Linux can. */
static __always_inline bool is_counted(const void *flow)
{
	void *connection, *extensions;
	__u32 place;

	if (!bpf_core_enum_value_exists(enum nf_ct_ext_id, NF_CT_EXT_ACCT))
		return true;
	connection = MODULE_POINTER(flow, struct flow_offload, ct);
	extensions = MODULE_POINTER(connection, struct nf_conn, ext);
	if (!extensions)
		return false;
	place = bpf_core_field_offset(struct nf_ct_ext, offset) +
		bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_ACCT);
	return word_at(extensions, place) & 0xff;
}

/* Whether nothing but chains that flows pass by holds the packet back. */
static __always_inline bool may_take_flows(struct poll *poll, const struct bora_port *in, struct net *net, bool v6)
{
	if (in->flags & (v6 ? BORA_PORT_KERNEL6 : BORA_PORT_KERNEL4) || !(in->flags & (v6 ? BORA_PORT_FORWARD6 : BORA_PORT_FORWARD4)))
		return false;
	if (poll->found & POLL_FLOWS)
		return true;
	if (xfrm_holds(net))
		return false;
	poll->found |= POLL_FLOWS;
	return true;
}

/* Whether a TCP segment only carries data; Linux follows connections by the others. */
static __always_inline bool is_plain_segment(const struct tcphdr *tcp, const void *end)
{
	return (void *)(tcp + 1) <= end && !tcp->syn && !tcp->fin && !tcp->rst;
}

/* Reads a TCP or UDP packet into the key of its flow; false for others, and for those that no flow takes. */
static __always_inline bool read_flow(struct packet *p, bool v6, struct bpf_fib_lookup *key)
{
	__be16 *ports;

	if (!v6) {
		struct iphdr *ip = p->l3;

		if ((void *)(ip + 1) > p->end || ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1 ||
		    (ip->frag_off & bpf_htons(IP_FRAGMENT_BITS)))
			return false;
		p->ip4 = ip;
		p->l3_length = bpf_ntohs(ip->tot_len);
		key->family = AF_INET;
		key->l4_protocol = ip->protocol;
		key->ipv4_src = ip->saddr;
		key->ipv4_dst = ip->daddr;
		ports = (void *)(ip + 1);
	} else {
		struct ipv6hdr *ip = p->l3;

		if ((void *)(ip + 1) > p->end || ip->version != 6 || ip->hop_limit <= 1)
			return false;
		p->ip6 = ip;
		p->l3_length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
		key->family = AF_INET6;
		key->l4_protocol = ip->nexthdr;
		__builtin_memcpy(key->ipv6_src, &ip->saddr, sizeof(key->ipv6_src));
		__builtin_memcpy(key->ipv6_dst, &ip->daddr, sizeof(key->ipv6_dst));
		ports = (void *)(ip + 1);
	}
	if (p->l3_length > octets_from(p, p->l3))
		return false;
	if (key->l4_protocol == IPPROTO_TCP) {
		if (!is_plain_segment((void *)ports, p->end))
			return false;
	} else if (key->l4_protocol != IPPROTO_UDP || (void *)ports + sizeof(struct udphdr) > p->end) {
		return false;
	}
	key->sport = ports[0];
	key->dport = ports[1];
	return true;
}

/*
 * Why Linux's stack drops a packet before any hook, or REASON_NONE (ip_rcv_core(), ip6_rcv_core()). `at`: where its IP header is, octets. Not
 * static: the verifier looks at it once.
 */
__noinline int why_damaged(struct xdp_md *ctx, __u32 at, bool v6)
{
	struct packet p = {
		.end = (void *)(long)ctx->data_end,
		.beyond = octets_beyond(ctx),
		.l3 = (void *)(long)ctx->data + (at & 63),
	};
	const struct iphdr *ip4 = p.l3;
	const struct ipv6hdr *ip6 = p.l3;
	__u32 length;

	if (v6) {
		if ((void *)(ip6 + 1) > p.end)
			return REASON_NONE; /* no flow takes it */
		return bpf_ntohs(ip6->payload_len) > octets_from(&p, ip6 + 1) ? BORA_BAD_TOTAL_LENGTH : REASON_NONE;
	}
	if ((void *)(ip4 + 1) > p.end || ip4->ihl != 5)
		return REASON_NONE;
	length = bpf_ntohs(ip4->tot_len);
	if (length < sizeof(*ip4) || length > octets_from(&p, ip4))
		return BORA_BAD_TOTAL_LENGTH;
	return header_checksum_good(ip4) ? REASON_NONE : BORA_BAD_CHECKSUM;
}

/* Whether Linux would still use the IPv4 route of a flow (ipv4_dst_check()), and its next hop. */
static __always_inline bool follow_route4(struct rtable *route, struct net *net, struct flow_action *action)
{
	__u8 family = KERNEL_READ(route, rt_gw_family);

	if (KERNEL_READ(route, rt_genid) != KERNEL_READ(net, ipv4.rt_genid.counter) ||
	    (family && family != AF_INET))
		return false;
	action->next_hop[0] = family ? KERNEL_READ(route, rt_gw4) : action->destination[0];
	return true;
}

/* Whether the routing table still has the route that a flow was made with (rt6_check()). */
static __always_inline bool route6_is_current(struct rt6_info *route, struct net *net, __u32 cookie)
{
	int number = KERNEL_READ(route, sernum);
	struct fib6_info *from;
	struct fib6_node *node;

	if (number)
		return number == KERNEL_READ(net, ipv6.fib6_sernum.counter);
	from = KERNEL_READ(route, from);
	node = from ? KERNEL_READ(from, fib6_node) : NULL;
	if (!node || (__u32)KERNEL_READ(node, fn_sernum) != cookie)
		return false;
	return !(KERNEL_READ(from, fib6_flags) & ROUTE6_EXPIRES) ||
	       (__s64)(KERNEL_READ(from, expires) - bpf_jiffies64()) > 0;
}

static __always_inline bool follow_route6(struct rt6_info *route, struct net *net, __u32 cookie,
					  struct flow_action *action)
{
	__u32 flags = KERNEL_READ(route, rt6i_flags);

	if ((flags & (ROUTE6_EXPIRES | ROUTE6_CACHE)) || !route6_is_current(route, net, cookie))
		return false;
#pragma unroll
	for (int i = 0; i < 4; i++)
		action->next_hop[i] = flags & ROUTE6_GATEWAY ?
					      KERNEL_READ(route, rt6i_gateway.in6_u.u6_addr32[i]) :
					      action->destination[i];
	return true;
}

/* The output and the next hop of a flow's route; false if the route is not good any more. */
static __always_inline bool follow_route(const void *tuple, struct net *net, bool v6, struct flow_action *action)
{
	struct dst_entry *dst = MODULE_POINTER(tuple, struct flow_offload_tuple, dst_cache);
	struct net_device *dev;

	if (!dst || KERNEL_READ(dst, obsolete) != DST_FORCE_CHK || KERNEL_READ(dst, lwtstate))
		return false;
	dev = KERNEL_READ(dst, dev);
	action->output = KERNEL_READ(dev, ifindex);
	if (!v6)
		return follow_route4((void *)dst, net, action);
	return follow_route6((void *)dst, net, MODULE_WORD(tuple, struct flow_offload_tuple, dst_cookie), action);
}

static __always_inline void read_mac(__u8 *mac, const void *tuple, __u32 offset)
{
	__u32 first = word_at(tuple, offset), last = word_at(tuple, offset + 2);

	__builtin_memcpy(mac, &first, sizeof(first));
	__builtin_memcpy(mac + 2, &last, sizeof(last));
}

/* One of the tags that packets have where a flow leaves: EtherType and number, as on the wire. */
static __always_inline __be32 read_tag(const void *tuple, __u32 offset)
{
	__u32 word = word_at(tuple, offset); /* struct flow_tag */

	return bpf_htonl(bpf_ntohs(word >> 16) << 16 | (word & 0xffff));
}

/* The PPPoE session that a flow leaves by, where newer kernels put on all headers themselves; false if it is none. */
static __always_inline bool read_session(const void *other, struct flow_action *action)
{
	__be32 first = read_tag(other, bpf_core_field_offset(struct flow_offload_tuple, encap[0]));
	__be32 second = read_tag(other, bpf_core_field_offset(struct flow_offload_tuple, encap[1]));
	__u32 last = bpf_ntohl(action->tagged > 1 ? second : first);

	action->tag = action->tagged > 1 ? first : 0;
	action->session = bpf_htons(last & 0xffff);
	return last >> 16 == ETH_P_PPP_SES;
}

/* After the look-up: what becomes of the packet; false if Linux has to do it. */
static __always_inline bool read_action(const struct found_flow *found, struct net *net, bool v6, __u8 protocol,
					struct way *way, struct flow_action *action)
{
	const void *tuple = found->tuple + FLOW_TUPLE, *other, *flow;
	__u32 flags, type, both = 0, dir = MODULE_BITS(tuple, struct flow_offload_tuple, dir);

	/* the barriers keep the offsets constants, which the verifier wants */
	if (dir == 0) {
		flow = found->tuple - FLOW_TUPLES;
		other = tuple + FLOW_TUPLE_SIZE;
		barrier_var(other);
	} else if (dir == 1) {
		flow = found->tuple - FLOW_TUPLE_SIZE - FLOW_TUPLES;
		other = tuple - FLOW_TUPLE_SIZE;
		barrier_var(other);
	} else {
		return false;
	}
	flags = MODULE_WORD(flow, struct flow_offload, flags);
	if (bpf_core_enum_value_exists(enum nf_flow_flags, NF_FLOW_HW_BIDIRECTIONAL))
		both = 1 << bpf_core_enum_value(enum nf_flow_flags, NF_FLOW_HW_BIDIRECTIONAL);
	if (flags & ~(FLOW_NAT | both))
		return false; /* ending, or the card's */
	if (!found->refreshed && !is_fresh(flow, net, protocol))
		return false;
	if (found->counts && is_counted(flow))
		return false;
	if (bpf_core_field_exists(((struct flow_offload_tuple *)0)->tun_num) &&
	    MODULE_BITS(other, struct flow_offload_tuple, tun_num))
		return false;

	action->mtu = MODULE_BITS(tuple, struct flow_offload_tuple, mtu);
	/* with NAT in any way: the packet becomes what the other direction answers */
	action->nat = flags & FLOW_NAT;
	action->ports = word_at(other, bpf_core_field_offset(struct flow_offload_tuple, src_port));
	action->ports = action->ports << 16 | action->ports >> 16;
#pragma unroll
	for (int i = 0; i < (v6 ? 4 : 1); i++) {
		action->source[i] =
			word_at(other, bpf_core_field_offset(struct flow_offload_tuple, dst_v6) + 4 * i);
		action->destination[i] =
			word_at(other, bpf_core_field_offset(struct flow_offload_tuple, src_v6) + 4 * i);
	}

	action->tagged = MODULE_BITS(other, struct flow_offload_tuple, encap_num);
	type = MODULE_BITS(tuple, struct flow_offload_tuple, xmit_type);
	if (type == FLOW_XMIT_NEIGH)
		return follow_route(tuple, net, v6, action);
	if (type != FLOW_XMIT_DIRECT)
		return false;
	if (action->tagged && !read_session(other, action)) /* a bridge's tag */
		return false;
	action->direct = true;
	action->output = MODULE_WORD(tuple, struct flow_offload_tuple, out.ifidx);
	read_mac(way->macs, tuple, bpf_core_field_offset(struct flow_offload_tuple, out.h_dest));
	read_mac(way->macs + ETH_ALEN, tuple, bpf_core_field_offset(struct flow_offload_tuple, out.h_source));
	return true;
}

/* The Ethernet addresses of a next hop: by Bora's FIB, or by Linux's. False if only Linux finds them. */
static __always_inline bool find_neighbour(struct xdp_md *ctx, bool v6, const struct bora_port *in,
					   const struct flow_action *action, const struct port_row *row,
					   struct bpf_fib_lookup *fib, struct way *way)
{
	__u32 hop = in->flags & BORA_PORT_FLOW_RULES ? 0 : hop_of(in, action->destination, v6);
	struct fib_adjacency *adjacency;

	adjacency = hop && !(hop & BORA_FIB_REASON) ? fib_adjacency(hop) : NULL;
	if (adjacency && adjacency->port == row->port.index) {
		if (adjacency->unconfirmed)
			note_use(adjacency->unconfirmed);
		__builtin_memcpy(way->macs, adjacency->l2, sizeof(way->macs));
		return true;
	}
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = v6 ? AF_INET6 : AF_INET;
	fib->ifindex = action->output;
	__builtin_memcpy(fib->ipv6_dst, action->next_hop, v6 ? sizeof(fib->ipv6_dst) : sizeof(fib->ipv4_dst));
	if (bpf_fib_lookup(ctx, fib, sizeof(*fib), BPF_FIB_LOOKUP_OUTPUT) != BPF_FIB_LKUP_RET_SUCCESS ||
	    fib->ifindex != action->output)
		return false;
#pragma unroll
	for (int i = 0; i < (v6 ? 4 : 1); i++) {
		if (fib->ipv6_dst[i] != action->next_hop[i])
			return false;
	}
	note_found(fib);
	__builtin_memcpy(way->macs, fib->dmac, ETH_ALEN);
	__builtin_memcpy(way->macs + ETH_ALEN, fib->smac, ETH_ALEN);
	return true;
}

/* What a checksum becomes when words are replaced; `change` has them, the old ones inverted (RFC 1624). */
static __always_inline __u16 replaced(__u16 check, __u64 change)
{
	return ~fold((__u16)~check + change);
}

/* Gives the packet the addresses and ports of the flow's other side. */
static __always_inline bool translate(struct packet *p, bool v6, const struct flow_action *action)
{
	__be32 *source = v6 ? (void *)&p->ip6->saddr : (void *)&p->ip4->saddr;
	__be32 *destination = v6 ? (void *)&p->ip6->daddr : (void *)&p->ip4->daddr;
	__u8 protocol = v6 ? p->ip6->nexthdr : p->ip4->protocol;
	void *l4 = v6 ? (void *)(p->ip6 + 1) : (void *)(p->ip4 + 1);
	__u64 place = protocol == IPPROTO_TCP ? offsetof(struct tcphdr, check) :
						offsetof(struct udphdr, check);
	__sum16 *check;
	__u64 change = 0;

	barrier_var(place); /* so that one check of bounds is for both */
	check = l4 + place;
	if ((void *)(check + 1) > p->end || l4 + sizeof(action->ports) > p->end)
		return false;
#pragma unroll
	for (int i = 0; i < (v6 ? 4 : 1); i++) {
		change += (__u32)~source[i] + (__u64)action->source[i];
		change += (__u32)~destination[i] + (__u64)action->destination[i];
		source[i] = action->source[i];
		destination[i] = action->destination[i];
	}
	if (!v6)
		p->ip4->check = replaced(p->ip4->check, change);
	change += (__u32)~*(__be32 *)l4 + (__u64)action->ports;
	*(__be32 *)l4 = action->ports;
	if (protocol == IPPROTO_TCP) {
		*check = replaced(*check, change);
	} else if (*check) { /* 0: UDP without a checksum */
		*check = replaced(*check, change);
		if (!*check)
			*check = 0xffff;
	}
	return true;
}

/*
 * Whether Linux may send another frame by this output of a flow: newer kernels (nf_flow_encap_push()) add tags, without the
 * VLAN device's priorities, and the frame has the address of the port.
 */
static __always_inline bool has_other_header(const struct flow_action *action, const struct bora_port *out, const struct way *way)
{
	struct port_row *below = port_row(out->trunk);

	if (action->session && (!is_for((void *)way->macs, out->peer) || !is_for((void *)(way->macs + ETH_ALEN), out->mac)))
		return true;
	return action->tagged &&
	       (out->priorities || !below || !is_for((void *)below->port.mac, out->mac));
}

/* Whether flows do not leave by this device without Linux: a macvlan, a tunnel, a bridge, or what is on one. */
static __always_inline bool is_no_output(const struct bora_port *out)
{
	return out->index >= BORA_MAX_PORTS && (out->ageing_ms || !(out->flags & BORA_PORT_CAN_REDIRECT));
}

/*
 * Whether there is a hook where a flow leaves; which port of a bond that is (BORA_MAX_PORTS or more) is not
 * known yet.
 */
static __always_inline bool flow_output_holds(const struct bora_port *in, const struct bora_port *out, __u32 port)
{
	if (port < BORA_MAX_PORTS)
		return output_holds(in, out, port);
	return egress_in_use() && !(in->flags & BORA_PORT_BYPASS_NETFILTER) && any_egress_holds();
}

/* Number of the port or bond that carries what leaves by an output; a port of a bond carries its own. */
static __always_inline __u32 carrier_of(const struct bora_port *out)
{
	return out->index < BORA_MAX_PORTS ? out->index : out->trunk;
}

/* What a flow leaves by, or NULL. */
static __always_inline struct port_row *output_of(const struct flow_action *action)
{
	if (!action->session)
		return row_of_interface(action->output);
	return row_of(&(struct interface_key){ .ifindex = action->output, .outer = action->tag, .session = action->session });
}

/* Finds a packet's flow, and what becomes of its packets; false if Linux has to do it. `key` is changed. */
static __always_inline bool learn_flow(struct xdp_md *ctx, struct packet *p, bool v6, const struct bora_port *in,
				       struct bpf_fib_lookup *key, const __be32 *tags, struct known_flow *flow)
{
	struct net *net = KERNEL_READ(device_of(ctx), nd_net.net);
	struct flow_action *action = &flow->action;
	struct found_flow found = {};
	const struct bora_port *out;
	struct port_row *row;

	if (!may_take_flows(p->poll, in, net, v6))
		return false;
	begin_flow(flow, in, key, tags);
	find_flow(ctx, p, key, in, tags, &found);
	if (!found.tuple || !read_action(&found, net, v6, key->l4_protocol, &flow->way, action))
		return false;
	row = output_of(action);
	if (!row || check_output(p, v6, in, row) != REASON_NONE)
		return false;
	out = &row->port;
	flow->way.port = out->index;
	if (is_no_output(out) || has_other_header(action, out, &flow->way) || flow_output_holds(in, out, carrier_of(out)))
		return false;
	if (!action->direct && !out->session && !has_last_neighbour(p->poll, v6, action, &flow->way) &&
	    !find_neighbour(ctx, v6, in, action, row, key, &flow->way))
		return false;
	flow->poll = p->poll->number;
	return true;
}

/* Forwards the packet, or hands it to Linux, whose chains it then passes. `in`: what it came in by, maybe a device on the port. */
static __always_inline int forward_flow(struct xdp_md *ctx, struct packet *p, bool v6, const struct bora_port *in,
					struct bora_counters *count)
{
	struct bpf_fib_lookup key = { .ifindex = ctx->ingress_ifindex };
	__be32 tags[2] = {};
	struct known_flow *flow;
	struct port_row *row;
	int verdict;
	__u32 place, port, reason = REASON_NONE;

	if (own_flows[v6])
		reason = why_damaged(ctx, p->l3 - (void *)p->eth, v6);
	if (reason != REASON_NONE)
		return drop(count, reason);
	if (!read_flow(p, v6, &key))
		return pass(count, BORA_GUARD);
	if (is_super_packet(ctx, in))
		return pass(count, BORA_SUPER_PACKET);
	if (lacks_checksum(ctx, p, v6, in, false))
		return pass(count, BORA_PARTIAL_CHECKSUM);
	read_tags(p, tags);
	place = place_of_flow(&key);
	flow = flow_at(place);
	if (!flow)
		return pass(count, BORA_GUARD);
	if (!is_known(flow, p->poll, v6, in, &key, tags)) {
		if (!learn_flow(ctx, p, v6, in, &key, tags, flow))
			return pass(count, BORA_GUARD);
		p->poll->last_flow = place;
	}
	row = port_row(flow->way.port);
	if (!row || exceeds_port(p, &row->port) || octets_from(p, p->l3) > flow->action.mtu)
		return pass(count, BORA_GUARD);
	if (flow->action.nat && !translate(p, v6, &flow->action))
		return pass(count, BORA_GUARD);
	port = carrier_of(&row->port);
	if (port >= BORA_MAX_PORTS) /* the bond's hash is of the new addresses */
		port = port_of_bond(p, v6, flow->way.macs, port);
	if (port >= BORA_MAX_PORTS) {
		count->reasons[BORA_NO_OUTPUT]++; /* no port of the bond can send */
		return XDP_DROP;
	}
	/* Linux's flowtable forwards padding, too */
	verdict = leave(ctx, p, v6, in, count, &flow->way, &row->port, port, row->port.tags, true);
	if (verdict == XDP_REDIRECT)
		count->flows++;
	return verdict;
}

#endif
