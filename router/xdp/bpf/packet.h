/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Reads one packet: bounds, checksums, addresses that are never transit. */
#ifndef BORA_PACKET_H
#define BORA_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

/* Functions return this or a reason to pass the packet (BORA_BLACKHOLE: to drop it). */
#define REASON_NONE BORA_REASONS

#define IP_FRAGMENT_BITS 0x3fff /* MF and offset */
#define IP_DF 0x4000
#define IP_FRAGMENT_OFFSET 0x1fff

/* A NAPI poll of this CPU (poll.h). */
struct poll {
	__u64 queue; /* struct xdp_dev_bulk_queue of this CPU at an output of the poll; 0: none yet */
	__u32 found; /* bits POLL_KNOWN, POLL_HOLDS, POLL_PLAIN, POLL_HOP and those of flows */
	__u32 hop; /* what the FIB says of the destination, if POLL_HOP is set */
	__u64 addresses[4]; /* source and destination of the packet before; IPv4: the first word has both */
	__u8 macs[2 * ETH_ALEN]; /* what a packet by the adjacency `way_hop` gets; destination, source */
	__u16 mtu; /* octets of an IP packet that may leave by it */
	__u16 port; /* number of the port or device that it leaves by */
	__u32 way_hop; /* 0: none */
	__u64 number; /* counts the polls of this CPU */
	__u32 last_flow; /* place of the flow that was learned last: flow_known.h */
};

/*
 * A packet, as both tiers see it. v6 is a constant in every call of the functions below, so they
 * are compiled once for each IP version.
 */
struct packet {
	struct ethhdr *eth;
	void *l3;
	struct iphdr *ip4; /* set by check_ipv4() */
	struct ipv6hdr *ip6; /* set by check_ipv6() */
	void *end; /* the end of its first buffer */
	__u32 beyond; /* octets in further buffers */
	__u32 ifindex; /* interface index of the port, VLAN device or bond that it came in by */
	__u32 port; /* number of the port that it came in by */
	__u16 l3_length; /* octets the IP header claims */
	__u8 tos; /* TOS of an IPv4 packet for express */
	__u16 frame_tags; /* octets of VLAN tags in the frame, and of the headers of a PPPoE session */
	__u16 session_length; /* octets that the header of a PPPoE session claims for the IP packet */
	__be16 session; /* number of the PPPoE session; 0: none */
	__be32 hidden_tag; /* VLAN tag beside the frame, as device_of_packet() has found it; 0: none */
	struct poll *poll; /* the NAPI poll that it came in by */
	bool hides_tag; /* a VLAN tag is beside the frame, and no VLAN device has been looked for */
};

/* Whether the program takes frames in several buffers (BPF_F_XDP_HAS_FRAGS): the parts behind the first are not looked at. */
const volatile bool has_fragments;

/* Octets of a frame, in all its buffers. */
static __always_inline __u32 frame_octets(struct xdp_md *ctx)
{
	return has_fragments ? bpf_xdp_get_buff_len(ctx) : ctx->data_end - ctx->data;
}

/* Octets between two addresses of a packet, as a number: the verifier lets nothing be added to an end. */
static __always_inline __u64 octets_between(const void *from, const void *to)
{
	__u64 octets = to - from;

	barrier_var(octets);
	return octets;
}

/* Octets of a frame in further buffers than its first. */
static __always_inline __u32 octets_beyond(struct xdp_md *ctx)
{
	__u64 first = octets_between((void *)(long)ctx->data, (void *)(long)ctx->data_end);

	return has_fragments ? bpf_xdp_get_buff_len(ctx) - first : 0;
}

/* Octets of a packet from an address of its first buffer on. */
static __always_inline __u64 octets_from(const struct packet *p, const void *from)
{
	return octets_between(from, p->end) + p->beyond;
}

