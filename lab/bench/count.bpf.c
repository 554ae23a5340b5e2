// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * For benchmarks: a receiver that counts packets and drops them, and a sender by BPF_PROG_RUN that
 * does nothing else.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct count {
	__u64 packets;
	__u64 octets;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 slot = 0;
	struct count *count = bpf_map_lookup_elem(&counts, &slot);

	if (count) {
		count->packets++;
		count->octets += ctx->data_end - ctx->data;
	}
	return XDP_DROP;
}

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

SEC("xdp")
int send(struct xdp_md *ctx)
{
	return bpf_redirect_map(&out, 0, XDP_DROP);
}

char _license[] SEC("license") = "GPL";
