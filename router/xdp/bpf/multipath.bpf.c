// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Finds out how the kernel chooses among several paths: reads the key of its hash, and asks
 * bpf_fib_lookup about flows. BPF_PROG_RUN runs these programs in the namespace of the caller, with
 * its loopback interface as ingress. They are never attached.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define MULTIPATH_FLOWS 64

/* CO-RE: only names and nesting matter. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sysctl_fib_multipath_hash_seed {
	__u32 mp_seed;
};
struct netns_ipv4 {
	struct sysctl_fib_multipath_hash_seed sysctl_fib_multipath_hash_seed;
};
struct net {
	struct netns_ipv4 ipv4;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	possible_net_t nd_net;
};
struct xdp_rxq_info {
	struct net_device *dev;
};
struct xdp_buff {
	struct xdp_rxq_info *rxq;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

/* Bora writes the flows; `ask` writes the answers. */
struct multipath_flow {
	__u8 lookup[sizeof(struct bpf_fib_lookup)];
} flows[MULTIPATH_FLOWS];
long results[MULTIPATH_FLOWS];
__u32 next_flow;

/* Address of the kernel's key, which BTF does not know before Linux 6.11; written by Bora. */
__u64 key_address;
/* The key, and whether it was found. */
__u64 key[2];
bool found;

SEC("xdp")
int read_key(struct xdp_md *ctx)
{
	found = false;
	if (key_address) {
		found = !bpf_probe_read_kernel(key, sizeof(key), (void *)(long)key_address);
		return XDP_PASS;
	}
	if (bpf_cast_to_kern_ctx) {
		struct xdp_buff *xdp = bpf_cast_to_kern_ctx(ctx);
		struct net *net = xdp->rxq->dev->nd_net.net;

		if (bpf_core_field_exists(net->ipv4.sysctl_fib_multipath_hash_seed)) {
			__u64 seed = net->ipv4.sysctl_fib_multipath_hash_seed.mp_seed;

			/* fib_multipath_hash_construct_key() */
			key[0] = key[1] = seed << 32 | seed;
			found = true;
		}
	}
	return XDP_PASS;
}

SEC("xdp")
int ask(struct xdp_md *ctx)
{
	__u32 slot = next_flow++;
	struct bpf_fib_lookup fib;

	if (slot >= MULTIPATH_FLOWS)
		return XDP_DROP;
	__builtin_memcpy(&fib, flows[slot].lookup, sizeof(fib));
	results[slot] = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	__builtin_memcpy(flows[slot].lookup, &fib, sizeof(fib));
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
