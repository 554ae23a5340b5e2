/* SPDX-License-Identifier: GPL-2.0 */
/* Between the copy of Linux's routes and the choice of those for the fast path. */
#ifndef HERO_FIB_H
#define HERO_FIB_H

#include <linux/inetdevice.h>
#include <linux/rbtree.h>
#include <net/ip_fib.h>
#include <net/neighbour.h>

#include "hero.h"

#define HERO_PREFIXES		33

/* What Linux has for a prefix in a table. */
struct hero_fib_entry {
	struct rb_node node;	/* by address, length, table */
	struct list_head list;	/* the candidates of its length */
	struct fib_info *info;
	u32 dst;
	u8 len;
	u8 type;
	dscp_t dscp;
	u32 table;
	struct list_head marked;	/* where Linux shows it as offloaded */
	u32 gathering;		/* number of the last one that looked at it */
};

/* A route that may have slots. */
struct hero_choice {
	struct hero_fib_entry *entry;
	struct hero *to;
	__be32 gateway;
	u8 mac[ETH_ALEN];
	bool used;
};

/* The copy, the choices, and what is offloaded; hero_offload_look() takes it by itself. */
extern spinlock_t hero_fib_lock;
/* Routes through a neighbour behind a card, by length. */
extern struct list_head hero_fib_candidates[HERO_PREFIXES];
extern struct hero_choice hero_choices[HERO_CHOICES];

static inline u32 hero_fib_mask(u8 len)
{
	return be32_to_cpu(inet_make_mask(len));
}

static inline bool hero_fib_inside(u32 dst, u8 len, u32 outer, u8 outer_len)
{
	return len >= outer_len && !((dst ^ outer) & hero_fib_mask(outer_len));
}

/* hero_fib.c */
bool hero_fib_allowed(void);
bool hero_fib_is_alone(struct hero_fib_entry *entry);
struct hero_fib_entry *hero_fib_candidate(u32 dst, u8 len);
struct hero_fib_entry *hero_fib_lookup(u32 address);

/* hero_plain.c */
bool hero_linux_is_plain(struct net *net, bool ip6);
bool hero_device_is_plain(struct net_device *dev);
bool hero_may_come_in(struct hero *hero);
bool hero_may_go_out(struct hero *hero);

/* hero_policy.c */
unsigned int hero_policy_gather(void);
void hero_policy_pick(struct hero *from, unsigned int count);

/* hero_rate.c */
u32 hero_rate_of(const struct hero *hero, u32 dst, u8 len);
void hero_rate_update(struct hero *hero);
void hero_rate_measure(struct hero *hero, bool on);

/* hero_offload.c */
bool hero_neighbour_is_good(struct neighbour *neighbour);
bool hero_neighbour_mac(struct neigh_table *table, const void *address, struct net_device *dev,
			u8 *mac);
void hero_neighbour_keep(struct neigh_table *table, const void *address, struct net_device *dev);
bool hero_offload_has(const struct hero *from, const struct hero_choice *choice);
void hero_offload_look(struct work_struct *work);
void hero_offload_clear_prefix(u32 dst, u8 len);
void hero_offload_clear_neighbour(struct neighbour *neighbour);
void hero_offload_clear_card(struct hero *hero);
void hero_offload_clear_all(void);

#endif /* HERO_FIB_H */
