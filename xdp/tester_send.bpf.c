// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Sends the frames of one port of the tester. User space writes the first octets of each frame;
 * BPF_PROG_RUN with live frames runs `send` for each, which redirects it to the interface, and
 * `xmit` is told what the interface refused.
 */
#include "tester.h"
#include <bpf/bpf_tracing.h>

/* As in crates/tester/src/live/sender.rs. */
#define SLOTS 8192
#define WORDS 11
/* Octets of the shortest frame, without FCS. */
#define SHORTEST 60

struct slot {
	__u64 words[WORDS]; /* the frame's first octets */
	__u16 length; /* octets of the frame, without FCS */
	__u16 signature; /* where it starts */
	__u32 refused; /* by the interface */
};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

/* Set before each run. */
struct slot slots[SLOTS];
volatile __u32 count; /* slots to send */
volatile __u32 length; /* octets of the frames that the kernel hands to the program */
volatile __u32 stamping; /* whether frames are stamped as they leave */
/* Slots that were sent, and of those the ones that left the bulk queue. */
volatile __u32 next;
volatile __u32 flushed;
volatile __u32 cpu;
volatile __s32 error; /* last one of the interface */

/* Writes the stamp and what depends on it. */
static __always_inline void stamp(struct signature *signature)
{
	__u64 now = bpf_ktime_get_ns() & MASK_48;
	__u16 check = check_of(bpf_ntohs(signature->stream), read_48(signature->sequence), now);
	/* RFC 1624: the old words go, the new ones come */
	__u64 sum = (__u16)~bpf_ntohs(signature->balance) + now + check;

	sum += (__u16)~bpf_ntohs(signature->check);
	for (int i = 0; i < 3; i++)
		sum += (__u16)~bpf_ntohs(signature->stamp[i]);
	signature->balance = bpf_htons(~fold(sum));
	signature->stamp[0] = bpf_htons(now >> 32);
	signature->stamp[1] = bpf_htons(now >> 16);
	signature->stamp[2] = bpf_htons(now);
	signature->check = bpf_htons(check);
}

SEC("xdp")
int send(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 number = next, at;
	struct slot *slot = &slots[number & (SLOTS - 1)];
	__u64 *words = data;

	/* also attached to an interface, whose packets stay what they are: should it ever get any */
	if (number >= count || end - data != length)
		return XDP_PASS;
	/* the kernel reuses frames as the router left them */
	if (data + WORDS * 8 <= end) {
		for (int i = 0; i < WORDS; i++)
			words[i] = slot->words[i];
	} else if (data + SHORTEST <= end) {
		for (int i = 0; i < SHORTEST / 8; i++)
			words[i] = slot->words[i];
		*(__u32 *)(data + SHORTEST - 4) = (__u32)slot->words[SHORTEST / 8];
	}
	at = slot->signature & 127;
	if (stamping && data + at + sizeof(struct signature) <= end)
		stamp(data + at);
	if (slot->length != length &&
	    bpf_xdp_adjust_tail(ctx, (int)slot->length - (int)length))
		return XDP_DROP;
	cpu = bpf_get_smp_processor_id();
	next = number + 1;
	return bpf_redirect_map(&out, 0, XDP_DROP);
}

/*
 * A bulk of frames was handed to an interface, which refused the last ones. While frames wait in
 * this CPU's bulk queue it runs nothing else that sends.
 */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(xmit, const void *from_dev, const void *to_dev, int sent, int drops, int err)
{
	__u32 first = flushed;

	if (first >= next || cpu != bpf_get_smp_processor_id())
		return 0;
	if (err)
		error = err;
	flushed = first + sent + drops;
	for (int i = 0; i < 16; i++) {
		if (i < drops)
			slots[(first + sent + i) & (SLOTS - 1)].refused = 1;
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
