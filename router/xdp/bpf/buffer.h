/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Facts about a packet that are in its socket buffer only, where an XDP program does not see them:
 *
 * - A VLAN tag that a card has taken out of the frame, or that a virtual link never put in: the
 *   packet looks like one without a tag.
 * - A hash of the flow, made by the sender's socket or a card: with fib_multipath_hash_policy 1 Linux
 *   uses it to choose among several paths.
 * - A checksum that the sender left to others (CHECKSUM_PARTIAL).
 * - That the packet is several segments (GSO).
 *
 * Where they are read:
 *
 * - veth in driver mode: the xdp_buff is followed by a pointer to the socket buffer (Linux 6.3 and
 *   later). These packets are single segments unless the program takes frames in several buffers.
 * - Generic XDP: the tracepoint netif_receive_skb, which comes right before XDP on the same CPU,
 *   records them (note_buffer() in tracepoints.h).
 * - Cards in driver mode: the control side makes them leave tags in frames, and make no hash.
 */
#ifndef BORA_BUFFER_H
#define BORA_BUFFER_H

#include "kernel_types.h"

#define CHECKSUM_PARTIAL 3

/* What netif_receive_skb recorded about the packet that this CPU works on. */
struct buffer_note {
	__u32 ifindex;
	__u16 checksum_start; /* see buffer_checksum_start() */
	bool tagged;
	bool hashed;
	bool segments; /* several */
	bool injected; /* by inject.bpf.c: the program has seen it before */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer_note);
} buffer_notes SEC(".maps");

static __always_inline struct buffer_note *buffer_note(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&buffer_notes, &key);
}

/* skb_vlan_tag_present(); Linux 6.2 removed the bit. */
static __always_inline bool buffer_has_tag(struct sk_buff *skb)
{
	if (bpf_core_field_exists(struct sk_buff___bit, vlan_present))
		return BPF_CORE_READ_BITFIELD_PROBED((struct sk_buff___bit *)skb, vlan_present);
	return KERNEL_READ(skb, vlan_all) != 0;
}

static __always_inline bool buffer_has_hash(struct sk_buff *skb)
{
	return KERNEL_READ_BITS(skb, l4_hash);
}

/* Offset in the frame of the L4 header whose checksum is incomplete; 0 if none is. */
static __always_inline __u16 buffer_checksum_start(struct sk_buff *skb)
{
	if (KERNEL_READ_BITS(skb, ip_summed) != CHECKSUM_PARTIAL)
		return 0;
	return KERNEL_READ(skb, csum_start) - KERNEL_READ(skb, mac_header);
}

/* Octets of each segment of a super-packet; 0 for others. */
static __always_inline __u16 buffer_segment(struct sk_buff *skb)
{
	unsigned char *head = KERNEL_READ(skb, head);
	struct skb_shared_info *info = (void *)(head + KERNEL_READ(skb, end));

	return KERNEL_READ(info, gso_size);
}

static __always_inline void note_shared_info(struct sk_buff *skb, struct buffer_note *note)
{
	unsigned char *head = BPF_CORE_READ(skb, head);
	struct skb_shared_info *info = (void *)(head + BPF_CORE_READ(skb, end));
	struct bora_injected mark = {};

	note->segments = BPF_CORE_READ(info, gso_size) != 0;
	note->injected = false;
	if (BPF_CORE_READ(info, meta_len) != sizeof(mark))
		return;
	bpf_probe_read_kernel(&mark, sizeof(mark),
			      head + BPF_CORE_READ(skb, mac_header) - sizeof(mark));
	note->injected = mark.netns_inode == netns_inode && mark.ifindex == note->ifindex;
}

static __always_inline bool noted_tag(struct xdp_md *ctx, const struct bora_port *in)
{
	struct buffer_note *note = buffer_note();

	if (!note)
		return true;
	/* A VLAN device gets the packets of the device below it, without the tag. */
	if ((in->flags & BORA_PORT_VLAN) && note->ifindex != ctx->ingress_ifindex)
		return false;
	return note->tagged;
}

static __always_inline bool sees_veth_buffer(void)
{
	return bpf_core_field_exists(struct veth_xdp_buff, skb);
}

/* Whether Bora has put the packet in (`bora trace --packet`): only such packets come with metadata. */
static __always_inline bool was_put_in(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_meta < (void *)(long)ctx->data;
}

