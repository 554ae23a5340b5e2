/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Rules of nftables that need no connection, as the control side has compiled them (router/ruleset/src/compile). Each entry is a bit. For
 * each field that entries look at, a tree leads from its value to a row: the bits of the entries whose conditions on the field
 * hold. Entries that stand in the rows of all fields are those that the packet meets (Lakshman and Stiliadis, SIGCOMM 1998). In front of the
 * bits of a row is a word that says which of its words are not zero.
 *
 * router/xdp/src/rules writes the pages while no hook is trusted (guard.h), and programs that ran before have ended.
 */
#ifndef BORA_RULES_H
#define BORA_RULES_H

#define RULE_NONE 0xffffffffu
#define RULE_LEVELS 8 /* levels of a tree with more numbers than the pages hold */
#define RULE_LEVELS6 10

/* The rules of an IP version. The verifier of Linux 6.1 believes only in bounds that are set right before they are used. */
static __always_inline const volatile struct bora_rules *rules_of(__u32 v6)
{
	barrier_var(v6);
	return &rules[v6 & 1];
}

static __always_inline const volatile struct bora_rule_field *rule_field(__u32 v6, __u32 field)
{
	barrier_var(field);
	return &rules_of(v6)->fields[field & 7];
}

static __always_inline struct fib_page *rule_page(__u32 number)
{
	return bpf_map_lookup_elem(&rule_pages, &number);
}

/* A 32-bit word of the pages. */
static __always_inline __u32 rule_word(__u32 at)
{
	struct fib_page *page = rule_page(at / FIB_PAGE_WORDS);

	return page ? page->words[at % FIB_PAGE_WORDS] : RULE_NONE;
}

/* A 64-bit word of the pages; 0, with which no entry holds, outside of them. */
static __always_inline __u64 rule_bits(__u32 at)
{
	struct fib_page *page = rule_page(at / FIB_PAGE_BITMAPS);

	return page ? page->bitmaps[at % FIB_PAGE_BITMAPS] : 0;
}

/* 1 if a number is smaller than another one, else 0. With branches the verifier would follow all of them. */
static __always_inline __u64 is_smaller(__u64 a, __u64 b)
{
	__u64 sign = (~a & b) | (~(a ^ b) & (a - b)); /* the borrow of a - b (Warren, Hacker's Delight, 2-13) */

	barrier_var(sign);
	return sign >> 63;
}

/* 1 if numbers are equal, else 0. */
static __always_inline __u64 is_equal(__u64 a, __u64 b)
{
	__u64 sign = (a ^ b) | -(a ^ b);

	barrier_var(sign);
	return (sign >> 63) ^ 1;
}

/* The place behind the last number of a node that is smaller than the value; that of the nodes above if none is. */
static __always_inline __u32 last_smaller(__u32 best, __u64 first, __u64 smaller)
{
	__u64 none = (smaller - 1) >> 63;

	barrier_var(none); /* as in is_smaller() */
	return none * best + (1 - none) * (first + smaller);
}

/* The row of a value of a field that is not an IPv6 address. Nodes of the tree have 16 numbers, in ascending order, and 17 children. */
__noinline __u32 rule_row(__u32 v6, __u32 field, __u32 value)
{
	const volatile struct bora_rule_field *tree = rule_field(v6, field);
	__u32 node = 0, best = 0, nodes = tree->nodes;

	for (int level = 0; level < RULE_LEVELS && node < nodes; level++) {
		__u32 at = tree->keys + node * 16, smaller = 0;
		struct fib_page *page = rule_page(at / FIB_PAGE_WORDS);

		if (!page)
			return RULE_NONE;
		at = at / 16 % (FIB_PAGE_WORDS / 16) * 16;
#pragma unroll
		for (int i = 0; i < 16; i++) {
			__u64 difference = page->words[at + i] - ((__u64)value + 1);

			barrier_var(difference); /* as in is_smaller() */
			smaller += difference >> 63;
		}
		best = last_smaller(best, node * 16, smaller);
		node = node * 17 + 1 + smaller;
	}
	return best ? rule_word(tree->rows + best - 1) : RULE_NONE;
}

