// SPDX-License-Identifier: GPL-2.0
/* Which routes are on the fast path of which cards. A card takes the first match, not the longest,
 * has few places, and can do nothing but forward; so a route gets a place only where that is what
 * Linux does with all its packets.
 */

#include <linux/rtnetlink.h>
#include <net/arp.h>

#include "hero_fib6.h"

/* A route in a slot of a card. */
struct hero_offload {
	struct list_head list;
	struct hero *from;
	struct hero *to;
	unsigned int slot;
	u32 dst;
	u8 len;
	u8 mac[ETH_ALEN];
	__be32 gateway;
	bool picked;
};

static LIST_HEAD(hero_offloads);
/* Entries that `ip route` shows as offloaded. */
static LIST_HEAD(hero_marked);

static void hero_offload_clear(struct hero_offload *offload)
{
	hero_card_clear_route(offload->from, offload->slot);
	list_del(&offload->list);
	kfree(offload);
}

/* What was said of a prefix concerns the offloaded one around it. */
void hero_offload_clear_prefix(u32 dst, u8 len)
{
	struct hero_offload *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads, list) {
		if (hero_fib_inside(dst, len, offload->dst, offload->len))
			hero_offload_clear(offload);
	}
}

bool hero_neighbour_is_good(struct neighbour *neighbour)
{
	return !neighbour->dead && READ_ONCE(neighbour->nud_state) & NUD_VALID;
}

/* Whether packets can go to a neighbour; then `mac` is its address on the link. */
bool hero_neighbour_mac(struct neigh_table *table, const void *address, struct net_device *dev,
			u8 *mac)
{
	struct neighbour *neighbour = neigh_lookup(table, address, dev);
	u8 longest[MAX_ADDR_LEN];
	bool good;

	if (!neighbour)
		return false;
	good = hero_neighbour_is_good(neighbour);
	neigh_ha_snapshot(longest, neighbour, dev);
	ether_addr_copy(mac, longest);
	neigh_release(neighbour);
	return good && is_valid_ether_addr(mac);
}

/* Linux sees no packets to a neighbour of the fast path, so it is told that it is needed. */
void hero_neighbour_keep(struct neigh_table *table, const void *address, struct net_device *dev)
{
	struct neighbour *neighbour = neigh_lookup(table, address, dev);

	if (neighbour) {
		neigh_event_send(neighbour, NULL);
		neigh_release(neighbour);
	}
}

/* It is gone, or is somewhere else. */
void hero_offload_clear_neighbour(struct neighbour *neighbour)
{
	__be32 address = *(__be32 *)neighbour->primary_key;
	struct hero_offload *offload, *next;
	u8 mac[MAX_ADDR_LEN];

	neigh_ha_snapshot(mac, neighbour, neighbour->dev);
	list_for_each_entry_safe(offload, next, &hero_offloads, list) {
		if (offload->to->dev == neighbour->dev && offload->gateway == address &&
		    !(hero_neighbour_is_good(neighbour) && ether_addr_equal(mac, offload->mac)))
			hero_offload_clear(offload);
	}
}

void hero_offload_clear_card(struct hero *hero)
{
	struct hero_offload *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads, list) {
		if (offload->from == hero || offload->to == hero)
			hero_offload_clear(offload);
	}
}

void hero_offload_clear_all(void)
{
	struct hero_offload *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads, list)
		hero_offload_clear(offload);
}

static void hero_offload_keep_neighbours(unsigned int count)
{
	unsigned int k;

	for (k = 0; k < count; k++) {
		const struct hero_choice *choice = &hero_choices[k];

		if (choice->used)
			hero_neighbour_keep(&arp_tbl, &choice->gateway, choice->to->dev);
	}
}

/* The slot of a card that has a route as chosen. */
static struct hero_offload *hero_offload_find(const struct hero *from,
					      const struct hero_choice *choice)
{
	struct hero_offload *offload;

	list_for_each_entry(offload, &hero_offloads, list) {
		if (offload->from == from && offload->to == choice->to &&
		    offload->dst == choice->entry->dst && offload->len == choice->entry->len &&
		    ether_addr_equal(offload->mac, choice->mac) &&
		    offload->gateway == choice->gateway)
			return offload;
	}
	return NULL;
}

