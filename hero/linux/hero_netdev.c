// SPDX-License-Identifier: GPL-2.0
/* The card as a network device. */

#include <linux/ethtool.h>

#include "hero.h"

static int hero_open(struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);
	int err;

	netif_carrier_off(dev);
	err = hero_rx_open(hero);
	if (err)
		return err;
	err = hero_irq_request(hero);
	if (err)
		goto close;
	err = hero_up(hero);
	if (err)
		goto free;
	hero_fib_look();
	return 0;

free:
	hero_irq_free(hero);
close:
	hero_rx_close(hero);
	return err;
}

static int hero_stop(struct net_device *dev)
{
	struct hero *hero = netdev_priv(dev);

	hero_down(hero);
	hero_irq_free(hero);
	hero_rx_close(hero);
	return 0;
}

/* A card takes what is for any group, so only the promiscuous mode is a matter of the card. */
static void hero_set_rx_mode(struct net_device *dev)
{
	hero_card_set_promiscuous(netdev_priv(dev), dev->flags & IFF_PROMISC);
}

static int hero_set_mac_address(struct net_device *dev, void *address)
{
	int err = eth_mac_addr(dev, address);

	if (!err)
		hero_card_set_mac(netdev_priv(dev));
	return err;
}

static void hero_tx_timeout(struct net_device *dev, unsigned int queue)
{
	struct hero *hero = netdev_priv(dev);
	struct hero_tx *tx = &hero->tx;
	u64 word;

	netdev_err(dev, "%u frames wait, the card has %u of them, %s\n",
		   tx->filled - tx->ring.done, tx->ring.given - tx->ring.done,
		   hero_ring_next(&tx->ring, &word) ? "and told of one in vain" :
						      "and has sent none");
	hero_reset_later(hero, "the card sends nothing");
}

static void hero_rx_sum(const struct hero_rx *rx, struct rtnl_link_stats64 *sum)
{
	u64 packets, bytes, errors, no_buffer, dropped;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&rx->stats.sync);
		packets = u64_stats_read(&rx->stats.packets);
		bytes = u64_stats_read(&rx->stats.bytes);
		errors = u64_stats_read(&rx->stats.errors);
		no_buffer = u64_stats_read(&rx->stats.no_buffer);
		dropped = u64_stats_read(&rx->stats.xdp_drop);
	} while (u64_stats_fetch_retry(&rx->stats.sync, start));
	sum->rx_packets += packets;
	sum->rx_bytes += bytes;
	sum->rx_errors += errors;
	sum->rx_dropped += no_buffer + dropped;
}

/* What went through the host; packets of the fast path are among those of `ethtool -S`. The card's
 * counters are as old as the last look of the watch.
 */
static void hero_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *sum)
{
	struct hero *hero = netdev_priv(dev);
	const struct hero_tx *tx = &hero->tx;
	const u64 *count = hero->counters;
	unsigned int start, k;

	for (k = 0; k < HERO_PRIORITIES; k++)
		hero_rx_sum(&hero->rx[k], sum);
	do {
		start = u64_stats_fetch_begin(&tx->stats.sync);
		sum->tx_packets = u64_stats_read(&tx->stats.packets);
		sum->tx_bytes = u64_stats_read(&tx->stats.bytes);
		sum->tx_errors = u64_stats_read(&tx->stats.errors);
	} while (u64_stats_fetch_retry(&tx->stats.sync, start));
	sum->tx_dropped = u64_stats_read(&tx->dropped);
	spin_lock_bh(&hero->cmd_lock);
	sum->rx_crc_errors = count[HERO_COUNT_BAD_FCS];
	sum->rx_length_errors = count[HERO_COUNT_RUNT] + count[HERO_COUNT_GIANT];
	sum->rx_fifo_errors = count[HERO_COUNT_INPUT_FULL];
	sum->rx_missed_errors = count[HERO_COUNT_HOST_FULL];
	spin_unlock_bh(&hero->cmd_lock);
	sum->rx_errors += sum->rx_crc_errors + sum->rx_length_errors + sum->rx_fifo_errors;
}

const struct net_device_ops hero_netdev_ops = {
	.ndo_open = hero_open,
	.ndo_stop = hero_stop,
	.ndo_start_xmit = hero_tx_xmit,
	.ndo_set_rx_mode = hero_set_rx_mode,
	.ndo_set_mac_address = hero_set_mac_address,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_tx_timeout = hero_tx_timeout,
	.ndo_get_stats64 = hero_get_stats64,
	.ndo_set_features = hero_set_features,
	.ndo_setup_tc = hero_setup_tc,
	.ndo_bpf = hero_xdp,
	.ndo_xdp_xmit = hero_xdp_xmit,
};

/* Sets up the network device, before it is registered. */
void hero_netdev_init(struct hero *hero)
{
	struct net_device *dev = hero->dev;

	netif_napi_add(dev, &hero->rx_napi, hero_rx_poll);
	netif_napi_add_tx(dev, &hero->tx_napi, hero_tx_poll);
	dev->netdev_ops = &hero_netdev_ops;
	dev->ethtool_ops = &hero_ethtool_ops;
	dev->watchdog_timeo = 5 * HZ;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = HERO_MTU;
	/* most frames are copied, and that sums them up and gathers them, too */
	dev->hw_features = NETIF_F_SG | NETIF_F_HW_CSUM;
	dev->features = dev->hw_features | NETIF_F_HIGHDMA;
	dev->vlan_features = dev->hw_features;
	dev->hw_features |= NETIF_F_HW_TC;
	dev->features |= NETIF_F_HW_TC;
	hero_xdp_features(dev);
}
