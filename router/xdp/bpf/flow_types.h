/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What flow.h reads of Linux's flows and routes. CO-RE relocates it, as kernel_types.h. */
#ifndef BORA_FLOW_TYPES_H
#define BORA_FLOW_TYPES_H

#include "kernel_types.h"

/* An element of `encap` of struct flow_offload_tuple. */
struct flow_tag {
	__u16 id; /* in host order */
	__be16 proto;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nf_flowtable_type {
	void *hook; /* the function at the ingress of the flowtable's devices */
};

struct bucket_table {
	unsigned int size; /* a power of two */
	unsigned int nest;
	__u32 hash_rnd;
	struct bucket_table *future_tbl;
	void *buckets[];
};

struct rhashtable {
	struct bucket_table *tbl;
};

struct rhash_head {
	struct rhash_head *next;
};

struct nf_flowtable {
	unsigned int flags; /* enum nf_flowtable_flags */
	struct nf_flowtable_type *type;
	struct rhashtable rhashtable;
};

/* One direction of a flow. */
struct flow_offload_tuple {
	struct in6_addr src_v6; /* IPv4 in the first word */
	struct in6_addr dst_v6;
	__be16 src_port; /* the other port follows */
	__be16 dst_port;
	int iifidx;
	__u8 l3proto;
	__u8 l4proto;
	struct flow_tag encap[2];
	__u8 dir : 2; /* what is before is the key: __hash, which takes no room, stands in front of it */
	__u8 xmit_type : 3;
	__u8 encap_num : 2;
	__u8 tun_num : 2; /* Linux 6.19 and later */
	__u16 mtu;
	void *dst_cache;
	__u32 dst_cookie;
	struct {
		__u32 ifidx;
		__u8 h_source[ETH_ALEN];
		__u8 h_dest[ETH_ALEN];
	} out;
};

struct flow_offload_tuple_rhash {
	struct rhash_head node;
	struct flow_offload_tuple tuple;
};

struct nf_ct_ext {
	__u8 offset[1]; /* where each extension is; 0: the connection does not have it */
};

struct nf_conn {
	unsigned long status;
	struct nf_ct_ext *ext;
};

enum nf_ct_ext_id {
	NF_CT_EXT_ACCT = 3, /* counters, with net.netfilter.nf_conntrack_acct */
};

struct flow_offload {
	struct flow_offload_tuple_rhash tuplehash[2];
	struct nf_conn *ct;
	unsigned long flags;
	__u32 timeout; /* in jiffies */
};

enum nf_flow_flags {
	NF_FLOW_HW_BIDIRECTIONAL = 7, /* seen in both directions; set without cards, too */
};

struct timespec64 {
	__s64 tv_sec;
};

struct dst_entry {
	struct net_device *dev;
	void *lwtstate;
	short obsolete;
};

struct rtable {
	struct dst_entry dst;
	int rt_genid;
	__u8 rt_gw_family;
	__be32 rt_gw4;
};

struct fib6_node {
	int fn_sernum;
};

struct fib6_info {
	struct fib6_node *fib6_node;
	unsigned long expires;
	unsigned int fib6_flags;
};

struct rt6_info {
	struct dst_entry dst;
	struct fib6_info *from;
	int sernum;
	struct in6_addr rt6i_gateway;
	unsigned int rt6i_flags;
};

#pragma clang attribute pop

/* net/netfilter/nf_flow_table_bpf.c */
struct bpf_flowtable_opts {
	__s32 error;
};

/* Linux 6.11, in the module nf_flow_table. It also puts off the end of the flow that it finds. */
extern struct flow_offload_tuple_rhash *bpf_xdp_flow_lookup(struct xdp_md *ctx, struct bpf_fib_lookup *tuple,
							    struct bpf_flowtable_opts *opts,
							    __u32 size) __ksym __weak;

/*
 * A 32-bit word at any address; 0 for a bad one. Programs cannot name the types of modules, so this takes
 * a structure of the kernel itself that is made of words.
 */
static __always_inline __u32 word_at(const void *address, __u32 offset)
{
	struct in6_addr *words = (void *)address + offset;

	return KERNEL_READ(words, in6_u.u6_addr32[0]);
}

/* A 64-bit word at any address, which is a number for the verifier, even if Linux has a pointer there. */
static __always_inline __u64 long_at(const void *address, __u32 offset)
{
	struct timespec64 *at = (void *)address + offset;

	return KERNEL_READ(at, tv_sec);
}

static __always_inline void *pointer_at(const void *address, __u32 offset)
{
	struct hlist_head *at = (void *)address + offset;

	return KERNEL_READ(at, first);
}

/* A field of a structure of a module. */
#define MODULE_POINTER(p, type, field) pointer_at(p, bpf_core_field_offset(type, field))
#define MODULE_WORD(p, type, field) word_at(p, bpf_core_field_offset(type, field))

/* A field of at most 16 bits. */
#define MODULE_BITS(p, type, field)                                                                \
	({                                                                                         \
		__u64 bits_ = word_at(p, __builtin_preserve_field_info(((type *)0)->field,         \
								       BPF_FIELD_BYTE_OFFSET));    \
		bits_ <<= __builtin_preserve_field_info(((type *)0)->field, BPF_FIELD_LSHIFT_U64); \
		bits_ >> __builtin_preserve_field_info(((type *)0)->field, BPF_FIELD_RSHIFT_U64);  \
	})

#endif
