// SPDX-License-Identifier: GPL-2.0
/* A copy of Linux's IPv4 routes (hero_fib6.c: IPv6), kept by its notifiers. What they say takes
 * routes off the fast path at once, and has the routes chosen anew soon.
 *
 * It is that of the initial network namespace; cards elsewhere have no fast path.
 */

#include <net/arp.h>
#include <net/fib_notifier.h>
#include <net/fib_rules.h>
#include <net/netevent.h>

#include "hero_fib6.h"

/* So long changes are gathered. */
#define HERO_FIB_SOON (HZ / 10)
/* So often is looked at what no notifier tells: forwarding, rp_filter, filters. */
#define HERO_FIB_TICK HZ

DEFINE_SPINLOCK(hero_fib_lock);
struct list_head hero_fib_candidates[HERO_PREFIXES];

static struct rb_root hero_fib_tree = RB_ROOT;
/* Entries of the local and the main table by length. */
static u32 hero_fib_locals[HERO_PREFIXES];
static u32 hero_fib_mains[HERO_PREFIXES];
/* Rules that are not Linux's own. */
static unsigned int hero_fib_rules;
/* There was no memory for a route, so the copy is not complete. */
static bool hero_fib_broken;

static DECLARE_DELAYED_WORK(hero_fib_soon, hero_offload_look);
static void hero_fib_tick_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(hero_fib_tick, hero_fib_tick_work);

void hero_fib_look(void)
{
	queue_delayed_work(hero_queue, &hero_fib_soon, HERO_FIB_SOON);
}

static void hero_fib_tick_work(struct work_struct *work)
{
	if (!list_empty(&hero_cards))
		hero_fib_look();
	queue_delayed_work(hero_queue, &hero_fib_tick, HERO_FIB_TICK);
}

void hero_fib_card_down(struct hero *hero)
{
	spin_lock_bh(&hero_fib_lock);
	hero_offload_clear_card(hero);
	hero_offload6_clear_card(hero);
	spin_unlock_bh(&hero_fib_lock);
}

/* A card has one table and looks at the destination alone. */
bool hero_fib_allowed(void)
{
	return !hero_fib_rules && !hero_fib_broken;
}

static int hero_fib_compare(const struct hero_fib_entry *entry, u32 dst, u8 len, u32 table)
{
	if (entry->dst != dst)
		return entry->dst < dst ? -1 : 1;
	if (entry->len != len)
		return entry->len < len ? -1 : 1;
	if (entry->table != table)
		return entry->table < table ? -1 : 1;
	return 0;
}

/* The entry, or NULL and where it would be. */
static struct hero_fib_entry *hero_fib_find(u32 dst, u8 len, u32 table, struct rb_node **parent,
					    struct rb_node ***place)
{
	struct rb_node **link = &hero_fib_tree.rb_node;

