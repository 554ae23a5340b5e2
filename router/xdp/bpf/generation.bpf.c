// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Finds where nf_tables counts the generations of a namespace's ruleset. Before Linux 6.17 only the module has the structure, so this is an
 * object of its own, loaded while the module is there. BPF_PROG_RUN runs the program in the namespace of the caller.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* CO-RE: only names and nesting matter. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_generic;
struct net {
	struct net_generic *gen;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	struct nsproxy *nsproxy;
};
struct nftables_pernet {
	unsigned int base_seq;
};
#pragma clang attribute pop

extern const void nf_tables_net_id __ksym __weak;

#define MOST_IDS 4096

/* Writes the address to `found`, or 0. */
SEC("syscall")
int find_generation(__u64 *found)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 list = (__u64)BPF_CORE_READ(task, nsproxy, net_ns, gen), own = 0;
	__u32 id = 0;

	*found = 0;
	if (!bpf_core_field_exists(struct nftables_pernet, base_seq) || !&nf_tables_net_id)
		return 0;
	if (bpf_probe_read_kernel(&id, sizeof(id), &nf_tables_net_id) || !id || id >= MOST_IDS)
		return 0;
	/* net_generic() in include/net/netns/generic.h */
	if (bpf_probe_read_kernel(&own, sizeof(own), (void *)(list + id * sizeof(own))) || !own)
		return 0;
	*found = own + bpf_core_field_offset(struct nftables_pernet, base_seq);
	return 1;
}

char _license[] SEC("license") = "GPL";