/* The row of an IPv6 address, whose halves are in host order. Nodes have 4 numbers and 5 children. */
__noinline __u32 rule_row6(__u32 field, __u64 high, __u64 low)
{
	const volatile struct bora_rule_field *tree = rule_field(1, field);
	__u32 node = 0, best = 0, nodes = tree->nodes;

	for (int level = 0; level < RULE_LEVELS6 && node < nodes; level++) {
		__u32 at = tree->keys + node * 16, smaller = 0;
		struct fib_page *page = rule_page(at / FIB_PAGE_WORDS);

		if (!page)
			return RULE_NONE;
		at = at / 16 % (FIB_PAGE_BITMAPS / 8) * 8;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			__u64 above = page->bitmaps[at + 2 * i], below = page->bitmaps[at + 2 * i + 1];
			__u64 larger = is_smaller(high, above) | (is_equal(high, above) & is_smaller(low, below));

			smaller += 1 - larger;
		}
		best = last_smaller(best, node * 4, smaller);
		node = node * 5 + 1 + smaller;
	}
	return best ? rule_word(tree->rows + best - 1) : RULE_NONE;
}

static __always_inline struct rule_work *rule_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rule_works, &zero);
}

/* Which bits a 64-bit word of all rows has. A function of its own is verified only once. */
__noinline __u64 rule_common(__u32 word)
{
	struct rule_work *work = rule_work();
	__u64 bits = ~0ull;

	if (!work)
		return 0;
#pragma unroll
	for (int field = 0; field < BORA_RULE_FIELDS; field++) {
		if (work->rows[field] != RULE_NONE)
			bits &= rule_bits(work->rows[field] + word);
	}
	return bits;
}

/* The number of the lowest bit that is set; the program has no CTZ. */
static __always_inline __u32 lowest_bit(__u64 bits)
{
	return fib_rank(bits ^ (bits - 1), 63) - 1;
}

/* The first entry from one on that the packet meets. */
__noinline __u32 rule_next(__u32 from)
{
	__u64 words;

	if (from >= BORA_RULES)
		return RULE_NONE;
	words = rule_common(0) & (~0ull << (from / 64));
	for (int i = 0; i < 64 && words; i++) {
		__u32 word = lowest_bit(words);
		__u64 bits = rule_common(1 + word);

		if (word == from / 64)
			bits &= ~0ull << (from % 64);
		if (bits)
			return word * 64 + lowest_bit(bits);
		words &= words - 1;
	}
	return RULE_NONE;
}

/* What a program of rules says of a packet. */
enum { RULES_FORWARD, RULES_DROP, RULES_LINUX };

/* Follows a packet through a base chain; its rows are known. The caller looks for RULES_DROP whether the base chain is behind the route. */
__noinline int rules_base(__u32 v6, __u32 base)
{
	struct rule_work *work = rule_work();
	__u32 at, flags;

	if (!work)
		return RULES_LINUX;
	barrier_var(base);
	at = rules_of(v6)->bases[base & (BORA_RULE_BASES - 1)];
	flags = at >> 16;
	at &= 0xffff;
	if ((flags & BORA_RULE_BASE_UNTRACKED) && !work->untracked)
		return RULES_LINUX;
	work->depth = 0;
	for (int i = 0; i < BORA_RULE_STEPS; i++) {
		__u32 found = rule_next(at), step = work->steps, depth = work->depth, entry, action;

		if (found >= BORA_RULES || step >= BORA_RULE_STEPS)
			return RULES_LINUX;
		barrier_var(step);
		work->path[step & (BORA_RULE_STEPS - 1)] = found;
		work->steps = step + 1;
		entry = rule_word(rules_of(v6)->actions + found);
		action = entry & 0xff;
		at = found + 1;
		if (action == BORA_RULE_ACTION_NOTRACK) {
			work->untracked = 1;
		} else if (action == BORA_RULE_ACTION_GOTO) {
			at = entry >> 16;
		} else if (action == BORA_RULE_ACTION_JUMP) {
			if (depth >= BORA_RULE_DEPTH)
				return RULES_LINUX;
			work->stack[depth & (BORA_RULE_DEPTH - 1)] = at;
			work->depth = depth + 1;
			at = entry >> 16;
		} else if (action == BORA_RULE_ACTION_RETURN && depth) {
			work->depth = depth - 1;
			at = work->stack[(depth - 1) & (BORA_RULE_DEPTH - 1)];
		} else if (action == BORA_RULE_ACTION_RETURN) {
			return flags & BORA_RULE_BASE_ACCEPTS ? RULES_FORWARD : RULES_DROP;
		} else if (action == BORA_RULE_ACTION_ACCEPT) {
			return RULES_FORWARD;
		} else if (action == BORA_RULE_ACTION_DROP) {
			return RULES_DROP;
		} else if (action != BORA_RULE_ACTION_CONTINUE) {
			return RULES_LINUX;
		}
	}
	return RULES_LINUX;
}

