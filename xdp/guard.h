/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Never weaker than the kernel: XDP runs before netfilter, xfrm and tc, so the
 * program looks at Linux's own hook lists for every packet. A rule is obeyed
 * from the moment Linux itself would obey it, without a window in which the
 * control side has yet to hear of it.
 *
 * Kernels without these kfuncs (before 6.2) rely on the flags that the control
 * side sets from netlink events.
 */
#ifndef BORA_GUARD_H
#define BORA_GUARD_H

#include "kernel_types.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

enum { HOOK_PRE_ROUTING = 0, HOOK_FORWARD = 2, HOOK_POST_ROUTING = 4 };
enum { XFRM_OUT = 1, XFRM_FORWARD = 2 };

static __always_inline bool kernel_has_a_say(struct xdp_md *ctx, bool v6)
{
	struct xdp_buff *xdp;
	struct net_device *dev;
	struct net *net;

	if (!bpf_cast_to_kern_ctx)
		return false;
	xdp = bpf_cast_to_kern_ctx(ctx);
	dev = xdp->rxq->dev;
	net = dev->nd_net.net;

	if (bpf_core_field_exists(dev->nf_hooks_ingress) && dev->nf_hooks_ingress)
		return true;
	if (bpf_core_field_exists(dev->tcx_ingress) && dev->tcx_ingress)
		return true;
	if (net->xfrm.policy_count[XFRM_OUT] || net->xfrm.policy_count[XFRM_FORWARD])
		return true;
	if (v6)
		return net->nf.hooks_ipv6[HOOK_PRE_ROUTING] || net->nf.hooks_ipv6[HOOK_FORWARD] ||
		       net->nf.hooks_ipv6[HOOK_POST_ROUTING];
	return net->nf.hooks_ipv4[HOOK_PRE_ROUTING] || net->nf.hooks_ipv4[HOOK_FORWARD] ||
	       net->nf.hooks_ipv4[HOOK_POST_ROUTING];
}

#endif
