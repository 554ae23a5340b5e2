// SPDX-License-Identifier: GPL-2.0
/* debugfs: hero/ADDRESS/routes, what is in a card's slots, and what else carries packets. */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "hero_fib.h"

static struct dentry *hero_debug_root;

static void hero_debug_slots(struct seq_file *out, struct hero *hero)
{
	unsigned int slot;
	__be32 address;

	for (slot = 0; slot < hero->routes; slot++) {
		const struct hero_route *route = &hero->route[slot];

		if (!route->on)
			continue;
		address = cpu_to_be32(route->address);
		seq_printf(out, "slot %u: %pI4/%u to %s %pM, %llu packets, %u/s\n", slot, &address,
			   route->len, pci_name(hero->peers[slot % HERO_PEERS]), route->mac,
			   route->packets,
			   hero_rate_of(hero, route->address, route->len) / HERO_RATE_ONE);
	}
}

static void hero_debug_slots6(struct seq_file *out, struct hero *hero)
{
	unsigned int slot;

	for (slot = 0; slot < hero->routes6; slot++) {
		const struct hero_route6 *route = &hero->route6[slot];

		if (route->on)
			seq_printf(out, "slot6 %u: %pI6c/%u to %s %pM\n", slot, &route->address,
				   route->len, pci_name(hero->peers[route->peer]), route->mac);
	}
}

static void hero_debug_rates(struct seq_file *out, const struct hero *hero)
{
	unsigned int slot, k;
	__be32 address;

	for (k = 0; k < hero->rated; k++) {
		const struct hero_rate *rate = &hero->rates[k];

		for (slot = 0; slot < hero->routes; slot++) {
			if (hero->route[slot].on && hero->route[slot].address == rate->dst &&
			    hero->route[slot].len == rate->len)
				break;
		}
		if (slot < hero->routes)
			continue;
		address = cpu_to_be32(rate->dst);
		seq_printf(out, "host: %pI4/%u, %u/s\n", &address, rate->len,
			   rate->rate / HERO_RATE_ONE);
	}
}

static int hero_debug_routes_show(struct seq_file *out, void *unused)
{
	struct hero *hero = out->private;

	spin_lock_bh(&hero_fib_lock);
	spin_lock(&hero->cmd_lock);
	hero_debug_slots(out, hero);
	hero_debug_slots6(out, hero);
	spin_unlock(&hero->cmd_lock);
	hero_debug_rates(out, hero);
	spin_unlock_bh(&hero_fib_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hero_debug_routes);

void hero_debug_open(struct hero *hero)
{
	hero->debug = debugfs_create_dir(pci_name(hero->pdev), hero_debug_root);
	debugfs_create_file("routes", 0400, hero->debug, hero, &hero_debug_routes_fops);
}

void hero_debug_close(struct hero *hero)
{
	debugfs_remove_recursive(hero->debug);
}

void hero_debug_init(void)
{
	hero_debug_root = debugfs_create_dir(KBUILD_MODNAME, NULL);
}

void hero_debug_exit(void)
{
	debugfs_remove_recursive(hero_debug_root);
}
