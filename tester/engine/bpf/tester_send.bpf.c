// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Sends frames for some of the tester's ports. User space writes the first octets and the due time
 * of each frame into a ring. BPF_PROG_RUN with live frames runs `send` over and over: while the
 * next frame is not due, it returns the page to the kernel; otherwise the frame goes to its
 * interface. `xmit` counts what the interface refused.
 */
#include "tester.h"
#include <bpf/bpf_tracing.h>

/* tester/engine/src/xdp/sender.rs has the same values */
#define SLOTS 8192
#define WORDS 11
#define PORTS 16
/* Frames of one batch of BPF_PROG_RUN, at most. */
#define BATCH 256
/* Octets of the shortest frame, without FCS. */
#define SHORTEST 60

enum fate { WAITING, LEFT, REFUSED };

struct slot {
	__u64 words[WORDS]; /* the frame's first octets */
	__u64 due; /* ns of bpf_ktime_get_ns(); 0: at once, and stamped then */
	__u64 sent; /* when it was */
	__u32 gap; /* least time to the port's next frame, ns */
	__u16 stream; /* for user space */
	__u16 length; /* octets of the frame, without FCS */
	__u16 signature; /* where it starts */
	__u8 port;
	__u8 fate;
};

struct port {
	__u32 interface; /* its index, and the inode of its network namespace */
	__u32 netns;
	__s32 error; /* last one of the interface */
	/* Slots of this port's frames in the interface's bulk queue. */
	__u32 first;
	__u32 next;
	__u16 slots[BATCH];
	__u64 free; /* no frame leaves before, ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

struct slot slots[SLOTS];
struct port ports[PORTS];
/* Slot numbers, modulo 2^32: those before `written` are filled, those before `next` have been sent. */
volatile __u32 written;
volatile __u32 next;
volatile __u32 length; /* octets of the frames that the kernel hands to the program */
volatile __u32 cpu;

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

/* Writes the time stamp, and corrects the balance. */
static __always_inline void stamp(struct signature *signature, __u64 time)
{
	__u64 now = time & MASK_48;
	__u16 check = check_of(bpf_ntohs(signature->stream), read_48(signature->sequence), now);
	/* RFC 1624: subtract the old words, add the new ones */
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
	struct port *port = &ports[slot->port & (PORTS - 1)];
	__u64 now = bpf_ktime_get_ns(), *words = data;

	/* the program is also attached to an interface, whose own packets it passes */
	if (end - data != length)
		return XDP_PASS;
	if (number == written || now < slot->due || now < port->free)
		return XDP_DROP;
	/* the kernel reuses frames, and the router has changed them */
	if (data + WORDS * 8 <= end) {
		for (int i = 0; i < WORDS; i++)
			words[i] = slot->words[i];
	} else if (data + SHORTEST <= end) {
		for (int i = 0; i < SHORTEST / 8; i++)
			words[i] = slot->words[i];
		*(__u32 *)(data + SHORTEST - 4) = (__u32)slot->words[SHORTEST / 8];
	}
	at = slot->signature & 127;
	if (!slot->due && data + at + sizeof(struct signature) <= end)
		stamp(data + at, now);
	slot->sent = now;
	port->free = now + slot->gap;
	next = number + 1;
	if (slot->length != length &&
	    bpf_xdp_adjust_tail(ctx, (int)slot->length - (int)length))
		return XDP_DROP;
	cpu = bpf_get_smp_processor_id();
	port->slots[port->next & (BATCH - 1)] = number & (SLOTS - 1);
	port->next++;
	return bpf_redirect_map(&out, slot->port, XDP_DROP);
}

static __always_inline struct port *port_of(const struct net_device *device)
{
	__u32 interface = device->ifindex, netns = device->nd_net.net->ns.inum;

	for (int i = 0; i < PORTS; i++) {
		if (ports[i].interface == interface && ports[i].netns == netns)
			return &ports[i];
	}
	return NULL;
}

/*
 * A bulk of frames went to an interface, which refused the last `drops` of them. While frames wait
 * in this CPU's bulk queues, nothing else on this CPU sends to the tester's interfaces.
 */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(xmit, const struct net_device *from, const struct net_device *to, int sent, int drops,
	     int err)
{
	struct port *port = port_of(to);

	if (!port || cpu != bpf_get_smp_processor_id())
		return 0;
	if (err)
		port->error = err;
	for (int i = 0; i < 16; i++) {
		if (i >= sent + drops || port->first == port->next)
			break;
		slots[port->slots[port->first & (BATCH - 1)] & (SLOTS - 1)].fate =
			i < sent ? LEFT : REFUSED;
		port->first++;
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
