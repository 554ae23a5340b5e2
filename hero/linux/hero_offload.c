// SPDX-License-Identifier: GPL-2.0
/* Which routes are on the fast path of which cards. A card takes the first match, not the longest,
 * has few places, and can do nothing but forward; so a route gets a place only where that is what
 * Linux does with all its packets.
 */

#include <linux/inetdevice.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/arp.h>
#include <net/sch_generic.h>

#include "hero_fib6.h"

/* Candidates that are looked at, the shortest prefixes first because most packets meet them. */
#define HERO_OFFLOAD_LOOKS 2048
/* Places for all cards of a bus, and more than that. */
#define HERO_OFFLOAD_MOST 128

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
};

/* A route that may have slots. */
struct hero_choice {
	struct hero_fib_entry *entry;
	struct hero *to;
	__be32 gateway;
	u8 mac[ETH_ALEN];
	bool used;
};

static LIST_HEAD(hero_offloads);
/* Entries that `ip route` shows as offloaded. */
static LIST_HEAD(hero_marked);
static struct hero_choice hero_choices[HERO_OFFLOAD_MOST];

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

static bool hero_neighbour_is_good(struct neighbour *neighbour)
{
	return !neighbour->dead && READ_ONCE(neighbour->nud_state) & NUD_VALID;
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

#ifdef CONFIG_NETFILTER
/* AppArmor, which looks at packets of this machine's programs alone, has a hook on all of Debian's
 * kernels. Nothing else of the kernel has one with its priority there.
 */
static bool hero_hook_is_apparmor(const struct nf_hook_ops *ops)
{
	return ops->hooknum == NF_INET_POST_ROUTING && ops->priority == NF_IP_PRI_SELINUX_FIRST &&
	       ops->hook_ops_type == NF_HOOK_OP_UNDEFINED;
}

/* Whether netfilter sees packets in transit. */
static bool hero_has_hooks(struct net *net, bool ip6)
{
	static const u8 hooks[] = { NF_INET_PRE_ROUTING, NF_INET_FORWARD, NF_INET_POST_ROUTING };
	struct nf_hook_entries __rcu **chains = ip6 ? net->nf.hooks_ipv6 : net->nf.hooks_ipv4;
	const struct nf_hook_entries *entries;
	bool found = false;
	unsigned int k, n;

	rcu_read_lock();
	for (k = 0; k < ARRAY_SIZE(hooks); k++) {
		entries = rcu_dereference(chains[hooks[k]]);
		for (n = 0; entries && n < entries->num_hook_entries; n++)
			found |= !hero_hook_is_apparmor(nf_hook_entries_get_hook_ops(entries)[n]);
	}
	rcu_read_unlock();
	return found;
}
#else
static bool hero_has_hooks(struct net *net, bool ip6)
{
	return false;
}
#endif

/* Whether Linux does nothing with packets in transit but forward them. */
bool hero_linux_is_plain(struct net *net, bool ip6)
{
#ifdef CONFIG_XFRM
	if (READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_FWD]) ||
	    READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_OUT]))
		return false;
#endif
	return !hero_has_hooks(net, ip6);
}

/* Whether nothing but routing happens at a card's device. */
bool hero_device_is_plain(struct net_device *dev)
{
	return netif_running(dev) && net_eq(dev_net(dev), &init_net) &&
	       !netdev_master_upper_dev_get(dev) && !rcu_access_pointer(dev->rx_handler) &&
	       !hero_has_filters(dev);
}

static bool hero_may_come_in(struct hero *hero)
{
	struct in_device *in_dev = __in_dev_get_rtnl(hero->dev);

	return test_bit(HERO_UP, &hero->flags) && hero->fast_path &&
	       hero_device_is_plain(hero->dev) && in_dev && IN_DEV_FORWARD(in_dev) &&
	       !IN_DEV_RPFILTER(in_dev) && !rtnl_dereference(hero->xdp);
}

/* A card can neither fragment nor queue; a queueing discipline with a handle was chosen. */
bool hero_may_go_out(struct hero *hero)
{
	struct net_device *dev = hero->dev;

	return test_bit(HERO_UP, &hero->flags) && hero_device_is_plain(dev) &&
	       netif_carrier_ok(dev) && dev->mtu >= HERO_MTU &&
	       !rtnl_dereference(dev->qdisc)->handle;
}

/* Addresses that no router forwards. */
static bool hero_is_special(u32 dst, u8 len)
{
	u32 last = dst | ~hero_fib_mask(len);

	return dst < 0x01000000 || last >= 0xe0000000 || (dst < 0x80000000 && last >= 0x7f000000);
}

