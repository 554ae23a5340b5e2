// SPDX-License-Identifier: GPL-2.0
/* A copy of Linux's IPv6 routes, kept by the notifier of hero_fib.c as that of IPv4's. */

#include <net/fib_notifier.h>
#include <net/fib_rules.h>

#include "hero_fib6.h"

#if IS_ENABLED(CONFIG_IPV6)

struct list_head hero_fib6_candidates[HERO_PREFIXES6];

static struct rb_root hero_fib6_tree = RB_ROOT;
/* Entries of the local table by length. */
static u32 hero_fib6_locals[HERO_PREFIXES6];
/* Rules that are not Linux's own. */
static unsigned int hero_fib6_rules;
/* There was no memory for a route, so the copy is not complete. */
static bool hero_fib6_broken;

void hero_fib6_init(void)
{
	unsigned int len;

	for (len = 0; len < HERO_PREFIXES6; len++)
		INIT_LIST_HEAD(&hero_fib6_candidates[len]);
}

/* A card has one table and looks at the destination alone. */
bool hero_fib6_allowed(void)
{
	return !hero_fib6_rules && !hero_fib6_broken;
}

static int hero_fib6_compare(const struct hero_fib6_entry *a, const struct hero_fib6_entry *b)
{
	int order = memcmp(&a->dst, &b->dst, sizeof(a->dst));

	if (order)
		return order;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	if (a->src_len != b->src_len)
		return a->src_len < b->src_len ? -1 : 1;
	order = memcmp(&a->src, &b->src, sizeof(a->src));
	if (order)
		return order;
	return a->table == b->table ? 0 : a->table < b->table ? -1 : 1;
}

/* The entry with a key, or NULL and where it would be. */
static struct hero_fib6_entry *hero_fib6_find(const struct hero_fib6_entry *key,
					      struct rb_node **parent, struct rb_node ***place)
{
	struct rb_node **link = &hero_fib6_tree.rb_node;

	*parent = NULL;
	while (*link) {
		struct hero_fib6_entry *entry = rb_entry(*link, struct hero_fib6_entry, node);
		int order = hero_fib6_compare(entry, key);

		if (!order)
			return entry;
		*parent = *link;
		link = order < 0 ? &(*link)->rb_right : &(*link)->rb_left;
	}
	*place = link;
	return NULL;
}

/* Whether a packet to the prefix always meets this entry: there is nothing more specific, and Linux
 * looks into the local table first.
 */
bool hero_fib6_is_alone(struct hero_fib6_entry *entry)
{
	struct hero_fib6_entry key = { .table = RT6_TABLE_LOCAL };
	struct rb_node *node = rb_next(&entry->node), *parent, **place;

	/* what is inside follows */
	if (node) {
		struct hero_fib6_entry *next = rb_entry(node, struct hero_fib6_entry, node);

		if (hero_fib6_inside(&next->dst, next->len, &entry->dst, entry->len))
			return false;
	}
	for (key.len = 0; key.len < entry->len; key.len++) {
		ipv6_addr_prefix(&key.dst, &entry->dst, key.len);
		if (hero_fib6_locals[key.len] && hero_fib6_find(&key, &parent, &place))
			return false;
	}
	return true;
}

/* Whether it leads through one neighbour behind a card, and nothing but the destination matters.
 * Nexthop objects change without a word about the routes.
 */
static bool hero_fib6_is_candidate(const struct hero_fib6_entry *entry)
{
	const struct fib6_info *info = entry->info;
	const struct fib_nh_common *hop;

	if (info->fib6_type != RTN_UNICAST || entry->table != RT6_TABLE_MAIN || entry->src_len ||
	    info->nh || info->fib6_nsiblings ||
	    ipv6_addr_type(&entry->dst) & (IPV6_ADDR_MULTICAST | IPV6_ADDR_LINKLOCAL))
		return false;
	hop = &info->fib6_nh[0].nh_common;
	return hop->nhc_gw_family == AF_INET6 && !hop->nhc_lwtstate && hop->nhc_dev &&
	       hero_is_hero(hop->nhc_dev);
}

static void hero_fib6_remove(struct hero_fib6_entry *entry)
{
	if (entry->table == RT6_TABLE_LOCAL)
		hero_fib6_locals[entry->len]--;
	rb_erase(&entry->node, &hero_fib6_tree);
	list_del(&entry->list);
	fib6_info_release(entry->info);
	kfree(entry);
}

