// SPDX-License-Identifier: GPL-2.0
/* What ethtool asks: statistics, rings, registers, a self test. */

#include <linux/ethtool.h>

#include "hero.h"

static const char *const hero_counter_names[] = HERO_COUNTER_NAMES;

/* After the card's own counters, in the order of hero_get_ethtool_stats(); its slots follow. */
static const char *const hero_driver_names[] = {
	"fast_path",	       "to_host",	   "resets",
	"interrupts",	       "tx_copied",	   "tx_xdp",
	"rx_low_packets",      "rx_low_xdp_drop",  "rx_low_xdp_tx",
	"rx_low_xdp_redirect", "rx_low_no_buffer", "rx_high_packets",
	"rx_high_xdp_drop",    "rx_high_xdp_tx",   "rx_high_xdp_redirect",
	"rx_high_no_buffer",
};

static const char hero_test_names[][ETH_GSTRING_LEN] = {
	"identity  (on/offline)",
	"link      (on/offline)",
	"registers (offline)",
	"reset     (offline)",
};

enum hero_test { HERO_TEST_ID, HERO_TEST_LINK, HERO_TEST_REGISTERS, HERO_TEST_RESET, HERO_TESTS };

static void hero_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct hero *hero = netdev_priv(dev);

	strscpy(info->driver, KBUILD_MODNAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(hero->pdev), sizeof(info->bus_info));
	snprintf(info->fw_version, sizeof(info->fw_version), "interface %d", HERO_VERSION);
}

static int hero_get_sset_count(struct net_device *dev, int set)
{
	const struct hero *hero = netdev_priv(dev);

	switch (set) {
	case ETH_SS_STATS:
		return HERO_COUNTERS + ARRAY_SIZE(hero_driver_names) + hero->routes;
	case ETH_SS_TEST:
		return HERO_TESTS;
	default:
		return -EOPNOTSUPP;
	}
}

static void hero_get_strings(struct net_device *dev, u32 set, u8 *data)
{
	const struct hero *hero = netdev_priv(dev);
	unsigned int k;

	BUILD_BUG_ON(ARRAY_SIZE(hero_counter_names) != HERO_COUNTERS);
	BUILD_BUG_ON(ARRAY_SIZE(hero_test_names) != HERO_TESTS);
	switch (set) {
	case ETH_SS_STATS:
		for (k = 0; k < HERO_COUNTERS; k++)
			ethtool_sprintf(&data, "%s", hero_counter_names[k]);
		for (k = 0; k < ARRAY_SIZE(hero_driver_names); k++)
			ethtool_sprintf(&data, "%s", hero_driver_names[k]);
		for (k = 0; k < hero->routes; k++)
			ethtool_sprintf(&data, "fast_path_%u", k);
		break;
	case ETH_SS_TEST:
		memcpy(data, hero_test_names, sizeof(hero_test_names));
		break;
	}
}

static u64 *hero_get_rx_stats(const struct hero_rx *rx, u64 *data)
{
	const struct hero_rx_stats *stats = &rx->stats;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&stats->sync);
		data[0] = u64_stats_read(&stats->packets);
		data[1] = u64_stats_read(&stats->xdp_drop);
		data[2] = u64_stats_read(&stats->xdp_tx);
		data[3] = u64_stats_read(&stats->xdp_redirect);
		data[4] = u64_stats_read(&stats->no_buffer);
	} while (u64_stats_fetch_retry(&stats->sync, start));
	return data + 5;
}

static void hero_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct hero *hero = netdev_priv(dev);
	const struct hero_tx *tx = &hero->tx;
	unsigned int start;

	if (test_bit(HERO_UP, &hero->flags))
		hero_card_read_counters(hero);
	memcpy(data, hero->counters, sizeof(hero->counters));
	data += HERO_COUNTERS;
	*data++ = hero->fast;
	*data++ = hero->to_host;
	*data++ = hero->resets;
	*data++ = hero->interrupts;
	do {
		start = u64_stats_fetch_begin(&tx->stats.sync);
		data[0] = u64_stats_read(&tx->stats.copied);
		data[1] = u64_stats_read(&tx->stats.xdp_sent);
	} while (u64_stats_fetch_retry(&tx->stats.sync, start));
	data += 2;
	data = hero_get_rx_stats(&hero->rx[HERO_LOW], data);
	data = hero_get_rx_stats(&hero->rx[HERO_HIGH], data);
	memcpy(data, hero->slot_packets, hero->routes * sizeof(*data));
}

static int hero_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	ethtool_link_ksettings_zero_link_mode(settings, supported);
	ethtool_link_ksettings_add_link_mode(settings, supported, 1000baseT_Full);
	ethtool_link_ksettings_add_link_mode(settings, supported, TP);
	settings->base.speed = SPEED_1000;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_TP;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static void hero_get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			       struct kernel_ethtool_ringparam *kernel_ring,
			       struct netlink_ext_ack *extack)
{
	struct hero *hero = netdev_priv(dev);

	ring->rx_max_pending = HERO_SLOTS;
	ring->tx_max_pending = HERO_SLOTS;
	ring->rx_pending = hero->rx_limit;
	ring->tx_pending = hero->tx_limit;
}

