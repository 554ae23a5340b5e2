/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which neighbours packets were sent to. The control side reads it, and has Linux confirm those that it has
 * not heard of for a while, as Linux does for what it sends itself.
 */
#ifndef BORA_MARKS_H
#define BORA_MARKS_H

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

#define SPREAD 0x9e3779b1u

/* The bit of a neighbour, never 0: router/fib/src/marks.rs has the same function. */
static __always_inline __u32 mark_of(__u32 ifindex, const __be32 *address, bool v6)
{
	__u32 hash = (ifindex * SPREAD ^ address[0]) * SPREAD;

	if (v6) {
		hash = (hash ^ address[1]) * SPREAD;
		hash = (hash ^ address[2]) * SPREAD;
		hash = (hash ^ address[3]) * SPREAD;
	}
	hash /= (__u32)(0x100000000ull / BORA_USE_MARKS);
	return hash ? hash : 1;
}

/* Notes that a packet goes to the neighbour with this bit. */
static __always_inline void note_use(__u32 mark)
{
	__u32 word = mark / 64;
	__u64 *marks = bpf_map_lookup_elem(&use_marks, &word);
	__u64 bit = 1ull << (mark % 64);

	if (marks && !(*marks & bit)) /* so that CPUs which all send there share the cache line */
		__sync_fetch_and_or(marks, bit);
}

/* Marks a neighbour that Linux's look-up has found. */
static __always_inline void note_found(const struct bpf_fib_lookup *fib)
{
	note_use(mark_of(fib->ifindex, fib->ipv6_dst, fib->family == AF_INET6));
}

#endif
