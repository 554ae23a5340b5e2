/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What was found for an earlier packet of the same NAPI poll counts for this one, too: that Bora is alive, whether the
 * guard lets an IP version pass, and what the FIB says of the destination, which packets that follow each other often share.
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
#define POLL_HOP(v6) (16u << (v6)) /* the destination of the packet before is known */

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
		poll->queue = 0;
		poll->found = 0;
	}
	return poll;
}

/* The queue of redirected frames of this CPU at the output of a port; 0 if it is not known. */
static __always_inline __u64 bulk_queue(__u32 port)
{
	struct net_device *dev = (void *)devices[port & (BORA_MAX_INTERFACES - 1)].address;
	__u64 at = symbols.per_cpu_offset + bpf_get_smp_processor_id() * sizeof(__u64), offset, queues;

	if ((__u64)dev <= BORA_DEVICE_UNKNOWN || !symbols.per_cpu_offset ||
	    bpf_probe_read_kernel(&offset, sizeof(offset), (void *)at) ||
	    bpf_core_read(&queues, sizeof(queues), &dev->xdp_bulkq)) /* as a number: pointers cannot be added */
		return 0;
	return queues + offset;
}

/* Notes by which output of the poll it is recognized. */
static __always_inline void recognize_poll(struct poll *poll, __u32 port)
{
	if (poll && !poll->queue)
		poll->queue = bulk_queue(port);
}

#endif
