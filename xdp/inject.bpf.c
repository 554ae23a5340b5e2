// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Hands frames to Linux as if an interface had just received them: run by
 * BPF_PROG_RUN with live frames, once a frame, each run putting the next of
 * the prepared frames in place of the one it was called with.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#define INJECT_BATCH 64
#define INJECT_FRAME 3456 /* a page less headroom, skb_shared_info and the run's own header */

struct inject_frame {
	__u32 length; /* octets, 14 to INJECT_FRAME */
	__u8 octets[INJECT_FRAME];
};

/* Written by Bora before each run (mmap). */
struct inject_frame frames[INJECT_BATCH];
__u32 next_frame;
/* The interface runs Bora's program as generic XDP, which will see the frames. */
volatile bool generic;

/* The map of bora.bpf.c. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} injected SEC(".maps");

SEC("xdp")
int inject(struct xdp_md *ctx)
{
	__u32 slot = next_frame++, length, have = ctx->data_end - ctx->data, key = 0, *waiting;

	if (slot >= INJECT_BATCH)
		return XDP_DROP;
	length = frames[slot].length;
	if (length < 14 || length > INJECT_FRAME)
		return XDP_DROP;
	if (bpf_xdp_adjust_tail(ctx, (int)(length - have)))
		return XDP_DROP;
	if (bpf_xdp_store_bytes(ctx, 0, frames[slot].octets, length))
		return XDP_DROP;
	if (generic) {
		waiting = bpf_map_lookup_elem(&injected, &key);
		if (waiting)
			*waiting += 1;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
