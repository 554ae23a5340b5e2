/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The few fields of Linux structures that the programs read. CO-RE relocates
 * them against the running kernel's BTF, so only names and nesting matter.
 */
#ifndef BORA_KERNEL_TYPES_H
#define BORA_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_prog;
struct mini_Qdisc;

struct bpf_mprog_fp {
	struct bpf_prog *prog;
};

struct bpf_mprog_bundle;

struct bpf_mprog_entry {
	struct bpf_mprog_fp fp_items[64];
	struct bpf_mprog_bundle *parent; /* it is in a tcx_entry */
};

struct bpf_mprog_bundle {
	int count;
};

struct tcx_entry {
	struct mini_Qdisc *miniq; /* NULL without filters */
	struct bpf_mprog_bundle bundle;
};

struct nf_hook_entry {
	void *hook; /* the function */
	void *priv; /* its argument */
};

struct nf_hook_entries {
	__u16 num_hook_entries;
	struct nf_hook_entry hooks[];
};

struct netns_nf {
	struct nf_hook_entries *hooks_ipv4[5];
	struct nf_hook_entries *hooks_ipv6[5];
	struct nf_hook_entries *hooks_bridge[5];
};

struct netns_nftables {
	unsigned int base_seq; /* Linux 6.17; before: generation.bpf.c */
};

struct nf_tcp_net {
	unsigned int offload_timeout; /* how long flows in flowtables stay without packets, in jiffies */
};

struct nf_udp_net {
	unsigned int offload_timeout;
};

struct nf_ip_net {
	struct nf_tcp_net tcp;
	struct nf_udp_net udp;
};

struct netns_ct {
	struct nf_ip_net nf_ct_proto;
};

struct netns_xfrm {
	unsigned int policy_count[6];
	__u8 policy_default[3];
};

struct ns_common {
	unsigned int inum;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct sysctl_fib_multipath_hash_seed {
	unsigned int user_seed;
};

typedef struct {
	int counter;
} atomic_t;

struct netns_ipv4 {
	atomic_t rt_genid;
	struct sysctl_fib_multipath_hash_seed sysctl_fib_multipath_hash_seed; /* Linux 6.11 */
	unsigned int sysctl_fib_multipath_hash_fields;
	__u8 sysctl_fib_multipath_hash_policy;
};

struct netns_sysctl_ipv6 {
	unsigned int multipath_hash_fields;
	__u8 multipath_hash_policy;
};

struct netns_ipv6 {
	struct netns_sysctl_ipv6 sysctl;
	atomic_t fib6_sernum;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
	struct netns_ipv6 ipv6;
	struct netns_nf nf;
	struct netns_nftables nft;
	struct netns_ct ct;
	struct netns_xfrm xfrm;
	struct hlist_head *dev_index_head;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device_ops {
	void *ndo_xdp_xmit; /* the function */
};

/* Frames that wait for the end of a NAPI poll at an output; one for each CPU. */
struct xdp_dev_bulk_queue {
	struct net_device *dev_rx; /* where they came in by; NULL if there are none */
};

struct net_device {
	struct net_device_ops *netdev_ops;
	unsigned int mtu;
	int ifindex;
	possible_net_t nd_net;
	struct hlist_node index_hlist;
	void *rx_handler;
	struct nf_hook_entries *nf_hooks_ingress;
	struct nf_hook_entries *nf_hooks_egress;
	struct bpf_mprog_entry *tcx_ingress; /* Linux 6.6 and later; before: */
	struct bpf_mprog_entry *tcx_egress;
	struct mini_Qdisc *miniq_ingress;
	struct mini_Qdisc *miniq_egress;
	struct xdp_dev_bulk_queue *xdp_bulkq;
	__u8 priv[]; /* Linux 6.10 and later */
};

struct xdp_rxq_info {
	struct net_device *dev;
};

struct xdp_buff {
	struct xdp_rxq_info *rxq;
};

struct skb_shared_info {
	__u8 meta_len; /* octets of metadata of XDP programs, before the frame */
	__u16 gso_size; /* octets of a segment, if the packet is several */
};

struct sk_buff {
	struct net_device *dev;
	unsigned int vlan_all;
	__be16 vlan_proto;
	__u16 vlan_tci;
	__be16 protocol;
	__u8 l4_hash : 1;
	__u8 ip_summed : 2;
	__u16 csum_start; /* this and the next two are offsets from head */
	__u16 mac_header;
	unsigned int end;
	unsigned char *head;
};

/* before Linux 6.2 */
struct sk_buff___bit {
	__u8 vlan_present : 1;
};

struct veth_xdp_buff {
	struct xdp_buff xdp;
	struct sk_buff *skb;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	struct nsproxy *nsproxy;
};

struct static_key {
	atomic_t enabled;
};

struct selinux_state {
	bool policycap[8];
};

#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/*
 * Reads p->field, where p is any address of such a structure; a bad address reads as 0. It is a
 * plain load if the kernel has bpf_rdonly_cast (Linux 6.2), else a helper call.
 */
#define KERNEL_READ(p, field)                                                                      \
	(bpf_rdonly_cast ?                                                                         \
		 ((typeof(p))bpf_rdonly_cast(p, bpf_core_type_id_kernel(typeof(*(p)))))->field :   \
		 ({                                                                                \
			 typeof((p)->field) value_;                                                \
			 bpf_core_read(&value_, sizeof(value_), &(p)->field);                      \
			 value_;                                                                   \
		 }))

/* Reads a field of bits as KERNEL_READ does. */
#define KERNEL_READ_BITS(p, field)                                                                 \
	(bpf_rdonly_cast ? ({                                                                      \
		typeof(p) cast_ = bpf_rdonly_cast(p, bpf_core_type_id_kernel(typeof(*(p))));       \
		BPF_CORE_READ_BITFIELD(cast_, field);                                              \
	}) :                                                                                       \
			   BPF_CORE_READ_BITFIELD_PROBED(p, field))

#endif
