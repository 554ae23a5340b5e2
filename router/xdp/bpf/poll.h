/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What was found for an earlier packet of the same NAPI poll counts for this one, too: that Bora is alive, whether the
 * guard lets an IP version pass, what is known of the addresses and by which way they leave. Packets that follow each
 * other often share these.
 * Linux's own poll takes as long to notice what another CPU changes.
 *
 * A poll is recognized by the queue where redirected frames wait at an output (bq_enqueue() in kernel/bpf/devmap.c):
 * the first frame writes the device that it came in by, and the end of the poll clears it (__dev_flush()). So as long as
 * the device is there, the poll is the one in which this CPU sent a frame to that output. Generic XDP has no such queue.
 */
#ifndef BORA_POLL_H
#define BORA_POLL_H

#define POLL_KNOWN(v6) (1u << (v6)) /* the guard has been asked about this IP version */
#define POLL_HOLDS(v6) (4u << (v6)) /* and it holds packets */
#define POLL_PLAIN(v6) (16u << (v6)) /* the addresses of the packet before are not the router's own, nor special */
#define POLL_HOP(v6) (64u << (v6)) /* what the FIB says of its destination is known */
#define POLL_FLOWS 256u /* no IPsec policy holds flows */
#define POLL_FLOWTABLE 512u /* nothing at the port's ingress is before its flowtable */
#define POLL_COUNTS 1024u /* which counts packets */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct poll);
} polls SEC(".maps");

static __always_inline struct poll *poll_of_cpu(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&polls, &key);
}

/* The poll that a packet of a device belongs to; nothing is known of a new one. To be called first for each packet. */
static __always_inline struct poll *poll_of(struct net_device *dev)
{
	struct poll *poll = poll_of_cpu();
	struct xdp_dev_bulk_queue *queue;

	if (!poll)
		return NULL;
	queue = (void *)poll->queue;
	if (!queue || (__u64)KERNEL_READ(queue, dev_rx) != (__u64)dev) {
		poll->number++;
		poll->queue = 0;
		poll->found = 0;
		poll->way_hop = 0;
	}
	return poll;
}

static __always_inline bool is_same_source(const __u64 *a, const __u64 *b, bool v6)
{
	return v6 ? a[0] == b[0] && a[1] == b[1] : *(const __be32 *)a == *(const __be32 *)b;
}

static __always_inline bool is_same_destination(const __u64 *a, const __u64 *b, bool v6)
{
	return v6 ? a[2] == b[2] && a[3] == b[3] : ((const __be32 *)a)[1] == ((const __be32 *)b)[1];
}

/* Whether a packet's source and destination are those of the packet before, and plain; if not, they take their place. */
static __always_inline bool has_known_addresses(struct poll *poll, const __u64 *addresses, bool v6)
{
	__u32 forgotten = POLL_PLAIN(0) | POLL_PLAIN(1) | POLL_HOP(!v6);

	if (is_same_destination(poll->addresses, addresses, v6)) {
		if ((poll->found & POLL_PLAIN(v6)) && is_same_source(poll->addresses, addresses, v6))
			return true;
	} else {
		forgotten |= POLL_HOP(v6);
	}
	poll->found &= ~forgotten;
	for (int i = 0; i < (v6 ? 4 : 1); i++)
		poll->addresses[i] = addresses[i];
	return false;
}

/* The queue of redirected frames of this CPU at the output of a port; 0 if it is not known. */
static __always_inline __u64 bulk_queue(__u32 port)
{
	__u64 at = symbols.per_cpu_offset + bpf_get_smp_processor_id() * sizeof(__u64), offset, queues;
	struct net_device *dev;

	barrier_var(port); /* as in output_holds() */
	dev = (void *)devices[port & (BORA_MAX_INTERFACES - 1)].address;
	if ((__u64)dev <= BORA_DEVICE_UNKNOWN || !symbols.per_cpu_offset ||
	    bpf_probe_read_kernel(&offset, sizeof(offset), (void *)at) ||
	    bpf_core_read(&queues, sizeof(queues), &dev->xdp_bulkq)) /* as a number: pointers cannot be added */
		return 0;
	return queues + offset;
}

/* Notes by which output of the poll it is recognized. */
static __always_inline void recognize_poll(struct poll *poll, __u32 port)
{
	if (!poll->queue)
		poll->queue = bulk_queue(port);
}

#endif
