// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Bora's XDP program: the gate in front of Linux. Plain transit traffic goes to the engine's AF_XDP
 * sockets or is forwarded here (the express tier). All other packets go up to Linux unchanged.
 * Without a valid lease all packets do, so that Linux forwards when Bora is dead or stuck.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bora.h"
#include "packet.h"
#include "kernel_types.h"
#include "maps.h"
#include "guard.h"
#include "buffer.h"
#include "choice.h"
#include "device.h"
#include "marks.h"
#include "fib.h"
#include "tunnel.h"
#include "express.h"
#include "flow.h"
#include "survey.h"
#include "watch.h"

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
	bool to_us;

	if (!(in->flags & BORA_PORT_FORWARD4))
		return BORA_FORWARDING_OFF;
	if ((void *)(ip + 1) > p->end || ip->version != 4 || ip->ihl < 5)
		return BORA_MALFORMED;
	if (special4(ip->daddr) || special4(ip->saddr))
		return BORA_SPECIAL_ADDRESS;
	to_us = is_own4(ip->daddr);
	if (is_own4(ip->saddr) || (to_us && !is_tunnelled(p, ip, in, dev)))
		return BORA_LOCAL;
	if (ip->ihl > 5)
		return BORA_OPTIONS;
	p->l3_length = bpf_ntohs(ip->tot_len);
	if (p->l3_length < sizeof(*ip) || p->l3_length > p->end - (void *)ip)
		return BORA_MALFORMED;
	if (!header_checksum_good(ip))
		return BORA_MALFORMED;
	if (ip->ttl <= 1 && !to_us) /* a tunnel's may end with its last hop */
		return BORA_TTL_EXCEEDED;
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

static __always_inline __u32 check_ipv6(struct packet *p, const struct bora_port *in)
{
	struct ipv6hdr *ip = p->l3;

	if (!(in->flags & BORA_PORT_FORWARD6))
		return BORA_FORWARDING_OFF;
	if ((void *)(ip + 1) > p->end || ip->version != 6)
		return BORA_MALFORMED;
	if (special6(&ip->daddr) || special6(&ip->saddr))
		return BORA_SPECIAL_ADDRESS;
	if (is_own6(&ip->daddr) || is_own6(&ip->saddr))
		return BORA_LOCAL;
	if (ip->nexthdr == IPPROTO_HOPOPTS)
		return BORA_OPTIONS;
	if (bpf_ntohs(ip->payload_len) > p->end - (void *)(ip + 1))
		return BORA_MALFORMED;
	p->l3_length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (ip->hop_limit <= 1)
		return BORA_TTL_EXCEEDED;
	if (is_discovery(ip, p->end, in))
		return BORA_SPECIAL_ADDRESS;
	p->ip6 = ip;
	return REASON_NONE;
}