	*parent = NULL;
	while (*link) {
		struct hero_fib_entry *entry = rb_entry(*link, struct hero_fib_entry, node);
		int order = hero_fib_compare(entry, dst, len, table);

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
bool hero_fib_is_alone(struct hero_fib_entry *entry)
{
	struct rb_node *node = rb_next(&entry->node), *parent, **place;
	u8 len;

	/* what is inside follows */
	if (node) {
		struct hero_fib_entry *next = rb_entry(node, struct hero_fib_entry, node);

		if (hero_fib_inside(next->dst, next->len, entry->dst, entry->len))
			return false;
	}
	for (len = 0; len < entry->len; len++) {
		if (hero_fib_locals[len] && hero_fib_find(entry->dst & hero_fib_mask(len), len,
							  RT_TABLE_LOCAL, &parent, &place))
			return false;
	}
	return true;
}

/* The candidate of a prefix, if it has one. */
struct hero_fib_entry *hero_fib_candidate(u32 dst, u8 len)
{
	struct rb_node *parent, **place;
	struct hero_fib_entry *entry;

	entry = hero_fib_find(dst, len, RT_TABLE_MAIN, &parent, &place);
	return entry && !list_empty(&entry->list) ? entry : NULL;
}

/* The candidate that an address meets in the main table, if that is what it meets. */
struct hero_fib_entry *hero_fib_lookup(u32 address)
{
	struct rb_node *parent, **place;
	struct hero_fib_entry *entry;
	int len;

	for (len = HERO_PREFIXES - 1; len >= 0; len--) {
		if (!hero_fib_mains[len])
			continue;
		entry = hero_fib_find(address & hero_fib_mask(len), len, RT_TABLE_MAIN, &parent,
				      &place);
		if (entry)
			return list_empty(&entry->list) ? NULL : entry;
	}
	return NULL;
}

/* Whether it leads through one neighbour behind a card, and nothing but the destination matters.
 * Nexthop objects change without a word about the routes.
 */
static bool hero_fib_is_candidate(const struct hero_fib_entry *entry)
{
	const struct fib_info *info = entry->info;
	const struct fib_nh_common *hop;

	if (entry->type != RTN_UNICAST || entry->table != RT_TABLE_MAIN || entry->dscp ||
	    info->nh || info->fib_nhs != 1)
		return false;
	hop = &info->fib_nh[0].nh_common;
	return hop->nhc_gw_family == AF_INET && !hop->nhc_lwtstate && hop->nhc_dev &&
	       hero_is_hero(hop->nhc_dev);
}

static void hero_fib_count(u32 table, u8 len, int more)
{
	if (table == RT_TABLE_LOCAL)
		hero_fib_locals[len] += more;
	else if (table == RT_TABLE_MAIN)
		hero_fib_mains[len] += more;
}

static void hero_fib_remove(struct hero_fib_entry *entry)
{
	hero_fib_count(entry->table, entry->len, -1);
	rb_erase(&entry->node, &hero_fib_tree);
	list_del(&entry->list);
	list_del(&entry->marked);
	fib_info_put(entry->info);
	kfree(entry);
}

static struct hero_fib_entry *hero_fib_insert(u32 dst, u8 len, u32 table)
{
	struct rb_node *parent, **place;
	struct hero_fib_entry *entry = hero_fib_find(dst, len, table, &parent, &place);

	if (entry) {
		fib_info_put(entry->info);
		list_del_init(&entry->list);
		return entry;
	}
	entry = kzalloc(sizeof(*entry), GFP_ATOMIC);
	if (!entry)
		return NULL;
	entry->dst = dst;
	entry->len = len;
	entry->table = table;
	INIT_LIST_HEAD(&entry->list);
	INIT_LIST_HEAD(&entry->marked);
	rb_link_node(&entry->node, parent, place);
	rb_insert_color(&entry->node, &hero_fib_tree);
	hero_fib_count(table, len, 1);
	return entry;
}

static void hero_fib_replace(const struct fib_entry_notifier_info *told)
{
	struct hero_fib_entry *entry = hero_fib_insert(told->dst, told->dst_len, told->tb_id);

	if (!entry) {
		if (!hero_fib_broken)
			pr_err("hero: no memory for a route, so there is no fast path\n");
		hero_fib_broken = true;
		hero_offload_clear_all();
		return;
	}
	fib_info_hold(told->fi);
	entry->info = told->fi;
	entry->type = told->type;
	entry->dscp = told->dscp;
	list_del_init(&entry->marked);
	if (hero_fib_is_candidate(entry))
		list_add_tail(&entry->list, &hero_fib_candidates[entry->len]);
}

static void hero_fib_entry_event(unsigned long event, const struct fib_entry_notifier_info *told)
{
	struct rb_node *parent, **place;
	struct hero_fib_entry *entry;

	/* without rules of its own, Linux looks into no other table */
	if (told->tb_id != RT_TABLE_LOCAL && told->tb_id != RT_TABLE_MAIN &&
	    told->tb_id != RT_TABLE_DEFAULT)
		return;
	hero_offload_clear_prefix(told->dst, told->dst_len);
	if (event == FIB_EVENT_ENTRY_REPLACE) {
		hero_fib_replace(told);
	} else {
		entry = hero_fib_find(told->dst, told->dst_len, told->tb_id, &parent, &place);
		if (entry)
			hero_fib_remove(entry);
	}
}

static void hero_fib_rule_event(unsigned long event, const struct fib_rule_notifier_info *told)
{
	if (fib4_rule_default(told->rule))
		return;
	if (event == FIB_EVENT_RULE_ADD) {
		hero_fib_rules++;
		hero_offload_clear_all();
	} else if (hero_fib_rules) {
		hero_fib_rules--;
	}
}

static int hero_fib_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct fib_notifier_info *info = data;

	if (info->family == AF_INET6) {
		spin_lock_bh(&hero_fib_lock);
		hero_fib6_event(event, info);
		spin_unlock_bh(&hero_fib_lock);
		hero_fib_look();
		return NOTIFY_DONE;
	}
	if (info->family != AF_INET)
		return NOTIFY_DONE;
	spin_lock_bh(&hero_fib_lock);
	switch (event) {
	case FIB_EVENT_ENTRY_REPLACE:
	case FIB_EVENT_ENTRY_DEL:
		hero_fib_entry_event(event,
				     container_of(info, struct fib_entry_notifier_info, info));
		break;
	case FIB_EVENT_RULE_ADD:
	case FIB_EVENT_RULE_DEL:
		hero_fib_rule_event(event, container_of(info, struct fib_rule_notifier_info, info));
		break;
	}
	spin_unlock_bh(&hero_fib_lock);
	hero_fib_look();
	return NOTIFY_DONE;
}

static int hero_netevent(struct notifier_block *block, unsigned long event, void *data)
{
	struct neighbour *neighbour = data;

	if (event != NETEVENT_NEIGH_UPDATE || !hero_is_hero(neighbour->dev))
		return NOTIFY_DONE;
	spin_lock_bh(&hero_fib_lock);
	if (neighbour->tbl == &arp_tbl)
		hero_offload_clear_neighbour(neighbour);
	else
		hero_offload6_clear_neighbour(neighbour);
	spin_unlock_bh(&hero_fib_lock);
	hero_fib_look();
	return NOTIFY_DONE;
}

/* MTU, addresses, masters, state of cards. */
static int hero_netdev_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);

	if (!hero_is_hero(dev))
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_PRECHANGEMTU:
	case NETDEV_CHANGEUPPER:
	case NETDEV_DOWN:
	case NETDEV_UNREGISTER:
		hero_fib_card_down(netdev_priv(dev));
	}
	hero_fib_look();
	return NOTIFY_DONE;
}

