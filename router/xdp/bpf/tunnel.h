/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Tunnels whose packets the engine takes apart. For Linux such a packet is for the router itself, so it passes the
 * hook and the IPsec policies for that, too, and then what is inside passes all hooks of a forwarded packet.
 */
#ifndef BORA_TUNNEL_H
#define BORA_TUNNEL_H

struct tunnel_key {
	__be32 far; /* address of the far end; for VXLAN the UDP port, in the first two octets */
	__be32 near; /* address of the near end; for VXLAN 0 */
	__be32 id; /* key of GRE, network identifier of VXLAN, or 0 */
	__u32 protocol;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * BORA_MAX_INTERFACES);
	__type(key, struct tunnel_key);
	__type(value, __u32); /* the number of the tunnel's device */
} tunnels SEC(".maps");

/* How many there are; written by Bora (mmap). */
volatile __u32 tunnel_count;

#define GRE_HAS_KEY 0x20000000 /* a bit of the word of flags, version and protocol */
#define FRAGMENT bpf_htons(0x3fff) /* more fragments, or an offset */

/* Whether Linux must see what comes in by a tunnel. */
static __always_inline bool tunnel_holds(__u32 slot, __u8 protocol, struct net_device *dev)
{
	struct net *net = KERNEL_READ(dev, nd_net.net);

	return ingress_holds(&devices[slot & (BORA_MAX_INTERFACES - 1)]) ||
	       /* what leaves transit alone may not leave the outer packet alone */
	       holds(KERNEL_READ(net, nf.hooks_ipv4[HOOK_PRE_ROUTING])) ||
	       holds(KERNEL_READ(net, nf.hooks_ipv4[HOOK_LOCAL_IN])) ||
	       xfrm_decides(net, XFRM_IN) ||
	       (protocol != IPPROTO_IPIP && netfilter_holds(net, true));
}

/* Whether a packet for the router itself is one of a tunnel that the engine takes apart. */
static __always_inline bool is_tunnelled(const struct packet *p, const struct iphdr *ip,
					 const struct bora_port *in, struct net_device *dev)
{
	struct tunnel_key key = {
		.far = ip->saddr,
		.near = ip->daddr,
		.protocol = ip->protocol,
	};
	__be32 *words = (void *)(ip + 1); /* words of the header behind */
	__u32 *slot;

	if (!tunnel_count || in->path != BORA_PATH_ENGINE || ip->ihl > 5 || ip->frag_off & FRAGMENT)
		return false;
	if (ip->protocol == IPPROTO_UDP) {
		if ((void *)(words + 4) > p->end)
			return false;
		key.far = *(__be16 *)((void *)words + 2);
		key.near = 0;
		key.id = words[3] & bpf_htonl(0xffffff00);
	} else if (ip->protocol == IPPROTO_GRE) {
		if ((void *)(words + 2) > p->end)
			return false;
		key.id = *words & bpf_htonl(GRE_HAS_KEY) ? words[1] : 0;
	}
	slot = bpf_map_lookup_elem(&tunnels, &key);
	return slot && (in->flags & BORA_PORT_BYPASS_NETFILTER ||
			!tunnel_holds(*slot, ip->protocol, dev));
}

#endif