/* The rings' memory does not change, only how much of it is used. So nothing is restarted. */
static int hero_set_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			      struct kernel_ethtool_ringparam *kernel_ring,
			      struct netlink_ext_ack *extack)
{
	struct hero *hero = netdev_priv(dev);

	if (ring->rx_mini_pending || ring->rx_jumbo_pending)
		return -EINVAL;
	if (ring->rx_pending < HERO_VECTOR || ring->tx_pending < 2 * HERO_VECTOR) {
		NL_SET_ERR_MSG(extack, "at least 32 to receive and 64 to send");
		return -EINVAL;
	}
	/* the card gets whole vectors of receive buffers */
	WRITE_ONCE(hero->rx_limit, round_down(ring->rx_pending, HERO_VECTOR));
	WRITE_ONCE(hero->tx_limit, ring->tx_pending);
	return 0;
}

static int hero_get_regs_len(struct net_device *dev)
{
	return HERO_REGISTERS * sizeof(u32);
}

/* All registers; that which a read clears, and those that can only be written, as 0. */
static void hero_get_regs(struct net_device *dev, struct ethtool_regs *regs, void *data)
{
	struct hero *hero = netdev_priv(dev);
	u32 *words = data;
	unsigned int reg;

	regs->version = HERO_VERSION;
	for (reg = 0; reg < HERO_REGISTERS; reg++) {
		switch (reg) {
		case HERO_IRQ_MASKED:
		case HERO_RXLO_DESC:
		case HERO_RXHI_DESC:
		case HERO_TX_DESC:
			words[reg] = 0;
			break;
		default:
			words[reg] = hero_read(hero, reg);
		}
	}
}

/* Whether registers keep what is written; the card is in use by nobody. */
static bool hero_test_registers(struct hero *hero)
{
	static const struct {
		u8 reg;
		u32 bits;
	} tests[] = {
		{ HERO_MAC_LOW, U32_MAX },
		{ HERO_MAC_HIGH, 0x3ffff },
		{ HERO_CPL_BASE, ~(HERO_CPL_OCTETS - 1) },
		{ HERO_PEER_BASE, U32_MAX },
		{ HERO_PEER_BASE + 1, U32_MAX },
		{ HERO_PEER_BASE + 2, U32_MAX },
	};
	static const u32 patterns[] = { 0x5a5a5a5a, 0xa5a5a5a5, U32_MAX, 0 };
	unsigned int t, p;

	for (p = 0; p < ARRAY_SIZE(patterns); p++) {
		for (t = 0; t < ARRAY_SIZE(tests); t++)
			hero_write(hero, tests[t].reg, patterns[p]);
		for (t = 0; t < ARRAY_SIZE(tests); t++) {
			if (hero_read(hero, tests[t].reg) != (patterns[p] & tests[t].bits))
				return false;
		}
	}
	return true;
}

static void hero_self_test(struct net_device *dev, struct ethtool_test *test, u64 *results)
{
	struct hero *hero = netdev_priv(dev);
	bool running = test_bit(HERO_UP, &hero->flags);
	unsigned int k;

	memset(results, 0, HERO_TESTS * sizeof(*results));
	results[HERO_TEST_ID] = hero_read(hero, HERO_ID) != HERO_ID_VALUE;
	results[HERO_TEST_LINK] = !(hero_read(hero, HERO_STATUS) & HERO_STATUS_LINK);
	if (test->flags & ETH_TEST_FL_OFFLINE) {
		hero_down(hero);
		results[HERO_TEST_REGISTERS] = !hero_test_registers(hero);
		results[HERO_TEST_RESET] = hero_card_reset(hero) || hero_read(hero, HERO_CPL_BASE);
		if (running)
			results[HERO_TEST_RESET] |= !!hero_up(hero);
		else
			hero_card_set_mac(hero);
		hero_fib_look();
	}
	for (k = 0; k < HERO_TESTS; k++) {
		if (results[k])
			test->flags |= ETH_TEST_FL_FAILED;
	}
}

static u32 hero_get_msglevel(struct net_device *dev)
{
	return ((struct hero *)netdev_priv(dev))->msg_enable;
}

static void hero_set_msglevel(struct net_device *dev, u32 level)
{
	((struct hero *)netdev_priv(dev))->msg_enable = level;
}

/* `ethtool -r`: there is nothing to negotiate, but a reset may help. */
static int hero_nway_reset(struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);

	if (!netif_running(dev))
		return -EINVAL;
	hero_reset_later(hero, "a reset was asked for");
	return 0;
}

const struct ethtool_ops hero_ethtool_ops = {
	.get_drvinfo = hero_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = hero_get_link_ksettings,
	.get_sset_count = hero_get_sset_count,
	.get_strings = hero_get_strings,
	.get_ethtool_stats = hero_get_ethtool_stats,
	.get_ringparam = hero_get_ringparam,
	.set_ringparam = hero_set_ringparam,
	.get_regs_len = hero_get_regs_len,
	.get_regs = hero_get_regs,
	.self_test = hero_self_test,
	.get_msglevel = hero_get_msglevel,
	.set_msglevel = hero_set_msglevel,
	.nway_reset = hero_nway_reset,
	.get_ts_info = ethtool_op_get_ts_info,
};
