/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Bora's FIB, which the engine's workers read too (router/fib: node.rs, lookup/scalar.rs). Only
 * router/fib writes it, through a mapping of the map. It writes a node before the word that leads
 * there, and uses memory again only after all programs that ran meanwhile have ended (an RCU grace
 * period), so what a look-up reads never changes. What it does not find here, Linux is asked for.
 */
#ifndef BORA_FIB_H
#define BORA_FIB_H

#define FIB_NODE 0x80000000u /* a word that leads to a node; else it is a leaf */
#define FIB_FAR 0x8000u /* a 16-bit entry that says where its word is */
#define FIB_UNKNOWN (BORA_FIB_HOPS + 1u) /* a leaf of which nothing is known here */

enum { FIB_INHERIT, FIB_DEFAULT, FIB_OUTSIDE }; /* words of a header */

static __always_inline struct fib_page *fib_page(__u32 number)
{
	return bpf_map_lookup_elem(&fib, &number);
}

/* A 32-bit word of an array that begins at a page. */
static __always_inline __u32 fib_word(__u32 first, __u32 index, __u32 otherwise)
{
	struct fib_page *page = fib_page(first + index / FIB_PAGE_WORDS);

	return page ? page->words[index % FIB_PAGE_WORDS] : otherwise;
}

/* The page of a node, which lies in one page as a whole; NULL if it is beyond the program's share. */
static __always_inline struct fib_page *fib_page_of(bool v6, __u32 node)
{
	__u32 page = (node & ~FIB_NODE) / FIB_PAGE_BITMAPS;

	if (page >= fib_node_pages)
		return NULL;
	return fib_page(BORA_FIB_NODES + page + (v6 ? fib_node_pages : 0));
}

/* Number of runs of equal slots that start at or before a slot; the program has no POPCNT. */
static __always_inline __u32 fib_rank(__u64 bitmap, __u32 slot)
{
	__u64 x = bitmap & (~0ull >> (63 - slot));

	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

/* The word of a slot (0 to 63) in an IPv4 node. */
static __always_inline __u32 fib_narrow_slot(__u32 node, __u32 slot)
{
	struct fib_page *page = fib_page_of(false, node);
	__u32 at = node % FIB_PAGE_BITMAPS;
	__u16 entry;

	if (!page)
		return FIB_UNKNOWN;
	entry = page->entries[(at * 4 + 3 + fib_rank(page->bitmaps[at], slot)) %
			      (2 * FIB_PAGE_WORDS)];
	if (!(entry & FIB_FAR))
		return entry;
	return page->words[(at * 2 + (entry & ~FIB_FAR)) % FIB_PAGE_WORDS];
}

/*
 * The word that the next bits of an address lead to in an IPv6 node, and how many bits that takes if it is a path,
 * whose head is no bitmap: bit 0 is clear.
 */
static __always_inline __u32 fib_wide_step(__u32 node, __u64 next, __u32 *bits)
{
	struct fib_page *page = fib_page_of(true, node);
	__u32 at = node % FIB_PAGE_BITMAPS, word;
	__u64 head;

	if (!page)
		return FIB_UNKNOWN;
	head = page->bitmaps[at];
	if (head & 1) {
		word = at * 2 + 1 + fib_rank(head, next >> 58);
	} else {
		*bits = head >> 1 & 63;
		next ^= page->bitmaps[(at + 1) % FIB_PAGE_BITMAPS];
		word = at * 2 + 4 + !!(next >> (64 - *bits));
	}
	return page->words[word % FIB_PAGE_WORDS];
}

/* The next hop of an IPv4 address in host order. A function of its own is verified only once. */
__noinline __u32 fib_lookup4(__u32 address)
{
	__u32 word = fib_word(BORA_FIB_ROOT4, address >> 14, FIB_UNKNOWN);

	if (word & FIB_NODE)
		word = fib_narrow_slot(word, address >> 8 & 63);
	if (word & FIB_NODE)
		word = fib_narrow_slot(word, address >> 2 & 63);
	if (word & FIB_NODE)
		word = fib_narrow_slot(word, (address & 3) << 4);
	if (!word)
		return fib_word(BORA_FIB_HEADERS, FIB_INHERIT, FIB_UNKNOWN);
	return word - 1;
}

/* The next hop of an IPv6 address, whose halves are in host order. */
__noinline __u32 fib_lookup6(__u64 high, __u64 low)
{
	bool inside = high >> 61 == 1; /* 2000::/3 */
	__u32 header = BORA_FIB_HEADERS + 1, word;

	if (inside) {
		word = fib_word(BORA_FIB_ROOT6, high << 3 >> 43, FIB_UNKNOWN);
		high = high << 24 | low >> 40;
		low <<= 24;
	} else {
		word = fib_word(header, FIB_OUTSIDE, FIB_UNKNOWN);
	}
	for (int i = 0; i < 22 && (word & FIB_NODE); i++) {
		__u32 bits = 6;

		word = fib_wide_step(word, high, &bits);
		high = high << bits | low >> (64 - bits);
		low <<= bits;
	}
	if (!word)
		return fib_word(header, inside ? FIB_INHERIT : FIB_DEFAULT, FIB_UNKNOWN);
	return word - 1;
}

static __always_inline __u64 be64(const __be32 *word)
{
	return (__u64)bpf_ntohl(word[0]) << 32 | bpf_ntohl(word[1]);
}

static __always_inline __u32 fib_lookup(const void *address, bool v6)
{
	if (!v6)
		return fib_lookup4(bpf_ntohl(*(__be32 *)address));
	return fib_lookup6(be64(address), be64((const __be32 *)address + 2));
}

/*
 * What becomes of packets for this next hop: 0 if only Linux can say, BORA_FIB_REASON with a reason, or
 * the number of an adjacency.
 */
static __always_inline __u32 fib_hop(__u32 next_hop)
{
	__u32 hop;

	if (next_hop >= BORA_FIB_HOPS)
		return 0;
	hop = fib_word(BORA_FIB_HOPS_AT, next_hop, 0);
	if (hop & BORA_FIB_MEMBER) /* a group with one member */
		hop = fib_word(BORA_FIB_HOPS_AT, (hop & ~BORA_FIB_MEMBER) % BORA_FIB_HOPS, 0);
	return hop & BORA_FIB_MEMBER ? 0 : hop;
}

static __always_inline struct fib_adjacency *fib_adjacency(__u32 number)
{
	struct fib_page *page;

	number %= BORA_FIB_HOPS;
	page = fib_page(BORA_FIB_ADJACENCIES_AT + number / FIB_PAGE_ADJACENCIES);
	return page ? &page->adjacencies[number % FIB_PAGE_ADJACENCIES] : NULL;
}

/* Looks up an address and writes the result over it, so that tests can compare it. */
SEC("syscall")
int fib_ask(struct bora_fib_question *question)
{
	bool v6 = question->v6;
	__be32 address[4];

	__builtin_memcpy(address, question->address, sizeof(address));
	question->mark = v6 ? mark_of(question->ifindex, address, true) : mark_of(question->ifindex, address, false);
	if (!fib_node_pages)
		return 0;
	question->next_hop = v6 ? fib_lookup(address, true) : fib_lookup(address, false);
	question->hop = fib_hop(question->next_hop);
	return 1;
}

#endif