/* Why this packet is not plain transit traffic, or REASON_NONE. */
static __always_inline __u32 gate(struct xdp_md *ctx, struct packet *p, bool v6,
				  const struct bora_port *in, struct net_device *dev)
{
	if (bpf_ktime_get_coarse_ns() > lease_until)
		return BORA_NO_LEASE;
	if (!is_for(p->eth, in->mac))
		return BORA_FOREIGN_MAC;
	if (p->hides_tag)
		return BORA_VLAN_TAG;
	if (in->flags & (v6 ? BORA_PORT_KERNEL6 : BORA_PORT_KERNEL4))
		return BORA_GUARD;
	if (!(in->flags & BORA_PORT_BYPASS_NETFILTER) && kernel_has_a_say(dev, v6))
		return BORA_GUARD;
	return v6 ? check_ipv6(p, in) : check_ipv4(p, in, dev);
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

static __always_inline int transit(struct xdp_md *ctx, struct packet *p, bool v6,
				   const struct bora_port *in, struct net_device *dev,
				   struct bora_counters *count)
{
	__u32 reason;

	if (in->path == BORA_PATH_KERNEL)
		return pass(count, BORA_LEFT_TO_LINUX);
	reason = gate(ctx, p, v6, in, dev);
	if (reason == BORA_GUARD && in->index < BORA_MAX_PORTS)
		bpf_tail_call(ctx, &tail_programs, row_of_program(FOR_FLOWS)); /* returns if none is there */
	if (reason != REASON_NONE)
		return pass(count, reason);
	if (is_super_packet(in))
		return pass(count, BORA_SUPER_PACKET);
	if (lacks_checksum(ctx, p, v6, in, in->path == BORA_PATH_ENGINE))
		return pass(count, BORA_PARTIAL_CHECKSUM);
	if (choice_is_linux(ctx, in, dev, v6))
		return pass(count, BORA_MULTIPATH);

	if (in->path == BORA_PATH_ENGINE) {
		__u32 slot = p->port * BORA_MAX_QUEUES + ctx->rx_queue_index;

		/* further slots belong to the next port */
		if (ctx->rx_queue_index >= BORA_MAX_QUEUES)
			return pass(count, BORA_NO_SOCKET);
		if (egress_in_use() && !(in->flags & BORA_PORT_BYPASS_NETFILTER) &&
		    any_egress_holds())
			return pass(count, BORA_GUARD);
		if (linux_forwards(ctx, p, v6))
			return pass(count, BORA_UNSUPPORTED);
		if (bpf_redirect_map(&sockets, slot, XDP_PASS) != XDP_REDIRECT)
			return pass(count, BORA_NO_SOCKET);
		if (p->hidden_tag && !show_tag(ctx, p->hidden_tag))
			return pass(count, BORA_VLAN_TAG); /* no headroom */
		count->to_engine++;
		return XDP_REDIRECT;
	}
	return express(ctx, p, v6, in, count);
}

/*
 * A packet of a VLAN device, a bond or a macvlan; not with generic XDP. A VLAN tag is in the frame or beside it.
 * A program of its own, because there is no stack for both.
 */
static __always_inline int on_port_decides(struct xdp_md *ctx)
{
	struct packet p = {
		.eth = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	struct net_device *dev = device_of(ctx);
	struct bora_port *port = port_of_interface(ctx->ingress_ifindex);
	struct bora_counters *count;
	struct port_row *row;
	__be16 type = 0;

	if (!port)
		return XDP_PASS;
	count = counters_of(port->index);
	if (!count)
		return XDP_PASS;
	p.port = port->index;
	row = device_of_packet(ctx, &p, port, &type);
	if (!row) {
		if (p.hidden_tag)
			return pass(count, BORA_VLAN_TAG);
		if (type == bpf_htons(ETH_P_IP) || type == bpf_htons(ETH_P_IPV6))
			return pass(count, p.frame_tags ? BORA_NOT_IP : BORA_FOREIGN_MAC);
		return pass(count, BORA_NOT_IP);
	}
	if (port->path == BORA_PATH_KERNEL)
		return pass(count, BORA_LEFT_TO_LINUX);
	if (!(row->port.flags & BORA_PORT_BYPASS_NETFILTER) &&
	    (ingress_holds(&devices[row->port.index & (BORA_MAX_INTERFACES - 1)]) ||
	     below_holds(&row->port, false))) {
		/* Linux's function does not find flows of VLAN devices and macvlans: docs/firewall.md */
		if (row->port.index == port->trunk && !p.hidden_tag && !p.frame_tags &&
		    bpf_ktime_get_coarse_ns() <= lease_until && is_for(p.eth, row->port.mac))
			bpf_tail_call(ctx, &tail_programs, row_of_program(FOR_FLOWS)); /* returns if none is there */
		return pass(count, BORA_GUARD);
	}
	if (row->port.sight && is_for(p.eth, row->port.mac)) {
		if (!(row->port.flags & BORA_PORT_BYPASS_NETFILTER) && bridge_hooks_hold(dev))
			return pass(count, BORA_GUARD);
		if (bridge_must_see(&p, &row->port))
			return pass(count, BORA_BRIDGE);
	}
	p.ifindex = row->ifindex;
	if (type == bpf_htons(ETH_P_IP))
		return transit(ctx, &p, false, &row->port, dev, count);
	if (type == bpf_htons(ETH_P_IPV6))
		return transit(ctx, &p, true, &row->port, dev, count);
	return pass(count, BORA_NOT_IP);
}

SEC("xdp")
int on_port(struct xdp_md *ctx)
{
	int verdict = on_port_decides(ctx);

	return shows ? watch_after(ctx, verdict) : verdict;
}

/*
 * A packet that the guard holds back: forwarded if it belongs to a flow of Linux's flowtable. A program of
 * its own, because it is loaded only where and when Linux has the function that looks flows up.
 */
static __always_inline int flow_decides(struct xdp_md *ctx)
{
	struct packet p = {
		.eth = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.ifindex = ctx->ingress_ifindex,
	};
	struct port_row *row = row_of_interface(ctx->ingress_ifindex);
	struct net_device *dev = device_of(ctx);
	struct bora_counters *count;
	__be16 type;

	if (!row)
		return XDP_PASS;
	count = counters_of(row->port.index);
	if (!count)
		return XDP_PASS;
	if ((void *)(p.eth + 1) > p.end)
		return pass(count, BORA_GUARD);
	if (row->port.trunk >= BORA_MAX_PORTS) {
		__u32 bond = row->port.trunk;

		if ((row->port.flags & BORA_PORT_GENERIC) || tc_at_ingress(dev))
			return pass(count, BORA_GUARD);
		dev = flowtable_bond(dev, &devices[bond & (BORA_MAX_INTERFACES - 1)]);
		row = port_row(bond);
		if (!dev || !row || row->port.sight) /* sight: a bridge */
			return pass(count, BORA_GUARD);
		p.ifindex = row->ifindex;
	}
	barrier_var(row); /* else clang adds to it before it is known not to be NULL */
	p.l3 = p.eth + 1;
	type = ethernet_type(p.eth);
	if (type == bpf_htons(ETH_P_IP))
		return forward_flow(ctx, &p, false, &row->port, dev, count);
	return forward_flow(ctx, &p, true, &row->port, dev, count);
}

SEC("xdp")
int flow(struct xdp_md *ctx)
{
	int verdict = flow_decides(ctx);

	return shows ? watch_after(ctx, verdict) : verdict;
}

static __always_inline int bora_decides(struct xdp_md *ctx)
{
	struct packet p = {
		.eth = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.ifindex = ctx->ingress_ifindex,
	};
	struct bora_counters *count;
	struct net_device *dev;
	struct bora_port *in;
	__be16 type = 0; /* stands for frames that are too short */

	/* The first look at a packet waits for memory. What follows does not need it, so it runs meanwhile. */
	if ((void *)(p.eth + 1) <= p.end)
		type = ethernet_type(p.eth);
	barrier_var(type);
	p.l3 = p.eth + 1;
	dev = device_of(ctx);
	in = port_of_interface(ctx->ingress_ifindex);
	if (!in || is_elsewhere(dev))
		return XDP_PASS; /* not a port yet, or no longer */
	if (was_injected(in))
		return XDP_PASS; /* counted when it was punted */
	count = counters_of(in->index);
	if (!count)
		return XDP_PASS;
	count->rx_packets++;
	count->rx_bytes += ctx->data_end - ctx->data;

	p.port = in->index;
	p.hides_tag = has_hidden_tag(ctx, in);
	if (device_count && !(in->flags & BORA_PORT_GENERIC) &&
	    (is_tag(type) || p.hides_tag || in->trunk >= BORA_MAX_PORTS ||
	     (station_count && type && !is_for(p.eth, in->mac)))) {
		bpf_tail_call(ctx, &tail_programs, row_of_program(FOR_DEVICES));
		return pass(count, BORA_LEFT_TO_LINUX); /* Bora is gone, and its array is empty */
	}
	if (type == bpf_htons(ETH_P_IP))
		return transit(ctx, &p, false, in, dev, count);
	if (type == bpf_htons(ETH_P_IPV6))
		return transit(ctx, &p, true, in, dev, count);
	return pass(count, BORA_NOT_IP);
}

SEC("xdp")
int bora(struct xdp_md *ctx)
{
	int verdict;

	if (awaits_filters())
		bpf_tail_call(ctx, &tail_programs, FOR_FILTERS);
	if (shows)
		watch_before(ctx);
	verdict = bora_decides(ctx);
	return shows ? watch_after(ctx, verdict) : verdict;
}

/* Attached for a moment in place of bora(), so that the driver sees bora() attached anew. */
SEC("xdp")
int idle(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* The port of a device; NULL for devices of other network namespaces. */
static __always_inline struct bora_port *port_of(const struct net_device *dev)
{
	if (dev->nd_net.net->ns.inum != netns_inode)
		return NULL;
	return port_of_interface(dev->ifindex);
}

/*
 * The output's driver may still refuse a redirected frame after the program has returned. The
 * tracepoint, on the same CPU, gives their number. Frames that another program has redirected to a
 * port are not counted.
 */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(count_refused, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int err)
{
	struct bora_counters *count;
	struct bora_port *out;

	if (drops <= 0 || !port_of(from))
		return 0;
	out = port_of(to);
	if (!out)
		return 0;
	count = counters_of(out->index);
	if (!count)
		return 0;
	count->tx_packets -= drops;
	count->reasons[BORA_TX_RING_FULL] += drops;
	return 0;
}

/* Fills the note of buffer.h. Attached while there are ports with generic XDP. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(note_buffer, struct sk_buff *skb)
{
	struct buffer_note *note = buffer_note();

	if (!note)
		return 0;
	note->ifindex = skb->dev->ifindex;
	/* Linux takes the tag out of the frame before it gives the packet to a bond */
	note->tagged = buffer_has_tag(skb) || skb->protocol == bpf_htons(ETH_P_8021Q) ||
		       skb->protocol == bpf_htons(ETH_P_8021AD);
	note->hashed = buffer_has_hash(skb);
	note->checksum_start = buffer_checksum_start(skb);
	note_shared_info(skb, note);
	return 0;
}

/* Returns whether buffer.h sees the socket buffers of a veth on this kernel. */
SEC("syscall")
int sees_veth_buffers(void *ctx)
{
	return sees_veth_buffer();
}

/*
 * When a process is killed the kernel first frees its memory, which takes about 100 ms, and then
 * closes its sockets. Packets that are redirected meanwhile would be lost, so the lease ends here
 * at once.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(end_lease, struct task_struct *task)
{
	if (bpf_task_storage_get(&owner, task, NULL, 0))
		lease_until = 0;
	return 0;
}

char _license[] SEC("license") = "GPL";