static struct hero_fib6_entry *hero_fib6_insert(const struct hero_fib6_entry *key)
{
	struct rb_node *parent, **place;
	struct hero_fib6_entry *entry = hero_fib6_find(key, &parent, &place);

	if (entry) {
		fib6_info_release(entry->info);
		list_del_init(&entry->list);
		return entry;
	}
	entry = kmemdup(key, sizeof(*key), GFP_ATOMIC);
	if (!entry)
		return NULL;
	INIT_LIST_HEAD(&entry->list);
	rb_link_node(&entry->node, parent, place);
	rb_insert_color(&entry->node, &hero_fib6_tree);
	if (entry->table == RT6_TABLE_LOCAL)
		hero_fib6_locals[entry->len]++;
	return entry;
}

/* The first route of a prefix and table is another one, or the first one. */
static void hero_fib6_replace(const struct hero_fib6_entry *key, struct fib6_info *info, int paths)
{
	struct hero_fib6_entry *entry = hero_fib6_insert(key);

	if (!entry) {
		if (!hero_fib6_broken)
			pr_err("hero: no memory for a route of IPv6, so it has no fast path\n");
		hero_fib6_broken = true;
		hero_offload6_clear_all();
		return;
	}
	fib6_info_hold(info);
	entry->info = info;
	entry->paths = paths;
	if (paths == 1 && hero_fib6_is_candidate(entry))
		list_add_tail(&entry->list, &hero_fib6_candidates[entry->len]);
}

static void hero_fib6_entry_event(unsigned long event, const struct fib6_entry_notifier_info *told)
{
	struct fib6_info *info = told->rt;
	struct hero_fib6_entry *entry, key = {
		.dst = info->fib6_dst.addr,
		.src = info->fib6_src.addr,
		.len = info->fib6_dst.plen,
		.src_len = info->fib6_src.plen,
		.table = info->fib6_table->tb6_id,
	};
	struct rb_node *parent, **place;
	int paths = 1 + told->nsiblings;

	/* without rules of its own, Linux looks into no other table */
	if (key.table != RT6_TABLE_LOCAL && key.table != RT6_TABLE_MAIN)
		return;
	hero_offload6_clear_prefix(&key.dst, key.len);
	entry = hero_fib6_find(&key, &parent, &place);
	if (event == FIB_EVENT_ENTRY_REPLACE || !entry) {
		if (event != FIB_EVENT_ENTRY_DEL)
			hero_fib6_replace(&key, info, paths);
		return;
	}
	/* What has had several paths is no candidate until Linux tells it anew, because `info` may
	 * be of a path that is gone.
	 */
	entry->paths += event == FIB_EVENT_ENTRY_DEL ? -paths : paths;
	list_del_init(&entry->list);
	if (entry->paths <= 0)
		hero_fib6_remove(entry);
}

static void hero_fib6_rule_event(unsigned long event, const struct fib_rule_notifier_info *told)
{
	if (fib6_rule_default(told->rule))
		return;
	if (event == FIB_EVENT_RULE_ADD) {
		hero_fib6_rules++;
		hero_offload6_clear_all();
	} else if (hero_fib6_rules) {
		hero_fib6_rules--;
	}
}

/* Under hero_fib_lock. */
void hero_fib6_event(unsigned long event, struct fib_notifier_info *info)
{
	switch (event) {
	case FIB_EVENT_ENTRY_REPLACE:
	case FIB_EVENT_ENTRY_APPEND:
	case FIB_EVENT_ENTRY_DEL:
		hero_fib6_entry_event(event,
				      container_of(info, struct fib6_entry_notifier_info, info));
		break;
	case FIB_EVENT_RULE_ADD:
	case FIB_EVENT_RULE_DEL:
		hero_fib6_rule_event(event,
				     container_of(info, struct fib_rule_notifier_info, info));
		break;
	}
}

/* Forgets all, under hero_fib_lock. */
void hero_fib6_flush(void)
{
	struct rb_node *node;

	hero_offload6_clear_all();
	while ((node = rb_first(&hero_fib6_tree)))
		hero_fib6_remove(rb_entry(node, struct hero_fib6_entry, node));
	hero_fib6_rules = 0;
	hero_fib6_broken = false;
}

#endif
