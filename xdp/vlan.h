/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * VLAN devices on the ports. What comes in with their tags is theirs, and what leaves by them gets their
 * tags. A tag may be in the frame or, from a veth, beside it in the socket buffer (buffer.h).
 */
#ifndef BORA_VLAN_H
#define BORA_VLAN_H

#define TAG 4
#define ADDRESSES (2 * ETH_ALEN)
#define TAG_IDENTITY bpf_htonl(0xffff0fff) /* without priority and drop eligibility */

/* Frames that the program itself forwards by a VLAN device; octets without FCS. */
struct vlan_counters {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 tx_packets;
	__u64 tx_bytes;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORA_MAX_INTERFACES - BORA_MAX_PORTS);
	__type(key, __u32); /* number of the device - BORA_MAX_PORTS */
	__type(value, struct vlan_counters);
} vlan_counts SEC(".maps");

/* How many VLAN devices there are; written by Bora (mmap). */
volatile __u32 vlan_count;

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

static __always_inline bool is_vlan(const struct bora_port *port)
{
	return port->tags[0];
}

/* Octets of its tags. */
static __always_inline __u32 tag_octets(const struct bora_port *port)
{
	if (!port->tags[0])
		return 0;
	return port->tags[TAG] ? 2 * TAG : TAG;
}

static __always_inline struct vlan_counters *vlan_counters_of(const struct bora_port *port)
{
	__u32 key = port->index - BORA_MAX_PORTS;

	return is_vlan(port) ? bpf_map_lookup_elem(&vlan_counts, &key) : NULL;
}

/*
 * The VLAN device of a tagged packet, if there is one. Notes the tags, where they are, and the EtherType
 * behind them.
 */
static __always_inline struct port_row *vlan_device(struct xdp_md *ctx, struct packet *p,
						    const struct bora_port *trunk, __be16 *type)
{
	struct interface_key key = { .ifindex = ctx->ingress_ifindex };
	void *at = (void *)p->eth + ADDRESSES;
	__be32 outer = hidden_tag(ctx, trunk);

	p->hidden_tag = outer;
	if (at + 2 * TAG + sizeof(*type) > p->end)
		return NULL; /* no IP packet is so short */
	if (!outer) {
		outer = *(__be32 *)at;
		at += TAG;
		p->frame_tags = TAG;
	}
	key.outer = outer & TAG_IDENTITY;
	*type = *(__be16 *)at;
	if (is_tag(*type)) {
		key.inner = *(__be32 *)at & TAG_IDENTITY;
		at += TAG;
		p->frame_tags += TAG;
		*type = *(__be16 *)at;
	}
	p->l3 = at + sizeof(*type);
	return row_of(&key);
}

/*
 * Whether there is a hook at the VLAN device below one with two tags, which sees the packets, too, or Bora
 * does not know that device.
 */
static __always_inline bool below_holds(const struct bora_port *port, bool egress)
{
	struct interface_key key = {
		.ifindex = devices[port->trunk & (BORA_MAX_PORTS - 1)].ifindex,
	};
	struct bora_device *below;
	struct port_row *row;

	if (!port->tags[TAG])
		return false;
	__builtin_memcpy(&key.outer, port->tags, sizeof(key.outer));
	row = row_of(&key);
	if (!row)
		return true;
	below = &devices[row->port.index & (BORA_MAX_INTERFACES - 1)];
	return egress ? egress_holds(below) : ingress_holds(below);
}

/* Puts a tag that is beside the frame into it. */
static __always_inline bool show_tag(struct xdp_md *ctx, __be32 tag)
{
	__u8 *data, addresses[ADDRESSES];

	if (bpf_xdp_adjust_head(ctx, -TAG))
		return false;
	data = (void *)(long)ctx->data;
	if ((void *)(data + ADDRESSES + TAG) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memcpy(addresses, data + TAG, ADDRESSES);
	__builtin_memcpy(data, addresses, ADDRESSES);
	__builtin_memcpy(data + ADDRESSES, &tag, TAG);
	return true;
}

/* Gives the frame the tags of its output instead of its own, and other addresses. */
static __always_inline bool change_tags(struct xdp_md *ctx, const struct packet *p, bool v6,
					const __u8 *addresses, const struct bora_port *out)
{
	__be16 type = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	__u32 octets = tag_octets(out);
	__u8 *data;

	if (bpf_xdp_adjust_head(ctx, (int)p->frame_tags - (int)octets))
		return false;
	data = (void *)(long)ctx->data;
	if ((void *)(data + ADDRESSES + 2 * TAG + sizeof(type)) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memcpy(data, addresses, ADDRESSES);
	data += ADDRESSES;
	if (octets) {
		__builtin_memcpy(data, out->tags, TAG);
		data += TAG;
	}
	if (octets > TAG) {
		__builtin_memcpy(data, out->tags + TAG, TAG);
		data += TAG;
	}
	__builtin_memcpy(data, &type, sizeof(type));
	return true;
}

#endif
