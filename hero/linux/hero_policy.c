// SPDX-License-Identifier: GPL-2.0
/* Which routes get the few places of a card: the shortest prefixes, or those that carry most. */

#include <linux/rtnetlink.h>
#include <linux/sort.h>
#include <net/arp.h>

#include "hero_fib.h"

/* Candidates that are looked at for their prefix, and those among them that may be chosen. */
#define HERO_POLICY_LOOKS 2048
#define HERO_POLICY_PREFIXES (HERO_CHOICES / 2)

/* A choice as a card ranks it. */
struct hero_rank {
	u64 score;
	u16 choice;
};

struct hero_choice hero_choices[HERO_CHOICES];
/* Used under hero_fib_lock, and too large for the stack. */
static struct hero_rank hero_ranks[HERO_CHOICES];
/* Number of the gathering, in the entries that it has found. */
static u32 hero_gathering;

/* Addresses that no router forwards. */
static bool hero_is_special(u32 dst, u8 len)
{
	u32 last = dst | ~hero_fib_mask(len);

	return dst < 0x01000000 || last >= 0xe0000000 || (dst < 0x80000000 && last >= 0x7f000000);
}

/* Whether a route may be on the fast path, and how. */
static bool hero_policy_allows(struct hero_fib_entry *entry, struct hero_choice *choice)
{
	const struct fib_nh_common *hop = &entry->info->fib_nh[0].nh_common;
	u32 mtu = entry->info->fib_mtu;

	choice->entry = entry;
	choice->to = netdev_priv(hop->nhc_dev);
	choice->gateway = hop->nhc_gw.ipv4;
	choice->used = false;
	if (hop->nhc_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) || (mtu && mtu < HERO_MTU) ||
	    hero_is_special(entry->dst, entry->len) || !hero_may_go_out(choice->to) ||
	    !hero_fib_is_alone(entry))
		return false;
	return hero_neighbour_mac(&arp_tbl, &choice->gateway, hop->nhc_dev, choice->mac);
}

/* Adds a route that has not been looked at in this gathering; returns the new number of choices. */
static unsigned int hero_policy_add(struct hero_fib_entry *entry, unsigned int count)
{
	if (count == HERO_CHOICES || entry->gathering == hero_gathering)
		return count;
	entry->gathering = hero_gathering;
	return count + hero_policy_allows(entry, &hero_choices[count]);
}

/* Adds routes of which a card has measured the rate. */
static unsigned int hero_policy_add_rated(const struct hero *hero, unsigned int count)
{
	struct hero_fib_entry *entry;
	unsigned int k;

	for (k = 0; k < hero->rated; k++) {
		entry = hero_fib_candidate(hero->rates[k].dst, hero->rates[k].len);
		if (entry)
			count = hero_policy_add(entry, count);
	}
	return count;
}

/**
 * hero_policy_gather() - Fills hero_choices with routes that may be on the fast path
 *
 * The shortest prefixes come first, in that order, and then what carries packets.
 *
 * Return: their number.
 */
unsigned int hero_policy_gather(void)
{
	unsigned int count = 0, looks = 0, len;
	struct hero_fib_entry *entry;
	struct hero *hero;

	if (!hero_fib_allowed() || !hero_linux_is_plain(&init_net, false))
		return 0;
	hero_gathering++;
	for (len = 0; len < HERO_PREFIXES; len++) {
		list_for_each_entry(entry, &hero_fib_candidates[len], list) {
			if (count == HERO_POLICY_PREFIXES || looks++ == HERO_POLICY_LOOKS)
				goto rated;
			count = hero_policy_add(entry, count);
		}
	}
rated:
	list_for_each_entry(hero, &hero_cards, list)
		count = hero_policy_add_rated(hero, count);
	return count;
}

/* Slots of a card that lead to one of its peers. */
static unsigned int hero_policy_places(const struct hero *from, unsigned int d)
{
	return from->peer_base[d] ? from->routes / HERO_PEERS + (d < from->routes % HERO_PEERS) : 0;
}

/* The route with the higher score gets a place. One that has a place keeps it until another one
 * carries clearly more, so that two like ones do not take turns.
 */
static u64 hero_policy_score(const struct hero *from, const struct hero_choice *choice)
{
	u64 least = (u64)from->min_rate * HERO_RATE_ONE, rate;

	if (from->policy == HERO_POLICY_PREFIX)
		return 0;
	rate = hero_rate_of(from, choice->entry->dst, choice->entry->len);
	if (hero_offload_has(from, choice))
		return rate + rate / 4 + least;
	return rate >= least ? rate : 0;
}

static int hero_rank_compare(const void *a, const void *b)
{
	const struct hero_rank *one = a, *other = b;

	if (one->score != other->score)
		return one->score > other->score ? -1 : 1;
	return (int)one->choice - other->choice;
}

/* Picks the choices for the slots that lead to a peer. Returns whether there are more of them. */
static bool hero_policy_pick_peer(struct hero *from, unsigned int d, unsigned int count)
{
	unsigned int places = hero_policy_places(from, d), ranks = 0, k;

	for (k = 0; k < count && places; k++) {
		if (hero_choices[k].to->pdev != from->peers[d])
			continue;
		hero_ranks[ranks].score = hero_policy_score(from, &hero_choices[k]);
		hero_ranks[ranks++].choice = k;
	}
	sort(hero_ranks, ranks, sizeof(*hero_ranks), hero_rank_compare, NULL);
	for (k = 0; k < min(ranks, places); k++)
		__set_bit(hero_ranks[k].choice, from->picked);
	return ranks > places;
}

/**
 * hero_policy_pick() - Picks the choices that are to be on a card, in its bitmap `picked`
 * @from: the card
 * @count: choices that there are
 */
void hero_policy_pick(struct hero *from, unsigned int count)
{
	bool contested = false;
	unsigned int d;

	bitmap_zero(from->picked, HERO_CHOICES);
	if (hero_may_come_in(from)) {
		for (d = 0; d < HERO_PEERS; d++)
			contested |= hero_policy_pick_peer(from, d, count);
	}
	hero_rate_measure(from, contested && from->policy == HERO_POLICY_RATE);
}