/* Whether a route may be on the fast path, and how. */
static bool hero_offload_choose(struct hero_fib_entry *entry, struct hero_choice *choice)
{
	const struct fib_nh_common *hop = &entry->info->fib_nh[0].nh_common;
	u32 mtu = entry->info->fib_mtu;
	struct neighbour *neighbour;
	u8 mac[MAX_ADDR_LEN];
	bool good;

	choice->entry = entry;
	choice->to = netdev_priv(hop->nhc_dev);
	choice->gateway = hop->nhc_gw.ipv4;
	choice->used = false;
	if (hop->nhc_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) || (mtu && mtu < HERO_MTU) ||
	    hero_is_special(entry->dst, entry->len) || !hero_may_go_out(choice->to) ||
	    !hero_fib_is_alone(entry))
		return false;
	neighbour = neigh_lookup(&arp_tbl, &choice->gateway, hop->nhc_dev);
	if (!neighbour)
		return false;
	good = hero_neighbour_is_good(neighbour);
	neigh_ha_snapshot(mac, neighbour, hop->nhc_dev);
	ether_addr_copy(choice->mac, mac);
	neigh_release(neighbour);
	return good && is_valid_ether_addr(mac);
}

/* Linux sees no packets to these neighbours, so it is told that they are needed. */
static void hero_offload_keep_neighbours(unsigned int count)
{
	unsigned int k;

	for (k = 0; k < count; k++) {
		const struct hero_choice *choice = &hero_choices[k];
		struct neighbour *neighbour;

		if (!choice->used)
			continue;
		neighbour = neigh_lookup(&arp_tbl, &choice->gateway, choice->to->dev);
		if (neighbour) {
			neigh_event_send(neighbour, NULL);
			neigh_release(neighbour);
		}
	}
}

static unsigned int hero_offload_gather(void)
{
	unsigned int count = 0, looks = 0, len;
	struct hero_fib_entry *entry;

	if (!hero_fib_allowed() || !hero_linux_is_plain(&init_net, false))
		return 0;
	for (len = 0; len < HERO_PREFIXES; len++) {
		list_for_each_entry(entry, &hero_fib_candidates[len], list) {
			if (count == HERO_OFFLOAD_MOST || looks++ == HERO_OFFLOAD_LOOKS)
				return count;
			count += hero_offload_choose(entry, &hero_choices[count]);
		}
	}
	return count;
}

/* The slot of a card that has a route as chosen. */
static struct hero_offload *hero_offload_find(struct hero *from, const struct hero_choice *choice)
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

/* Slots of a card that lead to one of its peers. */
static unsigned int hero_offload_places(const struct hero *from, unsigned int d)
{
	return from->routes / HERO_PEERS + (d < from->routes % HERO_PEERS);
}

/* Fills the free slots of a card that lead to one of its peers. The first choices for it have a
 * slot already, or get one.
 */
static void hero_offload_fill(struct hero *from, unsigned int d, unsigned int count)
{
	unsigned int places = hero_offload_places(from, d);
	unsigned int slot = d, k;

	for (k = 0; k < count && places; k++) {
		struct hero_choice *choice = &hero_choices[k];

		if (choice->to->pdev != from->peers[d])
			continue;
		places--;
		if (hero_offload_find(from, choice)) {
			choice->used = true;
			continue;
		}
		while (slot < from->routes && from->route[slot].on)
			slot += HERO_PEERS;
		if (slot < from->routes)
			hero_offload_set(from, slot, choice);
	}
}

/* Whether a slot's route is still one of the first choices for its card. */
static bool hero_offload_is_chosen(const struct hero_offload *offload, unsigned int count)
{
	struct hero *from = offload->from;
	unsigned int places = hero_offload_places(from, offload->slot % HERO_PEERS), k;

	if (!hero_may_come_in(from))
		return false;
	for (k = 0; k < count && places; k++) {
		if (hero_choices[k].to != offload->to)
			continue;
		places--;
		if (hero_offload_find(from, &hero_choices[k]) == offload)
			return true;
	}
	return false;
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
	struct hero_offload *offload, *next;
	unsigned int count, d;
	struct hero *from;

	rtnl_lock();
	mutex_lock(&hero_cards_lock);
	spin_lock_bh(&hero_fib_lock);
	count = hero_offload_gather();
	list_for_each_entry_safe(offload, next, &hero_offloads, list) {
		if (!hero_offload_is_chosen(offload, count))
			hero_offload_clear(offload);
	}
	list_for_each_entry(from, &hero_cards, list) {
		if (!hero_may_come_in(from))
			continue;
		for (d = 0; d < HERO_PEERS; d++) {
			if (from->peer_base[d])
				hero_offload_fill(from, d, count);
		}
	}
	hero_offload_mark_all(count);
	hero_offload6_choose();
	spin_unlock_bh(&hero_fib_lock);
	hero_offload_keep_neighbours(count);
	hero_offload6_mark();
	mutex_unlock(&hero_cards_lock);
	rtnl_unlock();
}
