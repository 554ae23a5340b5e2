// SPDX-License-Identifier: GPL-2.0
/* Which routes of IPv6 are on the fast path of which cards, as hero_offload.c does it for IPv4. They
 * have slots of their own, each of which can lead to any peer.
 */

#include <linux/netfilter_ipv6.h>
#include <net/addrconf.h>
#include <net/ndisc.h>

#include "hero_fib6.h"

#if IS_ENABLED(CONFIG_IPV6)

/* Candidates that are looked at, and places for all cards of a bus. */
#define HERO_OFFLOAD6_LOOKS 2048
#define HERO_OFFLOAD6_MOST (HERO_CARDS * HERO_MAX_ROUTES6)

/* A route in a slot of a card. */
struct hero_offload6 {
	struct list_head list;
	struct hero *from;
	struct hero *to;
	unsigned int slot;
	struct in6_addr dst;
	struct in6_addr gateway;
	u8 len;
	u8 mac[ETH_ALEN];
};

/* A route that may have slots. `info` is held while `used`. */
struct hero_choice6 {
	struct fib6_info *info;
	struct hero *to;
	struct in6_addr dst;
	struct in6_addr gateway;
	u8 len;
	u8 mac[ETH_ALEN];
	bool used;
};

static LIST_HEAD(hero_offloads6);
static struct hero_choice6 hero_choices6[HERO_OFFLOAD6_MOST];
static unsigned int hero_choices6_count;
/* Routes that `ip -6 route` shows as offloaded; held. */
static struct fib6_info *hero_marked6[HERO_OFFLOAD6_MOST];

static void hero_offload6_clear(struct hero_offload6 *offload)
{
	hero_card_clear_route6(offload->from, offload->slot);
	list_del(&offload->list);
	kfree(offload);
}

/* What was said of a prefix concerns the offloaded one around it. */
void hero_offload6_clear_prefix(const struct in6_addr *dst, u8 len)
{
	struct hero_offload6 *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads6, list) {
		if (hero_fib6_inside(dst, len, &offload->dst, offload->len))
			hero_offload6_clear(offload);
	}
}

/* It is gone, or is somewhere else. */
void hero_offload6_clear_neighbour(struct neighbour *neighbour)
{
	const struct in6_addr *address = (const struct in6_addr *)neighbour->primary_key;
	struct hero_offload6 *offload, *next;
	u8 mac[MAX_ADDR_LEN];

	if (neighbour->tbl != &nd_tbl)
		return;
	neigh_ha_snapshot(mac, neighbour, neighbour->dev);
	list_for_each_entry_safe(offload, next, &hero_offloads6, list) {
		if (offload->to->dev == neighbour->dev &&
		    ipv6_addr_equal(&offload->gateway, address) &&
		    !(hero_neighbour_is_good(neighbour) && ether_addr_equal(mac, offload->mac)))
			hero_offload6_clear(offload);
	}
}

void hero_offload6_clear_card(struct hero *hero)
{
	struct hero_offload6 *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads6, list) {
		if (offload->from == hero || offload->to == hero)
			hero_offload6_clear(offload);
	}
}

void hero_offload6_clear_all(void)
{
	struct hero_offload6 *offload, *next;

	list_for_each_entry_safe(offload, next, &hero_offloads6, list)
		hero_offload6_clear(offload);
}

/* Whether Linux forwards packets that come in at a card, and does nothing else to them. */
static bool hero_may_come_in6(struct hero *hero)
{
	struct inet6_dev *in6_dev = __in6_dev_get(hero->dev);

	return test_bit(HERO_UP, &hero->flags) && hero->fast_path &&
	       hero_device_is_plain(hero->dev) && in6_dev &&
	       !READ_ONCE(in6_dev->cnf.disable_ipv6) && !rtnl_dereference(hero->xdp);
}

static bool hero_may_go_out6(struct hero *hero)
{
	struct inet6_dev *in6_dev = __in6_dev_get(hero->dev);

	return hero_may_go_out(hero) && in6_dev && !READ_ONCE(in6_dev->cnf.disable_ipv6) &&
	       READ_ONCE(in6_dev->cnf.mtu6) >= HERO_MTU;
}

/* Whether Linux forwards, and does nothing else. With proxies for neighbours it would have to look
 * at each destination.
 */
static bool hero_linux_is_plain6(struct net *net)
{
	return READ_ONCE(net->ipv6.devconf_all->forwarding) &&
	       !READ_ONCE(net->ipv6.devconf_all->proxy_ndp) && hero_linux_is_plain(net, true);
}

/* Whether a route may be on the fast path, and how. One that is not the only one of its prefix, and
 * one with an end, may give way to another without a word.
 */
static bool hero_offload6_may(struct hero_fib6_entry *entry, struct hero_choice6 *choice)
{
	struct fib6_info *info = entry->info;
	const struct fib_nh_common *hop = &info->fib6_nh[0].nh_common;

	choice->info = info;
	choice->to = netdev_priv(hop->nhc_dev);
	choice->dst = entry->dst;
	choice->len = entry->len;
	choice->gateway = hop->nhc_gw.ipv6;
	choice->used = false;
	if (hop->nhc_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) ||
	    READ_ONCE(info->fib6_flags) & RTF_EXPIRES || rcu_access_pointer(info->fib6_next) ||
	    (info->fib6_pmtu && info->fib6_pmtu < HERO_MTU) || !hero_may_go_out6(choice->to) ||
	    !hero_fib6_is_alone(entry))
		return false;
	return hero_neighbour_mac(&nd_tbl, &choice->gateway, hop->nhc_dev, choice->mac);
}

