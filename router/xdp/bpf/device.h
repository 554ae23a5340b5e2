/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * VLAN devices, bonds, macvlans, bridges and PPPoE sessions on the ports. A packet with a VLAN device's tags belongs to that
 * device, and a packet that leaves by it gets its tags; a tag may be in the frame or, from a veth, beside it
 * in the socket buffer (buffer.h). A packet that comes in by a port of a bond belongs to the bond, whose hash
 * says by which port a packet leaves. A packet for a macvlan's address belongs to the macvlan; nothing leaves
 * by one here. A packet that comes in by a bridge, for the bridge's own address and from a station that Linux
 * knows at that port, belongs to the bridge or to a VLAN device on it, and leaves by the port where Linux
 * knows the next hop.
 */
#ifndef BORA_DEVICE_H
#define BORA_DEVICE_H

#define TAG 4
#define ADDRESSES (2 * ETH_ALEN)
#define TAG_IDENTITY bpf_htonl(0xffff0fff) /* without priority and drop eligibility */

/* The headers of a PPPoE session before an IP packet (RFC 2516, RFC 1661), in 16-bit words from the EtherType on. */
enum { SESSION_TYPE, SESSION_CODE, SESSION_NUMBER, SESSION_LENGTH, SESSION_PROTOCOL };
#define SESSION 8 /* octets, without the protocol, which stands in place of an EtherType */
#define SESSION_DATA bpf_htons(0x1100) /* version 1, type 1, code 0 */
#define PPP_PROTOCOL 2 /* octets of PPP's protocol, which the length counts */
#define PPP_IPV4 bpf_htons(0x0021)
#define PPP_IPV6 bpf_htons(0x0057)

/* Frames that the program itself forwards by a VLAN device or bond; octets without FCS. */
struct device_counters {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 tx_packets;
	__u64 tx_bytes;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORA_MAX_INTERFACES - BORA_MAX_PORTS);
	__type(key, __u32); /* number of the device - BORA_MAX_PORTS */
	__type(value, struct device_counters);
} device_counts SEC(".maps");

/* How many devices there are, and how many of them are macvlans; written by Bora (mmap). */
volatile __u32 device_count;
volatile __u32 macvlan_count;

/* Where the row of a macvlan is. */
struct macvlan_key {
	struct interface_key on; /* the port that it comes in by, and the tags */
	__u8 mac[ETH_ALEN];
	__u16 zero;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BORA_MAX_INTERFACES * BORA_MAX_BOND_PORTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct macvlan_key);
	__type(value, __u32);
} macvlans SEC(".maps");

/* Where a station of a bridge is, for the bridge itself or a VLAN device on it. */
struct bridge_station_key {
	__u32 device; /* its number */
	__u8 mac[ETH_ALEN];
	__u16 zero;
};
struct bridge_station {
	__u64 due; /* when Linux has to see it again */
	__u8 tags[2 * TAG]; /* VLAN tags of its frames */
	__u32 port; /* number of the port that it is behind */
	__u32 zero;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bridge_station_key);
	__type(value, struct bridge_station);
} bridge_stations SEC(".maps");

/* BOND_XMIT_POLICY_* of include/uapi/linux/if_bonding.h */
enum { XMIT_LAYER2, XMIT_LAYER34, XMIT_LAYER23 };

/* How a packet leaves by a bond. */
struct bond_ports {
	__u16 ports[BORA_MAX_BOND_PORTS]; /* numbers of the ports that can send, repeated to fill the array: a reader may see an old count */
	__u16 count;
	__u16 policy;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BORA_MAX_INTERFACES - BORA_MAX_PORTS);
	__type(key, __u32); /* number of the bond - BORA_MAX_PORTS */
	__type(value, struct bond_ports);
} bonds SEC(".maps");

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* Octets of these tags. */
static __always_inline __u32 tag_octets(const __u8 *tags)
{
	if (!tags[0])
		return 0;
	return tags[TAG] ? 2 * TAG : TAG;
}

