/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How a packet is passed to Linux: its reason is counted, and exceptions have a budget. */
#ifndef BORA_PASS_H
#define BORA_PASS_H

/* Whether this is the instance that is only asked (router/xdp/src/ask.rs), without packets; set before loading. */
const volatile bool asked;

/*
 * Bounds an index right before its use. The verifier of Linux 6.12 and earlier forgets the bounds
 * of a 32-bit value that has been on the stack, and the compiler may put any value there.
 */
static __always_inline __u32 bounded(__u32 reason)
{
	barrier_var(reason);
	return reason < BORA_REASONS ? reason : BORA_NO_LEASE;
}

/* Passes an exception to Linux, or drops it if the budget of its reason is used up. */
static __noinline int pass_within_budget(struct bora_counters *count, __u32 reason)
{
	__u32 key = bounded(reason);
	struct bora_budget *used = bpf_map_lookup_elem(&budgets, &key);
	__u64 now = bpf_ktime_get_coarse_ns();

	if (!used || !count)
		return XDP_PASS;
	reason = bounded(reason);
	if (now - used->window_start >= BORA_BUDGET_WINDOW_NS) {
		used->window_start = now;
		used->used = 0;
	}
	if (used->used >= budget[reason]) {
		count->reasons[BORA_PUNT_BUDGET]++;
		return XDP_DROP;
	}
	used->used++;
	count->reasons[reason]++;
	return XDP_PASS;
}

static __always_inline int drop(struct bora_counters *count, __u32 reason)
{
	count->reasons[bounded(reason)]++;
	return XDP_DROP;
}

/* Drops a packet that a rule forbids. */
static __always_inline int forbid(struct bora_counters *count)
{
	return drop(count, BORA_FIREWALL);
}

/* Passes a packet to Linux, within the budget of the reason if it has one. */
static __always_inline int pass(struct bora_counters *count, __u32 reason)
{
	if (reason >= BORA_FIRST_BUDGET && !asked)
		return pass_within_budget(count, reason);
	count->reasons[bounded(reason)]++;
	return XDP_PASS;
}

#endif
