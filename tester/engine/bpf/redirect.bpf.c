// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * For the tester: gives each packet of an interface to the AF_XDP socket of its receive queue, or
 * to Linux if there is none.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "contract.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, BORA_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int to_sockets(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "GPL";