/* Counts a packet at the entries that it has met, where their rules count. */
__noinline int rules_count(__u32 v6, __u32 octets)
{
	struct rule_work *work = rule_work();

	if (!work)
		return 0;
	for (__u32 step = 0; step < BORA_RULE_STEPS; step++) {
		struct rule_counter *counter;
		__u32 key;

		if (step >= work->steps)
			break;
		key = work->path[step] % BORA_RULES;
		if (!(rule_word(rules_of(v6)->actions + key) & RULE_COUNTS))
			continue;
		key += (v6 & 1) * BORA_RULES;
		counter = bpf_map_lookup_elem(&rule_counters, &key);
		if (counter) {
			counter->packets++;
			counter->octets += octets;
		}
	}
	return 0;
}

/* Whether the rules may look at a header that is not where it usually is (ipv6_ext_hdr()). */
static __always_inline bool has_extension(const struct packet *p)
{
	switch (p->ip6->nexthdr) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_AH:
	case IPPROTO_NONE:
	case IPPROTO_DSTOPTS:
		return true;
	}
	return false;
}

/* Octets of the transport header that Linux's matches need, or else they drop the packet. */
static __always_inline __u32 least_header(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return sizeof(struct tcphdr);
	case IPPROTO_UDP:
		return sizeof(struct udphdr);
	}
	return 4;
}

/* Looks up the rows of what a packet's headers say; false if only Linux can read them. */
static __always_inline bool rules_read(const struct packet *p, bool v6, struct rule_work *work)
{
	const volatile struct bora_rule_field *fields = rules[v6].fields;
	const __be16 *words = v6 ? (void *)(p->ip6 + 1) : (void *)(p->ip4 + 1);
	__u8 protocol = v6 ? p->ip6->nexthdr : p->ip4->protocol;
	__u32 headers = (v6 ? sizeof(*p->ip6) : sizeof(*p->ip4)) + least_header(protocol);
	__u32 first = 0x10000, second = 0x10000; /* NO_WORD */

	if (v6 && has_extension(p))
		return false;
	if (fields[2].nodes)
		work->rows[2] = rule_row(v6, 2, protocol);
	if (!fields[3].nodes && !fields[4].nodes)
		return true;
	if (v6 || !(p->ip4->frag_off & bpf_htons(IP_FRAGMENT_OFFSET))) {
		if ((void *)(words + 2) > p->end || headers > p->l3_length)
			return false;
		first = bpf_ntohs(words[0]);
		second = bpf_ntohs(words[1]);
	}
	if (fields[3].nodes)
		work->rows[3] = rule_row(v6, 3, first);
	if (fields[4].nodes)
		work->rows[4] = rule_row(v6, 4, second);
	return true;
}