/* The shortest prefixes first, because most packets meet them. */
static unsigned int hero_offload6_gather(void)
{
	unsigned int count = 0, looks = 0, len;
	struct hero_fib6_entry *entry;

	if (!hero_fib6_allowed() || !hero_linux_is_plain6(&init_net))
		return 0;
	for (len = 0; len < HERO_PREFIXES6; len++) {
		list_for_each_entry(entry, &hero_fib6_candidates[len], list) {
			if (count == HERO_OFFLOAD6_MOST || looks++ == HERO_OFFLOAD6_LOOKS)
				return count;
			count += hero_offload6_may(entry, &hero_choices6[count]);
		}
	}
	return count;
}

static bool hero_offload6_is(const struct hero_offload6 *offload, const struct hero *from,
			     const struct hero_choice6 *choice)
{
	return offload->from == from && offload->to == choice->to &&
	       offload->len == choice->len && ipv6_addr_equal(&offload->dst, &choice->dst) &&
	       ipv6_addr_equal(&offload->gateway, &choice->gateway) &&
	       ether_addr_equal(offload->mac, choice->mac);
}

/* The number of a card among a card's peers, or HERO_PEERS. */
static unsigned int hero_offload6_peer(const struct hero *from, const struct hero *to)
{
	unsigned int d;

	for (d = 0; d < HERO_PEERS; d++) {
		if (from->peers[d] == to->pdev && from->peer_base[d])
			return d;
	}
	return HERO_PEERS;
}

/* Whether a choice is among the first that a card has slots for. */
static bool hero_offload6_has_place(const struct hero *from, unsigned int index)
{
	unsigned int places = from->routes6, k;

	for (k = 0; k < index && places; k++)
		places -= hero_offload6_peer(from, hero_choices6[k].to) < HERO_PEERS;
	return places && hero_offload6_peer(from, hero_choices6[index].to) < HERO_PEERS;
}

/* Whether a slot's route is still one of the first choices for its card. */
static bool hero_offload6_is_chosen(const struct hero_offload6 *offload)
{
	unsigned int k;

	for (k = 0; k < hero_choices6_count; k++) {
		if (hero_offload6_is(offload, offload->from, &hero_choices6[k]))
			return hero_may_come_in6(offload->from) &&
			       hero_offload6_has_place(offload->from, k);
	}
	return false;
}

/* Gives a route a free slot of a card; false if there is none, or no memory. */
static bool hero_offload6_set(struct hero *from, const struct hero_choice6 *choice)
{
	struct hero_offload6 *offload = kzalloc(sizeof(*offload), GFP_ATOMIC);
	unsigned int slot = 0;

	while (slot < from->routes6 && from->route6[slot].on)
		slot++;
	if (!offload || slot == from->routes6) {
		kfree(offload);
		return false;
	}
	offload->from = from;
	offload->to = choice->to;
	offload->slot = slot;
	offload->dst = choice->dst;
	offload->len = choice->len;
	offload->gateway = choice->gateway;
	ether_addr_copy(offload->mac, choice->mac);
	list_add_tail(&offload->list, &hero_offloads6);
	hero_card_set_route6(from, slot, &choice->dst, choice->len,
			     hero_offload6_peer(from, choice->to), choice->mac);
	return true;
}

static void hero_offload6_fill(struct hero *from)
{
	struct hero_offload6 *offload;
	unsigned int k;

	for (k = 0; k < hero_choices6_count; k++) {
		struct hero_choice6 *choice = &hero_choices6[k];
		bool there = false;

		if (!hero_offload6_has_place(from, k))
			continue;
		list_for_each_entry(offload, &hero_offloads6, list)
			there |= hero_offload6_is(offload, from, choice);
		choice->used |= there || hero_offload6_set(from, choice);
	}
}

/* Chooses the routes anew, under the lock. What is wrong goes before what is right comes. */
void hero_offload6_choose(void)
{
	struct hero_offload6 *offload, *next;
	struct hero *from;
	unsigned int k;

	hero_choices6_count = hero_offload6_gather();
	list_for_each_entry_safe(offload, next, &hero_offloads6, list) {
		if (!hero_offload6_is_chosen(offload))
			hero_offload6_clear(offload);
	}
	list_for_each_entry(from, &hero_cards, list) {
		if (hero_may_come_in6(from))
			hero_offload6_fill(from);
	}
	for (k = 0; k < hero_choices6_count; k++) {
		if (hero_choices6[k].used)
			fib6_info_hold(hero_choices6[k].info);
	}
}

static bool hero_offload6_is_used(const struct fib6_info *info)
{
	unsigned int k;

	for (k = 0; k < hero_choices6_count; k++) {
		if (hero_choices6[k].used && hero_choices6[k].info == info)
			return true;
	}
	return false;
}

/* Shows in `ip -6 route` which routes are offloaded, and has Linux keep their neighbours, to which
 * it sees no packets. Without the lock, because it may wait for memory.
 */
void hero_offload6_mark(void)
{
	unsigned int k, marked = 0;

	for (k = 0; k < HERO_OFFLOAD6_MOST && hero_marked6[k]; k++) {
		if (!hero_offload6_is_used(hero_marked6[k]))
			fib6_info_hw_flags_set(&init_net, hero_marked6[k], false, false, false);
		fib6_info_release(hero_marked6[k]);
		hero_marked6[k] = NULL;
	}
	for (k = 0; k < hero_choices6_count; k++) {
		const struct hero_choice6 *choice = &hero_choices6[k];

		if (!choice->used)
			continue;
		fib6_info_hw_flags_set(&init_net, choice->info, true, false, false);
		hero_marked6[marked++] = choice->info;
		hero_neighbour_keep(&nd_tbl, &choice->gateway, choice->to->dev);
	}
	hero_choices6_count = 0;
}

#endif
