// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Hands frames to Linux as if an interface had just received them. BPF_PROG_RUN with live frames
 * runs this program once for each frame, and each run replaces its frame by the next prepared one.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "bora.h"

struct inject_frame {
	__u32 length; /* octets, 14 to BORA_INJECT_FRAME */
	__u8 octets[BORA_INJECT_FRAME];
};

/* Written by Bora before each run (mmap). */
struct inject_frame frames[BORA_INJECT_BATCH];
__u32 next_frame;
/* Whether Bora's program runs as generic XDP on the interface, and must recognise the frames. */
volatile bool generic;
/* The network namespace; set before loading. */
const volatile __u32 netns_inode;

static __always_inline bool mark(struct xdp_md *ctx)
{
	struct bora_injected *mark;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
		return false;
	mark = (void *)(long)ctx->data_meta;
	if ((void *)(mark + 1) > (void *)(long)ctx->data)
		return false;
	mark->netns_inode = netns_inode;
	mark->ifindex = ctx->ingress_ifindex;
	return true;
}

SEC("xdp")
int inject(struct xdp_md *ctx)
{
	__u32 slot = next_frame++, length, have = ctx->data_end - ctx->data;

	if (slot >= BORA_INJECT_BATCH)
		return XDP_DROP;
	length = frames[slot].length;
	if (length < 14 || length > BORA_INJECT_FRAME)
		return XDP_DROP;
	if (bpf_xdp_adjust_tail(ctx, (int)(length - have)))
		return XDP_DROP;
	if (bpf_xdp_store_bytes(ctx, 0, frames[slot].octets, length))
		return XDP_DROP;
	if (generic && !mark(ctx))
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
