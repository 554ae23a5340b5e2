/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Programs on tracepoints of Linux: what an XDP program cannot see at its own hook. */
#ifndef BORA_TRACEPOINTS_H
#define BORA_TRACEPOINTS_H

/* The port of a device; NULL for devices of other network namespaces. */
static __always_inline struct bora_port *port_of(const struct net_device *dev)
{
	if (dev->nd_net.net->ns.inum != netns_inode)
		return NULL;
	return port_of_interface(dev->ifindex);
}

/*
 * The output's driver may still refuse a redirected frame after the program has returned. The
 * tracepoint, on the same CPU, gives their number. Frames that another program has redirected to a
 * port are not counted.
 */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(count_refused, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int err)
{
	struct bora_counters *count;
	struct bora_port *out;

	if (drops <= 0 || !port_of(from))
		return 0;
	out = port_of(to);
	if (!out)
		return 0;
	count = counters_of(out->index);
	if (!count)
		return 0;
	count->tx_packets -= drops;
	count->reasons[BORA_TX_RING_FULL] += drops;
	return 0;
}

/* Fills the note of buffer.h. Attached while there are ports with generic XDP. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(note_buffer, struct sk_buff *skb)
{
	struct buffer_note *note = buffer_note();

	if (!note)
		return 0;
	note->ifindex = skb->dev->ifindex;
	/* Linux takes the tag out of the frame before it gives the packet to a bond */
	note->tagged = buffer_has_tag(skb) || skb->protocol == bpf_htons(ETH_P_8021Q) ||
		       skb->protocol == bpf_htons(ETH_P_8021AD);
	note->hashed = buffer_has_hash(skb);
	note->checksum_start = buffer_checksum_start(skb);
	note_shared_info(skb, note);
	return 0;
}

/* Returns whether buffer.h sees the socket buffers of a veth on this kernel. */
SEC("syscall")
int sees_veth_buffers(void *ctx)
{
	return sees_veth_buffer();
}

/*
 * When a process is killed the kernel first frees its memory, which takes about 100 ms, and then
 * closes its sockets. Packets that are redirected meanwhile would be lost, so the lease ends here
 * at once.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(end_lease, struct task_struct *task)
{
	if (bpf_task_storage_get(&owner, task, NULL, 0))
		lease_until = 0;
	return 0;
}

#endif