/* NULL for frames that were redirected to the veth, or put in there: they have no socket buffer. */
static __always_inline struct sk_buff *veth_buffer(struct xdp_md *ctx)
{
	/* any structure that begins with a pointer: programs cannot name the types of modules */
	struct hlist_head *at = (void *)ctx + bpf_core_field_offset(struct veth_xdp_buff, skb);

	if (was_put_in(ctx))
		return NULL;
	return (void *)KERNEL_READ(at, first);
}

/* Whether this packet has a tag that is not in the frame. */
static __always_inline bool has_hidden_tag(struct xdp_md *ctx, const struct bora_port *in)
{
	struct sk_buff *skb;

	if (in->flags & BORA_PORT_GENERIC)
		return noted_tag(ctx, in);
	if (!(in->flags & BORA_PORT_VETH))
		return false;
	if (!sees_veth_buffer())
		return true;
	skb = veth_buffer(ctx);
	return skb && buffer_has_tag(skb);
}

/* The tag of a veth's packet that is not in the frame, as it would be there; 0 if there is none. */
static __always_inline __be32 hidden_tag(struct xdp_md *ctx, const struct bora_port *in)
{
	struct sk_buff *skb;
	__be16 tag[2];
	__be32 whole;

	if (!(in->flags & BORA_PORT_VETH) || !sees_veth_buffer())
		return 0;
	skb = veth_buffer(ctx);
	if (!skb || !buffer_has_tag(skb))
		return 0;
	tag[0] = KERNEL_READ(skb, vlan_proto);
	tag[1] = bpf_htons(KERNEL_READ(skb, vlan_tci));
	__builtin_memcpy(&whole, tag, sizeof(whole));
	return whole;
}

/* Whether the socket buffer has a hash of this packet's flow. */
static __always_inline bool has_hash(struct xdp_md *ctx, const struct bora_port *in)
{
	struct buffer_note *note;
	struct sk_buff *skb;

	if (in->flags & BORA_PORT_GENERIC) {
		note = buffer_note();
		return note && note->hashed;
	}
	if (!(in->flags & BORA_PORT_VETH) || !sees_veth_buffer())
		return false;
	skb = veth_buffer(ctx);
	return skb && buffer_has_hash(skb);
}

/* Whether this packet is several segments. */
static __always_inline bool is_super_packet(struct xdp_md *ctx, const struct bora_port *in)
{
	struct buffer_note *note = in->flags & BORA_PORT_GENERIC ? buffer_note() : NULL;
	struct sk_buff *skb;

	if (has_fragments && (in->flags & BORA_PORT_VETH) && sees_veth_buffer()) {
		skb = veth_buffer(ctx);
		return skb && buffer_segment(skb);
	}
	return note && note->segments;
}

/* Whether Bora has injected this packet into Linux, so that generic XDP sees it again. */
static __always_inline bool was_injected(const struct bora_port *in)
{
	struct buffer_note *note = in->flags & BORA_PORT_GENERIC ? buffer_note() : NULL;

	return note && note->injected;
}

/*
 * Whether the sender left a checksum to others that only Linux can complete. The engine completes
 * those of TCP and UDP right behind the IP header, but none in a tunnel and none of SCTP; the program
 * itself completes none.
 */
static __always_inline bool lacks_checksum(struct xdp_md *ctx, const struct packet *p, bool v6,
					   const struct bora_port *in, bool for_engine)
{
	__u8 protocol = v6 ? p->ip6->nexthdr : p->ip4->protocol;
	__u16 l4 = ETH_HLEN + p->frame_tags + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)), start = 0;
	struct buffer_note *note;
	struct sk_buff *skb;

	if (in->flags & BORA_PORT_GENERIC) {
		note = buffer_note();
		start = note ? note->checksum_start : 0;
	} else if ((in->flags & BORA_PORT_VETH) && sees_veth_buffer()) {
		skb = veth_buffer(ctx);
		start = skb ? buffer_checksum_start(skb) : 0;
	} else if (in->flags & BORA_PORT_PARTIAL_CHECKSUM) {
		return !for_engine && checksum_is_partial(p, v6);
	}
	if (!start)
		return false;
	return !for_engine || start != l4 ||
	       (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP);
}

#endif