/* struct ethhdr is packed: by its fields the compiler would read octet by octet. */
static __always_inline __be16 ethernet_type(const struct ethhdr *eth)
{
	return *(const __be16 *)((const void *)eth + 2 * ETH_ALEN);
}

/* Whether a frame is for an Ethernet address, which two more octets follow. */
static __always_inline bool is_for(const struct ethhdr *eth, const __u8 *mac)
{
	return ((*(const __u64 *)eth ^ *(const __u64 *)mac) &
		bpf_cpu_to_be64(0xffffffffffff0000ull)) == 0;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* RFC 1071 over the twenty octets of a header without options. Beyond 0xffff after two folds is wrong anyway. */
static __always_inline bool header_checksum_good(const struct iphdr *ip)
{
	const __u32 *word = (const __u32 *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/* RFC 1624 equation 3 for TTL - 1. */
static __always_inline void decrement_ttl(struct iphdr *ip)
{
	__u32 sum = ip->check + (__u32)bpf_htons(0x0100);

	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
}

/* Addresses that Linux treats specially; their packets all go to Linux. */
static __always_inline bool special4(__be32 address)
{
	__u32 host = bpf_ntohl(address);

	return host == 0 || host >> 28 == 0xe || host >> 24 == 127 || host == 0xffffffff;
}

static __always_inline bool special6(const struct in6_addr *address)
{
	__u32 first = bpf_ntohl(address->in6_u.u6_addr32[0]);

	/* multicast, link-local; ::/64 holds ::, ::1, v4-mapped and v4-compatible */
	return first >> 24 == 0xff || first >> 22 == 0x3fa ||
	       (first | address->in6_u.u6_addr32[1]) == 0;
}

/*
 * True if the L4 checksum field holds only the sum of the pseudo-header, as a sender with checksum
 * offload leaves it. One packet in 65536 with a complete checksum looks the same. Both go to the
 * kernel, which handles both correctly.
 */
static __always_inline bool checksum_is_partial(const struct packet *p, bool v6)
{
	__u8 protocol;
	__u16 l4_length;
	void *l4;
	__u64 sum = 0;
	__u16 check;

	if (!v6) {
		if (p->ip4->frag_off & bpf_htons(IP_FRAGMENT_BITS))
			return false;
		protocol = p->ip4->protocol;
		l4 = p->ip4 + 1;
		l4_length = p->l3_length - sizeof(*p->ip4);
		sum = (__u64)p->ip4->saddr + p->ip4->daddr;
	} else {
		const __u32 *word = (const __u32 *)&p->ip6->saddr;

		protocol = p->ip6->nexthdr;
		l4 = p->ip6 + 1;
		l4_length = p->l3_length - sizeof(*p->ip6);
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum += word[i];
	}
	if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = l4;

		if ((void *)(tcp + 1) > p->end)
			return false;
		check = tcp->check;
	} else if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = l4;

		if ((void *)(udp + 1) > p->end)
			return false;
		check = udp->check;
	} else {
		return false;
	}
	return check == fold(sum + bpf_htons(l4_length) + bpf_htons(protocol));
}

/*
 * Reads the ports for the flow hash as Linux's skb_flow_get_ports() does: the SPI of ESP and AH
 * counts too. Fragments have no ports.
 */
static __always_inline void flow_ports(const struct packet *p, bool v6, __u8 protocol,
				       __be16 *source, __be16 *destination)
{
	__u32 at = !v6 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	__be16 *ports = !v6 ? (void *)(p->ip4 + 1) : (void *)(p->ip6 + 1);

	*source = *destination = 0;
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_ESP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		break;
	case IPPROTO_AH:
		at += 4;
		ports += 2;
		break;
	default:
		return;
	}
	if (!v6 && (p->ip4->frag_off & bpf_htons(IP_FRAGMENT_BITS)))
		return;
	if ((void *)(ports + 2) > p->end || at + 4 > p->l3_length)
		return;
	*source = ports[0];
	*destination = ports[1];
}

#endif
