/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Devices by index. */
#ifndef BORA_DEVICE_INDEX_H
#define BORA_DEVICE_INDEX_H

#include "kernel_types.h"

#define DEVICE_HASH 256 /* NETDEV_HASHENTRIES in include/net/net_namespace.h */
#define DEVICE_CHAIN 256 /* most devices of one hash that are looked at */

/* The address of a namespace's device with an index, found as dev_get_by_index() does; 0: there is none. */
static __always_inline __u64 device_by_index(struct net *net, __u32 ifindex)
{
	struct hlist_head *heads = KERNEL_READ(net, dev_index_head);
	struct hlist_node *node = KERNEL_READ(&heads[ifindex % DEVICE_HASH], first);

	for (int i = 0; i < DEVICE_CHAIN && node; i++) {
		__u64 address = (__u64)node - bpf_core_field_offset(struct net_device, index_hlist);
		struct net_device *dev = (void *)address;

		if (KERNEL_READ(dev, ifindex) == ifindex && KERNEL_READ(dev, nd_net.net) == net)
			return address;
		node = KERNEL_READ(node, next);
	}
	return 0;
}

#endif