/* Looks up the rows of a packet's addresses. */
static __always_inline void rules_read_addresses(const struct packet *p, bool v6, struct rule_work *work)
{
	const volatile struct bora_rule_field *fields = rules[v6].fields;

	if (!v6) {
		if (fields[0].nodes)
			work->rows[0] = rule_row(0, 0, bpf_ntohl(p->ip4->saddr));
		if (fields[1].nodes)
			work->rows[1] = rule_row(0, 1, bpf_ntohl(p->ip4->daddr));
		return;
	}
	if (fields[0].nodes)
		work->rows[0] = rule_row6(0, be64(p->ip6->saddr.in6_u.u6_addr32), be64(p->ip6->saddr.in6_u.u6_addr32 + 2));
	if (fields[1].nodes)
		work->rows[1] = rule_row6(1, be64(p->ip6->daddr.in6_u.u6_addr32), be64(p->ip6->daddr.in6_u.u6_addr32 + 2));
}

/* Forgets the last packet. */
static __always_inline void rules_begin(struct rule_work *work)
{
#pragma unroll
	for (int field = 0; field < BORA_RULE_FIELDS; field++)
		work->rows[field] = RULE_NONE;
	work->steps = 0;
	work->untracked = 0;
}

/* Follows a packet through all base chains; its rows are known. */
static __always_inline int rules_follow(bool v6, bool has_output)
{
	__u32 count = rules[v6].base_count;
	int said = RULES_FORWARD;

	for (__u32 base = 0; base < BORA_RULE_BASES && base < count && said == RULES_FORWARD; base++) {
		said = rules_base(v6, base);
		if (said == RULES_DROP && !has_output && (rules[v6].bases[base] >> 16 & BORA_RULE_BASE_ROUTED))
			said = RULES_LINUX;
	}
	return said;
}

/*
 * Whether there are rules to follow for packets that come in by a port. Those who ask the program compare it with what Linux says of routes,
 * which knows no rules.
 */
static __always_inline bool has_rules(const struct bora_port *in, bool v6)
{
	return !asked && rules[v6].base_count && !(in->flags & BORA_PORT_BYPASS_NETFILTER);
}

/*
 * What the rules say of a packet that passes from an interface to another; `out` is BORA_MAX_INTERFACES where that is not known yet: then
 * only what is dropped in front of the route is RULES_DROP.
 */
static __always_inline int rules_decide(const struct packet *p, bool v6, const struct bora_port *in, __u32 out)
{
	struct rule_work *work = rule_work();
	bool has_output = out != BORA_MAX_INTERFACES;
	int said;

	if (!work)
		return RULES_LINUX;
	rules_begin(work);
	if (!rules_read(p, v6, work) || (rules[v6].fields[6].nodes && !has_output))
		return RULES_LINUX;
	rules_read_addresses(p, v6, work);
	if (rules[v6].fields[5].nodes)
		work->rows[5] = rule_row(v6, 5, in->index);
	if (rules[v6].fields[6].nodes)
		work->rows[6] = rule_row(v6, 6, out);
	said = rules_follow(v6, has_output);
	if (said != RULES_LINUX)
		rules_count(v6, p->l3_length);
	return said;
}

/* Follows a packet with these values, so that tests can compare what comes out. */
SEC("syscall")
int ask_rules(struct bora_rules_question *question)
{
	struct rule_work *work = rule_work();
	__u32 v6 = question->v6 != 0;
	int said;

	if (!work)
		return RULES_LINUX;
	rules_begin(work);
	for (__u32 field = 0; field < BORA_RULE_FIELDS; field++) {
		__u32 value = field < 2 ? question->addresses[field][1] : question->words[(field - 2) & 7];

		if (!rules[v6].fields[field].nodes)
			continue;
		work->rows[field] = v6 && field < 2 ? rule_row6(field, question->addresses[field][0], question->addresses[field][1])
						    : rule_row(v6, field, value);
	}
	said = v6 ? rules_follow(true, true) : rules_follow(false, true);
	question->steps = work->steps;
	__builtin_memcpy(question->path, work->path, sizeof(question->path));
	return said;
}

#endif