/* What Bora knows of a station with an Ethernet address, for a bridge or a VLAN device on one. */
static __always_inline struct bridge_station *bridge_station(const struct bora_port *device, const __u8 *mac)
{
	struct bridge_station_key key = { .device = device->index };

	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	return bpf_map_lookup_elem(&bridge_stations, &key);
}

/* Whether Linux has to see a packet that came in by a bridge: to learn where its sender is, or that it is still there. */
static __always_inline bool bridge_must_see(const struct packet *p, const struct bora_port *in)
{
	struct bridge_station *sender = bridge_station(in, p->eth->h_source);
	__u64 now;

	if (!sender || sender->port != p->port)
		return true;
	if (asked)
		return false; /* a question is no packet, and Linux sees the next one */
	now = bpf_ktime_get_coarse_ns();
	if (now < sender->due)
		return false;
	sender->due = now + in->ageing_ms * 1000000ull;
	return true;
}

/* Whether it is a bond or on one, or a macvlan that is on no port. */
static __always_inline bool is_on_bond(const struct bora_port *port)
{
	return port->index >= BORA_MAX_PORTS && port->trunk >= BORA_MAX_PORTS;
}

static __always_inline struct device_counters *device_counters_of(const struct bora_port *port)
{
	__u32 key = port->index - BORA_MAX_PORTS;

	return port->index >= BORA_MAX_PORTS ? bpf_map_lookup_elem(&device_counts, &key) : NULL;
}

/* The macvlan that a packet is for; otherwise what it came in by. */
static __always_inline struct port_row *station_or(const struct packet *p,
						   const struct interface_key *on,
						   struct port_row *row)
{
	struct macvlan_key key = { .on = *on };
	__u32 *slot;

	if (!macvlan_count || (row && is_for(p->eth, row->port.mac)))
		return row;
	__builtin_memcpy(key.mac, p->eth, ETH_ALEN);
	slot = bpf_map_lookup_elem(&macvlans, &key);
	return slot ? port_row(*slot) : row;
}

/*
 * Reads the headers of a PPPoE session as pppoe_rcv() in drivers/net/ppp/pppoe.c does; false if only Linux can. `type` becomes the EtherType of
 * what is inside, or 0.
 */
static __always_inline bool enter_session(struct packet *p, const __be16 *headers, struct interface_key *key, __be16 *type)
{
	__u32 length = bpf_ntohs(headers[SESSION_LENGTH]);

	*type = 0;
	if (headers[SESSION_CODE] != SESSION_DATA || length <= PPP_PROTOCOL ||
	    length > octets_from(p, &headers[SESSION_PROTOCOL]))
		return false;
	key->session = p->session = headers[SESSION_NUMBER];
	p->frame_tags += SESSION;
	p->session_length = length - PPP_PROTOCOL;
	if (headers[SESSION_PROTOCOL] == PPP_IPV4)
		*type = bpf_htons(ETH_P_IP);
	else if (headers[SESSION_PROTOCOL] == PPP_IPV6)
		*type = bpf_htons(ETH_P_IPV6);
	return *type && key->session;
}

/* The row of a PPPoE session, which takes frames of its other end only. */
static __always_inline struct port_row *session_row(const struct packet *p, const struct interface_key *key)
{
	struct port_row *row = row_of(key);
	__u8 different = 0;

	if (!row)
		return NULL;
#pragma unroll
	for (int i = 0; i < ETH_ALEN; i++)
		different |= p->eth->h_source[i] ^ row->port.peer[i];
	return different ? NULL : row;
}

/* The number, of which the verifier forgets what it knows, so that it looks at what follows once instead of for each number. */
__noinline __u32 forgotten(__u32 number)
{
	barrier_var(number); /* else clang takes the argument for the result */
	return number;
}

/*
 * The VLAN device of a tagged packet, if there is one, or the bond of another, or the macvlan that it is for, or the PPPoE session.
 * Notes the tags, where they are, and the EtherType behind them.
 */
