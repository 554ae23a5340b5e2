/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Whether Linux must choose among several paths. Bora chooses the same path for a flow as Linux,
 * unless Linux uses something that Bora does not see or does not know yet.
 */
#ifndef BORA_CHOICE_H
#define BORA_CHOICE_H

#include "buffer.h"

/* fib_multipath_hash_policy, and one more: see multipath_policy */
enum { POLICY_L3 = 1, POLICY_L4, POLICY_INNER, POLICY_FIELDS };

/* Whether the sysctls have changed since Bora last read them, which it does once a second. */
static __always_inline bool hash_has_changed(struct net *net, bool v6)
{
	__u32 policy, fields;

	if (!bpf_core_field_exists(net->ipv4.sysctl_fib_multipath_hash_policy))
		return false; /* no CONFIG_IP_ROUTE_MULTIPATH */
	if (!v6) {
		policy = KERNEL_READ(net, ipv4.sysctl_fib_multipath_hash_policy);
		fields = KERNEL_READ(net, ipv4.sysctl_fib_multipath_hash_fields);
	} else {
		policy = KERNEL_READ(net, ipv6.sysctl.multipath_hash_policy);
		fields = KERNEL_READ(net, ipv6.sysctl.multipath_hash_fields);
	}
	if (policy + 1 != multipath_policy[v6] || fields != multipath_fields[v6])
		return true;
	return bpf_core_field_exists(net->ipv4.sysctl_fib_multipath_hash_seed) &&
	       KERNEL_READ(net, ipv4.sysctl_fib_multipath_hash_seed.user_seed) != multipath_seed;
}

static __always_inline bool choice_is_linux(struct xdp_md *ctx, const struct bora_port *in,
					    struct net_device *dev, bool v6)
{
	if (!multipath_policy[v6])
		return false;
	if (hash_has_changed(KERNEL_READ(dev, nd_net.net), v6))
		return true;
	return multipath_policy[v6] == POLICY_L4 && has_hash(ctx, in);
}

#endif