/* Forgets all; before Linux tells it again, or at the end. */
static void hero_fib_flush(struct notifier_block *block)
{
	struct rb_node *node;

	spin_lock_bh(&hero_fib_lock);
	hero_offload_clear_all();
	while ((node = rb_first(&hero_fib_tree)))
		hero_fib_remove(rb_entry(node, struct hero_fib_entry, node));
	hero_fib_rules = 0;
	hero_fib_broken = false;
	hero_fib6_flush();
	spin_unlock_bh(&hero_fib_lock);
}

static struct notifier_block hero_fib_block = { .notifier_call = hero_fib_event };
static struct notifier_block hero_netevent_block = { .notifier_call = hero_netevent };
static struct notifier_block hero_netdev_block = { .notifier_call = hero_netdev_event };

int hero_fib_init(void)
{
	unsigned int len;
	int err;

	for (len = 0; len < HERO_PREFIXES; len++)
		INIT_LIST_HEAD(&hero_fib_candidates[len]);
	hero_fib6_init();
	err = register_netevent_notifier(&hero_netevent_block);
	if (err)
		return err;
	err = register_netdevice_notifier(&hero_netdev_block);
	if (err)
		goto netevent;
	err = register_fib_notifier(&init_net, &hero_fib_block, hero_fib_flush, NULL);
	if (err)
		goto netdev;
	queue_delayed_work(hero_queue, &hero_fib_tick, HERO_FIB_TICK);
	return 0;

netdev:
	unregister_netdevice_notifier(&hero_netdev_block);
netevent:
	unregister_netevent_notifier(&hero_netevent_block);
	cancel_delayed_work_sync(&hero_fib_soon);
	hero_fib_flush(&hero_fib_block);
	return err;
}

void hero_fib_exit(void)
{
	unregister_fib_notifier(&init_net, &hero_fib_block);
	unregister_netdevice_notifier(&hero_netdev_block);
	unregister_netevent_notifier(&hero_netevent_block);
	cancel_delayed_work_sync(&hero_fib_tick);
	cancel_delayed_work_sync(&hero_fib_soon);
	hero_fib_flush(&hero_fib_block);
	hero_offload6_mark();
}
