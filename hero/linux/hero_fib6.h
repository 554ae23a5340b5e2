/* SPDX-License-Identifier: GPL-2.0 */
/* Between the copy of Linux's IPv6 routes and the choice of those for the fast path. */
#ifndef HERO_FIB6_H
#define HERO_FIB6_H

#include <net/ip6_fib.h>

#include "hero_fib.h"

#define HERO_PREFIXES6		129

#if IS_ENABLED(CONFIG_IPV6)

/* What Linux has for a prefix in a table. One that asks for a source, too, is another entry. */
struct hero_fib6_entry {
	struct rb_node node;	/* by address, length, length of the source's prefix, source, table */
	struct list_head list;	/* the candidates of its length */
	struct fib6_info *info;
	struct in6_addr dst;
	struct in6_addr src;
	u8 len;
	u8 src_len;
	u32 table;
	int paths;		/* its next hops */
};

/* Routes through a neighbour behind a card, by length. Under hero_fib_lock, as all of this. */
extern struct list_head hero_fib6_candidates[HERO_PREFIXES6];

static inline bool hero_fib6_inside(const struct in6_addr *dst, u8 len,
				    const struct in6_addr *outer, u8 outer_len)
{
	return len >= outer_len && ipv6_prefix_equal(dst, outer, outer_len);
}

/* hero_fib6.c */
void hero_fib6_init(void);
bool hero_fib6_allowed(void);
bool hero_fib6_is_alone(struct hero_fib6_entry *entry);
void hero_fib6_event(unsigned long event, struct fib_notifier_info *info);
void hero_fib6_flush(void);

/* hero_offload6.c */
void hero_offload6_choose(void);
void hero_offload6_mark(void);
void hero_offload6_clear_prefix(const struct in6_addr *dst, u8 len);
void hero_offload6_clear_neighbour(struct neighbour *neighbour);
void hero_offload6_clear_card(struct hero *hero);
void hero_offload6_clear_all(void);

#else

static inline void hero_fib6_init(void) { }
static inline void hero_fib6_event(unsigned long event, struct fib_notifier_info *info) { }
static inline void hero_fib6_flush(void) { }
static inline void hero_offload6_choose(void) { }
static inline void hero_offload6_mark(void) { }
static inline void hero_offload6_clear_neighbour(struct neighbour *neighbour) { }
static inline void hero_offload6_clear_card(struct hero *hero) { }

#endif

#endif /* HERO_FIB6_H */
