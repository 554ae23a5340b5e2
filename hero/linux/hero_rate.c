// SPDX-License-Identifier: GPL-2.0
/* What routes carry, while more of them want places on a card than it has.
 *
 * The card counts for its own routes. What comes to the host is sampled where the driver receives
 * it: about one packet in `every`, of which only the destination is kept. Once a second the samples
 * are looked up in the copy of Linux's routes. A route that is new and carries little may push out
 * another such one, but none that carries much.
 */

#include <linux/ip.h>

#include "hero_fib.h"

#define HERO_RATE_PERIOD (HZ - HZ / 8)
/* The part of a new measurement in the rate. */
#define HERO_RATE_PART 4
#define HERO_RATE_RAREST 65536

/* Keeps the destination of a packet that the card might have forwarded. Called by NAPI. */
void hero_rate_sample(struct hero *hero, const struct sk_buff *skb)
{
	const struct iphdr *ip = (const struct iphdr *)skb->data;
	struct hero_sampler *sampler = &hero->sampler;
	u32 every = READ_ONCE(sampler->every);

	if (skb->protocol != htons(ETH_P_IP) || skb->pkt_type != PACKET_HOST ||
	    skb->len < sizeof(*ip) || ip->ihl != 5 || ip->ttl <= 1 || !every)
		return;
	/* more than a turn is left of a time with more packets */
	if (sampler->skip && sampler->skip < 2 * every) {
		sampler->skip--;
		return;
	}
	/* an even pace would see one flow alone out of several that take turns */
	sampler->skip = reciprocal_scale(get_random_u32(), 2 * every - 1);
	spin_lock(&sampler->lock);
	if (sampler->taken < HERO_SAMPLES)
		sampler->dst[sampler->taken] = get_unaligned_be32(&ip->daddr);
	sampler->taken++;
	spin_unlock(&sampler->lock);
}

static struct hero_rate *hero_rate_find(const struct hero *hero, u32 dst, u8 len)
{
	unsigned int k;

	for (k = 0; k < hero->rated; k++) {
		if (hero->rates[k].dst == dst && hero->rates[k].len == len)
			return (struct hero_rate *)&hero->rates[k];
	}
	return NULL;
}

/* What a route carries, in HERO_RATE_ONEths of a packet per second. */
u32 hero_rate_of(const struct hero *hero, u32 dst, u8 len)
{
	const struct hero_rate *rate = hero_rate_find(hero, dst, len);

	return rate ? rate->rate : 0;
}

static u64 hero_rate_weight(const struct hero_rate *rate)
{
	return rate->rate + (u64)rate->packets * HERO_RATE_ONE;
}

/* A route's place in the list; the weakest one loses its own if there is none left. */
static struct hero_rate *hero_rate_place(struct hero *hero, u32 dst, u8 len)
{
	struct hero_rate *rate = hero_rate_find(hero, dst, len);
	unsigned int k;

	if (rate)
		return rate;
	if (hero->rated < HERO_RATES) {
		rate = &hero->rates[hero->rated++];
	} else {
		rate = &hero->rates[0];
		for (k = 1; k < HERO_RATES; k++) {
			if (hero_rate_weight(&hero->rates[k]) < hero_rate_weight(rate))
				rate = &hero->rates[k];
		}
	}
	*rate = (struct hero_rate){ .dst = dst, .len = len };
	return rate;
}

/* What the card has forwarded by its routes since the last time. */
static void hero_rate_add_slots(struct hero *hero)
{
	struct hero_rate *rate;
	unsigned int slot;

	for (slot = 0; slot < hero->routes; slot++) {
		struct hero_route *route = &hero->route[slot];
		u64 more;

		if (!route->on)
			continue;
		spin_lock(&hero->cmd_lock);
		more = route->packets - route->rated;
		route->rated = route->packets;
		spin_unlock(&hero->cmd_lock);
		rate = hero_rate_place(hero, route->address, route->len);
		rate->packets += more;
		rate->held = true;
	}
}

/* What has come to the host instead. */
static void hero_rate_add_samples(struct hero *hero)
{
	struct hero_sampler *sampler = &hero->sampler;
	struct hero_fib_entry *entry;
	u32 stored, weight, k;

	spin_lock(&sampler->lock);
	stored = min_t(u32, sampler->taken, HERO_SAMPLES);
	weight = stored ? sampler->every * (sampler->taken / stored) : 0;
	for (k = 0; k < stored; k++) {
		entry = hero_fib_lookup(sampler->dst[k]);
		if (entry)
			hero_rate_place(hero, entry->dst, entry->len)->packets += weight;
	}
	/* half of the room for as many packets as have come now */
	weight = min_t(u64, (u64)sampler->every * sampler->taken / (HERO_SAMPLES / 2),
		       HERO_RATE_RAREST);
	WRITE_ONCE(sampler->every, max(weight, 1U));
	sampler->taken = 0;
	spin_unlock(&sampler->lock);
}

static void hero_rate_average(struct hero *hero, unsigned long elapsed)
{
	unsigned int k = hero->rated;

	while (k--) {
		struct hero_rate *rate = &hero->rates[k];
		u64 now = div_u64((u64)rate->packets * HERO_RATE_ONE * HZ, elapsed);

		now = min_t(u64, now, S32_MAX);
		rate->rate += ((s64)now - rate->rate) / HERO_RATE_PART;
		rate->packets = 0;
		if (!rate->held && rate->rate < HERO_RATE_ONE)
			*rate = hero->rates[--hero->rated];
		else
			rate->held = false;
	}
}

/**
 * hero_rate_update() - Measures anew what routes carry, if it is time for that
 * @hero: the card
 *
 * Needs the RTNL and hero_cards_lock, not hero_fib_lock.
 */
void hero_rate_update(struct hero *hero)
{
	unsigned long now = jiffies, elapsed = now - hero->rates_since;

	if (!hero->sampler.every || elapsed < HERO_RATE_PERIOD)
		return;
	if (test_bit(HERO_UP, &hero->flags))
		hero_card_read_routes(hero);
	spin_lock_bh(&hero_fib_lock);
	hero->rates_since = now;
	hero_rate_add_slots(hero);
	hero_rate_add_samples(hero);
	hero_rate_average(hero, elapsed);
	spin_unlock_bh(&hero_fib_lock);
}

/* Begins to measure, or ends it. */
void hero_rate_measure(struct hero *hero, bool on)
{
	struct hero_sampler *sampler = &hero->sampler;
	unsigned int slot;

	if (on == !!sampler->every)
		return;
	hero->rated = 0;
	hero->rates_since = jiffies;
	spin_lock(&sampler->lock);
	WRITE_ONCE(sampler->every, on);
	sampler->taken = 0;
	spin_unlock(&sampler->lock);
	spin_lock(&hero->cmd_lock);
	for (slot = 0; slot < hero->routes; slot++)
		hero->route[slot].rated = hero->route[slot].packets;
	spin_unlock(&hero->cmd_lock);
}
