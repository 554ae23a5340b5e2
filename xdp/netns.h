/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Interfaces that are moved to another network namespace keep the program. */
#ifndef BORA_NETNS_H
#define BORA_NETNS_H

#include "kernel_types.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

/* Whether the interface is no longer in Bora's namespace; its number may be another's here. */
static __always_inline bool is_elsewhere(struct xdp_md *ctx)
{
	struct xdp_buff *xdp = (void *)ctx;

	if (!bpf_cast_to_kern_ctx) /* before Linux 6.2 */
		return BPF_CORE_READ(xdp, rxq, dev, nd_net.net, ns.inum) != netns_inode;
	xdp = bpf_cast_to_kern_ctx(ctx);
	return xdp->rxq->dev->nd_net.net->ns.inum != netns_inode;
}

#endif
