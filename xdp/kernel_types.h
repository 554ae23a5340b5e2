/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The few fields of Linux structures that the programs read. CO-RE relocates
 * them against the running kernel's BTF, so only names and nesting matter.
 */
#ifndef BORA_KERNEL_TYPES_H
#define BORA_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct;
struct nf_hook_entries;
struct bpf_mprog_entry;

struct netns_nf {
	struct nf_hook_entries *hooks_ipv4[5];
	struct nf_hook_entries *hooks_ipv6[5];
};

struct netns_xfrm {
	unsigned int policy_count[6];
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
	struct netns_nf nf;
	struct netns_xfrm xfrm;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	struct nf_hook_entries *nf_hooks_ingress;
	struct bpf_mprog_entry *tcx_ingress;
};

struct xdp_rxq_info {
	struct net_device *dev;
};

struct xdp_buff {
	struct xdp_rxq_info *rxq;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int vlan_all;
	__be16 protocol;
};

/* before Linux 6.2 */
struct sk_buff___bit {
	__u8 vlan_present : 1;
};

struct veth_xdp_buff {
	struct xdp_buff xdp;
	struct sk_buff *skb;
};

#pragma clang attribute pop

#endif
