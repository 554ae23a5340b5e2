/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Programs that the control side runs with BPF_PROG_RUN: they find the ports' devices, and report what
 * the guard sees, for `bora show sync`.
 */
#ifndef BORA_SURVEY_H
#define BORA_SURVEY_H

#include "device_index.h"

/* Written by survey(). */
struct bora_survey found;

static __always_inline struct net *own_net(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct nsproxy *proxy = KERNEL_READ(task, nsproxy);
	struct net *net = KERNEL_READ(proxy, net_ns);

	return KERNEL_READ(net, ns.inum) == netns_inode ? net : NULL;
}

/*
 * Stores the address of a port's device, found as dev_get_by_index() does in this process's
 * namespace, and which port the interface's number leads to. Interface 0 means that the port has been
 * removed.
 */
SEC("syscall")
int find_device(struct bora_find *find)
{
	__u32 ifindex = find->ifindex, index = find->index;
	struct net *net = own_net();
	__u64 address;

	if (index >= BORA_MAX_INTERFACES)
		return 0;
	devices[index].address = ifindex ? BORA_DEVICE_UNKNOWN : 0;
	devices[index].ifindex = ifindex;
	if (port_count <= index)
		port_count = index + 1;
	port_hints[ifindex % PORT_HINTS] = index;
	if (!net || !ifindex)
		return 0;
	address = device_by_index(net, ifindex);
	if (!address)
		return 0;
	devices[index].address = address;
	return 1;
}

static __always_inline void survey_hook(struct bora_hook *hook, struct net *net, struct nf_hook_entries *entries,
					const volatile struct bora_trust *trust)
{
	hook->identity.address = (__u64)entries;
	/* read again, because the verifier wants a number there, and no pointer */
	hook->identity.sum = entries ? sum_of_hook(*(volatile __u64 *)&hook->identity.address) : 0;
	hook->count = entries ? KERNEL_READ(entries, num_hook_entries) : 0;
	hook->holds = trust ? holds_transit(net, entries, trust) : holds(entries);
	hook->trusted = !hook->holds && holds(entries);
#pragma unroll
	for (int i = 0; i < BORA_SURVEY_FUNCTIONS; i++)
		hook->functions[i] = i < hook->count ? (__u64)KERNEL_READ(entries, hooks[i].hook) : 0;
}

/* Whether the driver has ndo_xdp_xmit(); from Linux 6.3 on netdev features would tell it too. */
static __always_inline bool takes_frames(struct net_device *dev)
{
	struct net_device_ops *operations = KERNEL_READ(dev, netdev_ops);

	return KERNEL_READ(operations, ndo_xdp_xmit) != NULL;
}

__noinline int survey_port(__u32 index)
{
	struct net_device *dev;
	__u64 receiver = 0;
	__u8 seen = 0;

	if (index >= BORA_MAX_INTERFACES)
		return 0;
	dev = (void *)devices[index].address;
	if (devices[index].address > BORA_DEVICE_UNKNOWN &&
	    KERNEL_READ(dev, ifindex) == devices[index].ifindex) {
		seen |= nf_at_ingress(dev) ? BORA_HOOK_NF_INGRESS : 0;
		seen |= tc_at_ingress(dev) ? BORA_HOOK_TC_INGRESS : 0;
		seen |= nf_at_egress(dev) ? BORA_HOOK_NF_EGRESS : 0;
		seen |= tc_at_egress(dev) ? BORA_HOOK_TC_EGRESS : 0;
		seen |= takes_frames(dev) ? BORA_HOOK_TAKES_FRAMES : 0;
		receiver = (__u64)KERNEL_READ(dev, rx_handler);
	} else if (devices[index].address == BORA_DEVICE_UNKNOWN) {
		seen = BORA_HOOK_NOT_FOUND;
	}
	found.ports[index] = seen;
	if (index < BORA_MAX_PORTS) {
		/* the verifier of Linux 6.1 loses the bound */
		barrier_var(index);
		found.receivers[index & (BORA_MAX_PORTS - 1)] = receiver;
	}
	return 0;
}

/* Fills `found` for this process's namespace; returns 1 on success. */
SEC("syscall")
int survey(void *ctx)
{
	struct net *net = own_net();

	if (!net)
		return 0;
	survey_hook(&found.hooks[0], net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_PRE_ROUTING]), &trusted[0][0]);
	survey_hook(&found.hooks[1], net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_FORWARD]), &trusted[0][1]);
	survey_hook(&found.hooks[2], net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_POST_ROUTING]), &trusted[0][2]);
	survey_hook(&found.hooks[3], net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_PRE_ROUTING]), &trusted[1][0]);
	survey_hook(&found.hooks[4], net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_FORWARD]), &trusted[1][1]);
	survey_hook(&found.hooks[5], net, KERNEL_READ(net, nf.hooks_ipv6[HOOK_POST_ROUTING]), &trusted[1][2]);
	survey_hook(&found.hooks[6], net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_LOCAL_IN]), NULL);
	survey_hook(&found.hooks[7], net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_LOCAL_OUT]), NULL);
	found.xfrm = (has_xfrm_policies(net, XFRM_OUT) || has_xfrm_policies(net, XFRM_FORWARD) ? BORA_XFRM_POLICIES : 0) |
		     (xfrm_decides(net, XFRM_IN) ? BORA_XFRM_IN : 0) |
		     (xfrm_blocks(net, XFRM_OUT) ? BORA_XFRM_OUT_BLOCKED : 0) |
		     (xfrm_blocks(net, XFRM_FORWARD) ? BORA_XFRM_FORWARD_BLOCKED : 0);
	found.direct = bpf_rdonly_cast ? 1 : 0;
	found.rules[0] = rules[0].base_count != 0;
	found.rules[1] = rules[1].base_count != 0;
	found.shows_generation = bpf_core_field_exists(net->nft.base_seq);
	found.generation = ruleset_generation(net);
	for (__u32 i = 0; i < BORA_MAX_INTERFACES; i++)
		survey_port(i);
	return 1;
}

#endif
