// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Gives an interface of the tester to its AF_XDP sockets: each packet to the
 * socket of the queue it came on, or to Linux where there is none.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_QUEUES 128

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int to_sockets(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "GPL";
