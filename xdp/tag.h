/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * VLAN tags that do not stand in the frame. A card may take them out, and a virtual link may never
 * put them in; Linux keeps them in the socket buffer, which an XDP program does not see. A packet
 * with such a tag looks like one without.
 *
 * - veth in driver mode: the socket buffer stands behind the xdp_buff (Linux 6.3 and later).
 * - Generic XDP: the tracepoint netif_receive_skb, which comes right before XDP on the same CPU,
 *   notes whether the packet has one (note_tag in bora.bpf.c).
 * - Cards in driver mode: the control side makes them leave tags where they are.
 */
#ifndef BORA_TAG_H
#define BORA_TAG_H

#include "kernel_types.h"

/* What netif_receive_skb said of the packet this CPU is at. */
struct tag_note {
	__u32 ifindex;
	__u32 tagged;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tag_note);
} tag_notes SEC(".maps");

/* skb_vlan_tag_present(); the bit was given up in Linux 6.2. */
static __always_inline bool buffer_has_tag(struct sk_buff *skb)
{
	if (bpf_core_field_exists(struct sk_buff___bit, vlan_present))
		return BPF_CORE_READ_BITFIELD_PROBED((struct sk_buff___bit *)skb, vlan_present);
	return BPF_CORE_READ(skb, vlan_all) != 0;
}

static __always_inline bool noted_tag(struct xdp_md *ctx, const struct bora_port *in)
{
	__u32 key = 0;
	struct tag_note *note = bpf_map_lookup_elem(&tag_notes, &key);

	if (!note)
		return true;
	/* A VLAN device gets what came to the device below without the tag that led to it. */
	if ((in->flags & BORA_PORT_VLAN) && note->ifindex != ctx->ingress_ifindex)
		return false;
	return note->tagged;
}

static __always_inline bool veth_tag(struct xdp_md *ctx)
{
	struct sk_buff *skb = NULL;
	const void *place;

	if (!bpf_core_field_exists(struct veth_xdp_buff, skb))
		return true;
	place = (void *)ctx + bpf_core_field_offset(struct veth_xdp_buff, skb);
	if (bpf_probe_read_kernel(&skb, sizeof(skb), place))
		return true;
	/* frames that were redirected here have no socket buffer */
	return skb && buffer_has_tag(skb);
}

/* Whether this packet has a tag that is not in the frame. */
static __always_inline bool has_hidden_tag(struct xdp_md *ctx, const struct bora_port *in)
{
	if (in->flags & BORA_PORT_GENERIC)
		return noted_tag(ctx, in);
	return (in->flags & BORA_PORT_VETH) && veth_tag(ctx);
}

#endif
