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
#include "pass.h"
#include "guard.h"
#include "poll.h"
#include "buffer.h"
#include "choice.h"
#include "device.h"
#include "marks.h"
#include "fib.h"
#include "rules.h"
#include "tunnel.h"
#include "gate.h"
#include "express.h"
#include "flow.h"
#include "survey.h"
#include "watch.h"
#include "tracepoints.h"

static __always_inline int transit(struct xdp_md *ctx, struct packet *p, bool v6,
				   const struct bora_port *in, struct net_device *dev,
				   struct bora_counters *count)
{
	__u32 reason;

	if (in->path == BORA_PATH_KERNEL)
		return pass(count, BORA_LEFT_TO_LINUX);
	reason = gate(ctx, p, v6, in, dev);
	if (reason == BORA_GUARD)
		bpf_tail_call(ctx, &tail_programs, row_of_program(FOR_FLOWS)); /* returns if none is there */
	if (reason == BORA_FOREIGN_MAC && own_flows[v6] && is_for_another(p->eth, in))
		return drop(count, BORA_OTHER_HOST);
	if (reason != REASON_NONE)
		return pass(count, reason);
	if (is_super_packet(ctx, in))
		return pass(count, BORA_SUPER_PACKET);
	if (lacks_checksum(ctx, p, v6, in, in->path == BORA_PATH_ENGINE))
		return pass(count, BORA_PARTIAL_CHECKSUM);
	if (choice_is_linux(ctx, in, dev, v6))
		return pass(count, BORA_MULTIPATH);

	if (in->path == BORA_PATH_ENGINE) {
		__u32 slot = p->port * BORA_MAX_QUEUES + ctx->rx_queue_index;

		if (p->beyond)
			return pass(count, BORA_LONG_FRAME);
		/* further slots belong to the next port */
		if (ctx->rx_queue_index >= BORA_MAX_QUEUES)
			return pass(count, BORA_NO_SOCKET);
		if (egress_in_use() && !(in->flags & BORA_PORT_BYPASS_NETFILTER) &&
		    any_egress_holds())
			return pass(count, BORA_GUARD);
		if (linux_forwards(ctx, p, v6))
			return pass(count, BORA_UNSUPPORTED);
		if (has_rules(in, v6)) {
			int said = rules_decide(p, v6, in, engine_output(p, v6, in));

			if (said != RULES_FORWARD)
				return said == RULES_DROP ? forbid(count) : pass(count, BORA_GUARD);
		}
		/* an instance that is only asked may have none: those of another Bora are there */
		if (bpf_redirect_map(&sockets, slot, XDP_PASS) != XDP_REDIRECT && !asked)
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
		.beyond = octets_beyond(ctx),
	};
	struct net_device *dev = device_of(ctx);
	struct bora_port *port = port_of_interface(ctx->ingress_ifindex);
	struct bora_counters *count;
	struct port_row *row;
	__be16 type = 0;

	p.poll = poll_of(dev);
	if (!port || !p.poll)
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
	p.frame_tags = forgotten(p.frame_tags) & 31;
	p.l3 = (void *)(p.eth + 1) + p.frame_tags;
	if (!(row->port.flags & BORA_PORT_BYPASS_NETFILTER) &&
	    (ingress_holds(&devices[row->port.index & (BORA_MAX_INTERFACES - 1)]) ||
	     below_holds(&row->port, false))) {
		if (bpf_ktime_get_coarse_ns() <= lease_until && is_for(p.eth, row->port.mac))
			bpf_tail_call(ctx, &tail_programs, row_of_program(FOR_FLOWS)); /* returns if none is there */
		return pass(count, BORA_GUARD);
	}
	if (row->port.ageing_ms && is_for(p.eth, row->port.mac)) {
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

/* What a packet came in by, and where its IP header is; NULL for what no flow comes in by. */
static __always_inline struct port_row *input_of_flow(struct xdp_md *ctx, struct packet *p, __be16 *type)
{
	struct port_row *own = row_of_interface(ctx->ingress_ifindex), *row;

	if (!own)
		return NULL;
	p->port = own->port.index;
	if ((void *)(p->eth + 1) > p->end)
		return NULL;
	if (own->port.flags & BORA_PORT_GENERIC) {
		p->l3 = p->eth + 1;
		*type = ethernet_type(p->eth);
		return own->port.trunk < BORA_MAX_PORTS ? own : NULL;
	}
	row = device_of_packet(ctx, p, &own->port, type);
	if (!row)
		return p->hidden_tag || p->frame_tags ? NULL : own;
	if (row->port.ageing_ms)
		return p->hidden_tag || p->frame_tags ? NULL : row;
	return row->port.flags & BORA_PORT_CAN_REDIRECT ? row : NULL; /* not a macvlan */
}

/*
 * A packet that the guard holds back: forwarded if it belongs to a flow of Linux's flowtable. A program of
 * its own, because it is loaded only where and when Linux has flowtables.
 */
static __always_inline int flow_decides(struct xdp_md *ctx)
{
	struct packet p = {
		.eth = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.beyond = octets_beyond(ctx),
		.poll = poll_of_cpu(),
		.port = BORA_MAX_PORTS, /* none: it is no port any more */
	};
	struct port_row *row;
	struct bora_counters *count;
	__be16 type = 0;

	row = input_of_flow(ctx, &p, &type);
	count = counters_of(p.port);
	if (!row || !count || !p.poll)
		return count ? pass(count, BORA_GUARD) : XDP_PASS;
	barrier_var(row); /* else clang adds to it before it is known not to be NULL */
	p.ifindex = row->ifindex;
	if (type == bpf_htons(ETH_P_IP))
		return forward_flow(ctx, &p, false, &row->port, count);
	if (type == bpf_htons(ETH_P_IPV6))
		return forward_flow(ctx, &p, true, &row->port, count);
	return pass(count, BORA_GUARD);
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
		.beyond = octets_beyond(ctx),
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
	p.poll = poll_of(dev);
	if (!in || !p.poll || (!p.poll->found && is_elsewhere(dev)))
		return XDP_PASS; /* not a port yet, or no longer */
	if (was_injected(in))
		return XDP_PASS; /* counted when it was punted */
	count = counters_of(in->index);
	if (!count)
		return XDP_PASS;
	count->rx_packets++;
	count->rx_bytes += octets_from(&p, p.eth);

	p.port = in->index;
	p.hides_tag = has_hidden_tag(ctx, in);
	if (device_count && !(in->flags & BORA_PORT_GENERIC) &&
	    (is_tag(type) || type == bpf_htons(ETH_P_PPP_SES) || p.hides_tag || in->trunk >= BORA_MAX_PORTS ||
	     (macvlan_count && type && !is_for(p.eth, in->mac)))) {
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

char _license[] SEC("license") = "GPL";