static __always_inline struct port_row *device_of_packet(struct xdp_md *ctx, struct packet *p,
							 const struct bora_port *port,
							 __be16 *type)
{
	struct interface_key key = { .ifindex = ctx->ingress_ifindex };
	void *at = (void *)p->eth + ADDRESSES;
	__be32 outer = hidden_tag(ctx, port);

	p->hidden_tag = outer;
	if (at + 2 * TAG + SESSION + sizeof(*type) > p->end)
		return NULL; /* no IP packet is so short */
	*type = *(__be16 *)at;
	if (!outer && !is_tag(*type) && *type != bpf_htons(ETH_P_PPP_SES)) {
		p->l3 = at + sizeof(*type);
		return station_or(p, &key,
				  port->trunk >= BORA_MAX_PORTS ? port_row(port->trunk) : NULL);
	}
	if (!outer && is_tag(*type)) {
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
	if (*type == bpf_htons(ETH_P_PPP_SES)) {
		if (!enter_session(p, at, &key, type))
			return NULL;
		p->l3 = at + SESSION + sizeof(*type);
		return session_row(p, &key);
	}
	p->l3 = at + sizeof(*type);
	return station_or(p, &key, row_of(&key));
}

/*
 * Whether there is a hook at a device below, which sees the packets, too: the bond, what a macvlan is on, or
 * the VLAN device below one with two tags or below a PPPoE session. True as well if Bora does not know that device.
 */
static __always_inline bool below_holds(const struct bora_port *port, bool egress)
{
	struct interface_key key = {
		.ifindex = devices[port->trunk & (BORA_MAX_INTERFACES - 1)].ifindex,
	};
	struct bora_device *below = &devices[port->trunk & (BORA_MAX_INTERFACES - 1)];
	struct port_row *row;

	if (is_on_bond(port) && (egress ? egress_holds(below) : ingress_holds(below)))
		return true;

	if (!(port->session ? port->tags[0] : port->tags[TAG]))
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

/* The priority of an output's tag that is this far behind the frame's addresses, for this packet: what its TCI has of it. */
static __always_inline __be16 priority_of_tag(const struct packet *p, bool v6, const struct bora_port *out, __u32 tag)
{
	__u32 class = v6 ? 4 : (p->tos >> 3) & 3;

	return bpf_htons(((out->priorities >> (3 * (tag / TAG * 5 + class))) & 7) << 13);
}

/* Octets in front of the IP packet at an output where frames have these tags, without addresses and EtherType. */
static __always_inline __u32 octets_at(const struct bora_port *out, const __u8 *tags)
{
	return tag_octets(tags) + (out->session ? SESSION : 0);
}

/* Gives the frame these tags of its output instead of its own, the headers of a PPPoE session, and other addresses. `length`: of the packet in it. */
static __always_inline bool change_tags(struct xdp_md *ctx, const struct packet *p, bool v6,
					const __u8 *addresses, const struct bora_port *out, const __u8 *tags, __u32 length)
{
	__be16 type = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	__u32 octets = tag_octets(tags);
	__u8 *data;

	if (bpf_xdp_adjust_head(ctx, (int)p->frame_tags - (int)octets_at(out, tags)))
		return false;
	data = (void *)(long)ctx->data;
	if ((void *)(data + ADDRESSES + 2 * TAG + SESSION + sizeof(type)) > (void *)(long)ctx->data_end)
		return false;
	if (!out->session) {
		__builtin_memcpy(data, addresses, ADDRESSES);
	} else {
		__builtin_memcpy(data, out->peer, ETH_ALEN);
		__builtin_memcpy(data + ETH_ALEN, out->mac, ETH_ALEN);
	}
	data += ADDRESSES;
	if (octets) {
		__builtin_memcpy(data, tags, TAG);
		*(__be16 *)(data + 2) |= priority_of_tag(p, v6, out, 0);
		data += TAG;
	}
	if (octets > TAG) {
		__builtin_memcpy(data, tags + TAG, TAG);
		*(__be16 *)(data + 2) |= priority_of_tag(p, v6, out, TAG);
		data += TAG;
	}
	if (out->session) {
		__be16 *headers = (void *)data;

		headers[SESSION_TYPE] = bpf_htons(ETH_P_PPP_SES);
		headers[SESSION_CODE] = SESSION_DATA;
		headers[SESSION_NUMBER] = bpf_htons(out->session);
		headers[SESSION_LENGTH] = bpf_htons(length + PPP_PROTOCOL);
		data += SESSION;
		type = v6 ? PPP_IPV6 : PPP_IPV4;
	}
	__builtin_memcpy(data, &type, sizeof(type));
	return true;
}

/* Addresses of both ends as Linux's bonding driver folds them: an XOR of words. */
static __always_inline __u32 folded_addresses(const struct packet *p, bool v6)
{
	const __u32 *word;
	__u32 sum = 0;

	if (!v6)
		return p->ip4->saddr ^ p->ip4->daddr;
	word = (const __u32 *)&p->ip6->saddr;
#pragma unroll
	for (int i = 0; i < 8; i++)
		sum ^= word[i];
	return sum;
}

/* What tells ICMP messages with an identifier apart: type, code and it (skb_flow_get_icmp_tci()). */
static __always_inline __u32 icmp_identity(const struct packet *p, bool v6)
{
	__u8 *icmp = !v6 ? (void *)(p->ip4 + 1) : (void *)(p->ip6 + 1);
	__u16 id;

	if ((void *)(icmp + 8) > p->end)
		return 0;
	if (v6 ? icmp[0] != 128 && icmp[0] != 129 :
		 icmp[0] != 0 && icmp[0] != 8 && icmp[0] != 13 && icmp[0] != 14)
		return 0;
	id = bpf_ntohs(*(__be16 *)(icmp + 4));
	return icmp[0] | icmp[1] << 8 | (__u32)(id ? id : 1) << 16;
}

/*
 * The transmit hash of Linux's bonding driver (__bond_xmit_hash() of drivers/net/bonding/bond_main.c), so that a
 * flow takes the same port whether Linux or Bora forwards it. Of ICMP errors Linux hashes the packet inside.
 */
static __always_inline __u32 xmit_hash(const struct packet *p, bool v6, const __u8 *macs,
				       __u16 policy)
{
	__u32 hash = macs[5] ^ macs[11] ^ (v6 ? ETH_P_IPV6 : ETH_P_IP);
	__u8 protocol = v6 ? p->ip6->nexthdr : p->ip4->protocol;

	if (policy == XMIT_LAYER2)
		return hash;
	if (policy == XMIT_LAYER34) {
		__be16 source, destination;

		flow_ports(p, v6, protocol, &source, &destination);
		hash = source | (__u32)destination << 16;
		if (protocol == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP) &&
		    (v6 || !(p->ip4->frag_off & bpf_htons(IP_FRAGMENT_OFFSET))))
			hash = icmp_identity(p, v6);
	}
	hash ^= folded_addresses(p, v6);
	hash ^= hash >> 16;
	hash ^= hash >> 8;
	return policy == XMIT_LAYER34 ? hash >> 1 : hash;
}

/* The port that a packet leaves a bond by, or BORA_MAX_PORTS. */
static __always_inline __u32 port_of_bond(const struct packet *p, bool v6, const __u8 *macs,
					  __u32 bond)
{
	__u32 key = bond - BORA_MAX_PORTS, count, hash = 0;
	struct bond_ports *to = bpf_map_lookup_elem(&bonds, &key);

	if (!to)
		return BORA_MAX_PORTS;
	count = to->count;
	if (!count)
		return BORA_MAX_PORTS;
	if (count > 1)
		hash = xmit_hash(p, v6, macs, to->policy) % count;
	return to->ports[hash & (BORA_MAX_BOND_PORTS - 1)];
}

#endif