static void hero_offload_set(struct hero *from, unsigned int slot, struct hero_choice *choice)
{
	struct hero_offload *offload = kzalloc(sizeof(*offload), GFP_ATOMIC);

	if (!offload)
		return;
	offload->from = from;
	offload->to = choice->to;
	offload->slot = slot;
	offload->dst = choice->entry->dst;
	offload->len = choice->entry->len;
	offload->gateway = choice->gateway;
	ether_addr_copy(offload->mac, choice->mac);
	list_add_tail(&offload->list, &hero_offloads);
	hero_card_set_route(from, slot, offload->dst, offload->len, offload->mac);
	choice->used = true;
}

bool hero_offload_has(const struct hero *from, const struct hero_choice *choice)
{
	return hero_offload_find(from, choice);
}

/* Takes off a card what is not picked for it. */
static void hero_offload_clear_others(struct hero *from)
{
	struct hero_offload *offload, *next;
	unsigned int k;

	for_each_set_bit(k, from->picked, HERO_CHOICES) {
		offload = hero_offload_find(from, &hero_choices[k]);
		if (offload) {
			offload->picked = true;
			hero_choices[k].used = true;
		}
	}
	list_for_each_entry_safe(offload, next, &hero_offloads, list) {
		if (offload->from != from)
			continue;
		if (!offload->picked)
			hero_offload_clear(offload);
		else
			offload->picked = false;
	}
}

/* A free slot that leads to a card, or as many as there are slots. */
static unsigned int hero_offload_slot(const struct hero *from, const struct hero *to)
{
	unsigned int slot = 0;

	while (slot < from->routes &&
	       (from->route[slot].on || from->peers[slot % HERO_PEERS] != to->pdev))
		slot++;
	return slot;
}

/* Puts on a card what is picked for it and is not there. */
static void hero_offload_set_picked(struct hero *from)
{
	unsigned int slot, k;

	for_each_set_bit(k, from->picked, HERO_CHOICES) {
		if (hero_offload_find(from, &hero_choices[k]))
			continue;
		slot = hero_offload_slot(from, hero_choices[k].to);
		if (slot < from->routes)
			hero_offload_set(from, slot, &hero_choices[k]);
	}
}

/* Shows in `ip route` which ones are offloaded, by one card at least. */
static void hero_offload_mark(struct hero_fib_entry *entry, bool on)
{
	struct fib_rt_info mark = {
		.fi = entry->info,
		.tb_id = entry->table,
		.dst = cpu_to_be32(entry->dst),
		.dst_len = entry->len,
		.dscp = entry->dscp,
		.type = entry->type,
		.offload = on,
	};

	if (list_empty(&entry->marked) != on)
		return;
	if (on)
		list_add(&entry->marked, &hero_marked);
	else
		list_del_init(&entry->marked);
	fib_alias_hw_flags_set(&init_net, &mark);
}

static bool hero_offload_is_used(const struct hero_fib_entry *entry, unsigned int count)
{
	unsigned int k;

	for (k = 0; k < count; k++) {
		if (hero_choices[k].used && hero_choices[k].entry == entry)
			return true;
	}
	return false;
}

static void hero_offload_mark_all(unsigned int count)
{
	struct hero_fib_entry *entry, *next;
	unsigned int k;

	list_for_each_entry_safe(entry, next, &hero_marked, marked) {
		if (!hero_offload_is_used(entry, count))
			hero_offload_mark(entry, false);
	}
	for (k = 0; k < count; k++) {
		if (hero_choices[k].used)
			hero_offload_mark(hero_choices[k].entry, true);
	}
}

/* Chooses the routes anew. What is wrong goes before what is right comes. */
void hero_offload_look(struct work_struct *work)
{
	struct hero *hero;
	unsigned int count;

	rtnl_lock();
	mutex_lock(&hero_cards_lock);
	list_for_each_entry(hero, &hero_cards, list)
		hero_rate_update(hero);
	spin_lock_bh(&hero_fib_lock);
	count = hero_policy_gather();
	list_for_each_entry(hero, &hero_cards, list) {
		hero_policy_pick(hero, count);
		hero_offload_clear_others(hero);
	}
	list_for_each_entry(hero, &hero_cards, list)
		hero_offload_set_picked(hero);
	hero_offload_mark_all(count);
	hero_offload6_choose();
	spin_unlock_bh(&hero_fib_lock);
	hero_offload_keep_neighbours(count);
	hero_offload6_mark();
	mutex_unlock(&hero_cards_lock);
	rtnl_unlock();
}
