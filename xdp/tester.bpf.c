// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The tester's two ends. `generate` is run by BPF_PROG_RUN with live frames
 * and sends each of them out of an interface, numbered; `sink` sits on the
 * receiving interface, checks the numbers and drops the packets.
 *
 * A test packet is IPv4 or IPv6 without options, UDP, and a signature.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MAGIC 0xb07a
#define FIRST_PORT 1024
#define MAX_FLOWS 32768
#define HEADERS_V4 (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define HEADERS_V6 (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/* Behind the UDP header. The balance keeps the UDP checksum what it was. */
struct signature {
	__u16 magic;
	__u16 balance;
	__u32 sequence_high;
	__u32 sequence_low;
	__u16 stamp_high; /* monotonic ns, 48 bits */
	__u32 stamp_low;
} __attribute__((packed));

/* Latencies by octave of ns, and 16 parts of each. */
#define OCTAVES 40
#define PARTS 16

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

/* Set by the tester. The kernel reuses frames as the router left them, so the
 * headers are written anew each time. */
__u8 headers[64];
volatile __u32 flows = 1;
volatile __u32 watch_times; /* gaps and latencies */
/* Read and cleared by the tester. */
__u64 sequence;
__u64 received;
__u64 received_bytes;
__u64 reordered;
__u64 duplicated;
__u64 last_arrival;
__u64 longest_gap;
__u64 latencies[OCTAVES * PARTS];
__u64 last_of_flow[MAX_FLOWS];

static __always_inline struct udphdr *udp_of(struct xdp_md *ctx, struct signature **signature)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;

	if ((void *)(eth + 1) > end)
		return NULL;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		udp = (void *)(eth + 1) + sizeof(struct iphdr);
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		udp = (void *)(eth + 1) + sizeof(struct ipv6hdr);
	else
		return NULL;
	*signature = (void *)(udp + 1);
	if ((void *)(*signature + 1) > end)
		return NULL;
	return udp;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline int send(struct xdp_md *ctx, const __u32 length)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct signature *signature = data + length;
	struct udphdr *udp = data + length - sizeof(*udp);
	__u64 number = sequence++, now = bpf_ktime_get_ns();
	__u32 sum;

	if ((void *)(signature + 1) > end)
		return XDP_DROP;
	__builtin_memcpy(data, headers, length);
	udp->source = bpf_htons(FIRST_PORT + number % flows);
	signature->magic = bpf_htons(MAGIC);
	signature->sequence_high = number >> 32;
	signature->sequence_low = number;
	signature->stamp_high = now >> 32;
	signature->stamp_low = now;
	sum = udp->source + (signature->sequence_high & 0xffff) + (signature->sequence_high >> 16) +
	      (signature->sequence_low & 0xffff) + (signature->sequence_low >> 16) +
	      signature->stamp_high + (signature->stamp_low & 0xffff) +
	      (signature->stamp_low >> 16);
	signature->balance = ~fold(sum);
	return bpf_redirect_map(&out, 0, XDP_DROP);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	bool v6 = ((struct ethhdr *)headers)->h_proto == bpf_htons(ETH_P_IPV6);

	return v6 ? send(ctx, HEADERS_V6) : send(ctx, HEADERS_V4);
}

static __always_inline void count_latency(const struct signature *signature, __u64 now)
{
	__u64 stamp = (__u64)signature->stamp_high << 32 | signature->stamp_low;
	__u64 latency = (now - stamp) & 0xffffffffffff;
	__u32 octave = 0, slot;

#pragma unroll
	for (int bits = 32; bits; bits /= 2) {
		if (latency >> (octave + bits))
			octave += bits;
	}
	/* the four bits below the highest one */
	slot = octave < 4 ? latency & 15 : latency >> (octave - 4) & 15;
	slot += octave * PARTS;
	if (slot < OCTAVES * PARTS)
		latencies[slot]++;
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	struct signature *signature;
	struct udphdr *udp = udp_of(ctx, &signature);
	__u64 number, now;
	__u32 flow;

	if (!udp || signature->magic != bpf_htons(MAGIC))
		return XDP_PASS;
	received++;
	received_bytes += ctx->data_end - ctx->data;
	number = ((__u64)signature->sequence_high << 32 | signature->sequence_low) + 1;
	flow = bpf_ntohs(udp->source) - FIRST_PORT;
	if (flow < MAX_FLOWS) {
		if (number == last_of_flow[flow])
			duplicated++;
		else if (number < last_of_flow[flow])
			reordered++;
		else
			last_of_flow[flow] = number;
	}
	if (watch_times) {
		now = bpf_ktime_get_ns();
		count_latency(signature, now);
		if (last_arrival && now - last_arrival > longest_gap)
			longest_gap = now - last_arrival;
		last_arrival = now;
	}
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
